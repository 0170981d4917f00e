//! Where no thread may be when entries change: strictly inside a window.

use std::ops::Range;

use super::zones::Zones;
use heapattach_process::addr::RemoteAddr;

/// The insides of all windows of one patch. Made for asking about every word of every stack: almost
/// all words fail the first comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepOut {
    insides: Zones,
}

impl KeepOut {
    /// From the windows as [`super::EntryPlan::window_at`] places them.
    pub fn new(windows: impl IntoIterator<Item = Range<RemoteAddr>>) -> Self {
        let inside = |w: Range<RemoteAddr>| w.start.get().saturating_add(1)..w.end.get();
        Self { insides: Zones::new(windows.into_iter().map(inside)) }
    }

    /// Whether `word`, a pc or a word of a stack, points into a window past its first byte. A pc on
    /// the first byte is fine: that thread runs the hook next.
    #[inline]
    pub fn strictly_inside(&self, word: u64) -> bool {
        self.insides.contains(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep_out(windows: &[(u64, u64)]) -> KeepOut {
        KeepOut::new(windows.iter().map(|&(a, b)| RemoteAddr::new(a)..RemoteAddr::new(b)))
    }

    #[test]
    fn the_first_byte_and_the_end_of_a_window_are_outside() {
        let keep_out = keep_out(&[(0x100, 0x107), (0x40, 0x45)]);
        let inside: Vec<_> = (0..0x200).filter(|&word| keep_out.strictly_inside(word)).collect();
        assert_eq!(inside, (0x41..0x45).chain(0x101..0x107).collect::<Vec<_>>());
    }

    #[test]
    fn no_window_forbids_nothing_and_odd_ones_do_not_panic() {
        assert!(!keep_out(&[]).strictly_inside(0));
        let odd = keep_out(&[(u64::MAX, u64::MAX), (9, 3)]);
        assert!(!odd.strictly_inside(u64::MAX) && !odd.strictly_inside(5));
    }
}
