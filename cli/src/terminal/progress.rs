//! Something that moves while the user waits: on a terminal, on standard error, and nowhere else.

use std::{io::IsTerminal, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use heapattach_view::knows_colours;

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
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}
