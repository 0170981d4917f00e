//! Something that moves while the user waits: on a terminal, on standard error, and nowhere else.

use std::{
    fmt::Write,
    io::IsTerminal,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use heapattach_text::quantity::{bytes, clock};
use heapattach_view::{bar, knows_colours};

/// How often it moves.
const TICK: Duration = Duration::from_millis(120);
/// Columns of a bar.
const WIDTH: usize = 20;

/// A bar that says what is being done and for how long.
pub fn spinner(what: &str) -> ProgressBar {
    // It moves by the same sequences that change colours.
    let is_able = knows_colours(std::env::var_os("TERM").as_deref());
    if !std::io::stderr().is_terminal() || !is_able {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}") {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(TICK);
    bar
}

/// A bar of so many bytes, of which so many were read.
pub fn of_reading(what: &str, bytes_read: &Arc<AtomicU64>, all: u64) -> ProgressBar {
    let bar = spinner(what);
    let bytes_read = Arc::clone(bytes_read);
    #[allow(clippy::cast_precision_loss)]
    let part = move || bytes_read.load(Relaxed) as f64 / all.max(1) as f64;
    let drawn = move |_: &ProgressState, out: &mut dyn Write| write_part(out, part());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {drawn} {msg}") {
        bar.set_style(style.with_key("drawn", drawn));
    }
    bar
}

/// A bar that says how many bytes were read, where their sum is not known before.
pub fn of_counting(what: &str, bytes_read: &Arc<AtomicU64>) -> ProgressBar {
    let bar = spinner(what);
    let bytes_read = Arc::clone(bytes_read);
    let drawn = move |_: &ProgressState, out: &mut dyn Write| {
        let _ = write!(out, "{} read", bytes(bytes_read.load(Relaxed)));
    };
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}: {drawn}") {
        bar.set_style(style.with_key("drawn", drawn));
    }
    bar
}

/// A bar that says how many bytes were written.
pub fn of_writing(what: &str) -> ProgressBar {
    let bar = spinner(what);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {bytes} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// From now on the bar tells how much of this time is left.
pub fn count_down(bar: &ProgressBar, duration: Duration) {
    let began = Instant::now();
    let part = move || began.elapsed().as_secs_f64() / duration.as_secs_f64().max(f64::EPSILON);
    let left = move |_: &ProgressState, out: &mut dyn Write| {
        let left = duration.saturating_sub(began.elapsed());
        let left = Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0));
        let _ = write!(out, "{} left", clock(left).replace(".0 s", " s"));
    };
    let drawn = move |_: &ProgressState, out: &mut dyn Write| write_part(out, part());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {drawn} {left}  {msg}") {
        bar.set_style(style.with_key("drawn", drawn).with_key("left", left));
    }
}

fn write_part(out: &mut dyn Write, part: f64) {
    let _ = write!(out, "▕{:<WIDTH$}▏", bar(part.clamp(0.0, 1.0), WIDTH));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_drawn_as_long_as_it_is() {
        let drawn = |part| {
            let mut text = String::new();
            write_part(&mut text, part);
            text
        };
        assert_eq!(drawn(0.5), format!("▕{:<20}▏", "█".repeat(10)));
        assert_eq!((drawn(7.0), drawn(-1.0)), (drawn(1.0), drawn(0.0)));
        assert_eq!(drawn(f64::NAN).chars().count(), 22);
    }
}
