//! Goroutines when a session begins and when it ends: their stacks are not in the profile, and those that wait for ever
//! are a leak that it cannot show.

use heapattach_census::counters::Numbers;
use heapattach_golang::figures::Figures;
use heapattach_text::quantity::{bytes, counted};

use super::found::Found;

/// Less growth than this is not told.
const LEAST: u64 = 50;
const LEAST_STACKS: u64 = 1 << 20;

/// How many there are, and the bytes of their stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    number: u64,
    stacks: u64,
}

impl Count {
    fn of(numbers: &Numbers) -> Option<Self> {
        Some(Self {
            number: *numbers.get("NumGoroutine")?,
            stacks: *numbers.get("goroutines.stacks")?,
        })
    }
}

/// Goroutines of a program that runs.
pub struct Goroutines {
    figures: Figures,
    first: Count,
}

impl Goroutines {
    /// Counts them; `None` where the release does not let it.
    pub fn begin(found: &Found) -> Option<Self> {
        let figures = found.figures()?;
        let first = count(&figures, found)?;
        Some(Self { figures, first })
    }

    /// How many came, if that is much.
    pub fn growth(&self, found: &Found) -> Option<String> {
        told(self.first, count(&self.figures, found)?, found.pid())
    }
}

fn count(figures: &Figures, found: &Found) -> Option<Count> {
    found.at_moment(|moment| Count::of(&figures.read(moment)?.stats)).flatten()
}

fn told(first: Count, last: Count, pid: i32) -> Option<String> {
    let is_more = last.number >= first.number.saturating_add(LEAST);
    let is_larger = last.stacks >= first.stacks.saturating_add(LEAST_STACKS);
    (is_more || (is_larger && last.number > first.number)).then(|| {
        format!(
            "stacks of goroutines: {} of {}, and {} of {} when this began; heapattach heap -p {pid} --view go tells \
             which wait for ever",
            bytes(last.stacks),
            counted(last.number, "goroutine"),
            bytes(first.stacks),
            counted(first.number, "goroutine"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growth_is_told() {
        let count = |number, stacks| Count { number, stacks };
        assert_eq!(told(count(10, 20_000), count(12, 24_000), 1), None);
        assert_eq!(told(count(100, 4 << 20), count(60, 9 << 20), 1), None);
        let text = told(count(10, 20_000), count(500, 16 << 20), 4711).unwrap();
        assert!(text.starts_with("stacks of goroutines: 16.0 MiB of 500 goroutines"), "{text}");
        assert!(text.contains("heap -p 4711 --view go"), "{text}");
    }
}
