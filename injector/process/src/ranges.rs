//! Ranges of memory, ascending: what is in several of them, or in some and not in others.

use std::{iter::Peekable, ops::Range};

/// Ranges that touch or overlap become one.
pub fn joined(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    near(ranges, 0)
}

/// The same of those that have less than so many bytes between them.
pub fn near(ranges: impl IntoIterator<Item = Range<u64>>, bytes: u64) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(bytes) => {
                last.end = last.end.max(range.end);
            }
            _ => all.push(range),
        }
    }
    all
}

/// What is in one of these and in none of `others`; each range by itself.
pub fn minus<'r>(
    ranges: impl IntoIterator<Item = &'r Range<u64>>,
    others: &[Range<u64>],
) -> Vec<Range<u64>> {
    let (mut all, mut others) = (Vec::new(), others.iter().peekable());
    for range in ranges {
        let mut from = range.start;
        each_in(range, &mut others, |other| {
            if from < other.start {
                all.push(from..other.start);
            }
            from = from.max(other.end);
        });
        if from < range.end {
            all.push(from..range.end);
        }
    }
    all
}

/// What is in one of these and in one of `others`; each range by itself.
pub fn both<'r>(
    ranges: impl IntoIterator<Item = &'r Range<u64>>,
    others: &[Range<u64>],
) -> Vec<Range<u64>> {
    let (mut all, mut others) = (Vec::new(), others.iter().peekable());
    for range in ranges {
        each_in(range, &mut others, |other| {
            let part = range.start.max(other.start)..range.end.min(other.end);
            if part.start < part.end {
                all.push(part);
            }
        });
    }
    all
}

/// Says those of the others that have a part of a range; those that end in it are done with.
fn each_in<'r>(
    range: &Range<u64>,
    others: &mut Peekable<impl Iterator<Item = &'r Range<u64>>>,
    mut say: impl FnMut(&Range<u64>),
) {
    while let Some(other) = others.peek().filter(|other| other.start < range.end) {
        if other.end > range.start {
            say(other);
        }
        if other.end > range.end {
            break;
        }
        others.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
        ranges.into_iter().collect()
    }

    #[test]
    fn what_touches_or_is_near_becomes_one() {
        assert_eq!(joined([1..2, 2..4, 5..6, 5..9, 6..7]), [1..4, 5..9]);
        assert_eq!(near([1..2, 4..5, 8..9], 2), [1..5, 8..9]);
    }

    #[test]
    fn ranges_are_cut_by_others_each_by_itself() {
        let ranges = all([0..10, 10..20, 30..40, 50..60]);
        let others = all([2..4, 8..12, 14..15, 19..35, 45..48, 50..60]);
        assert_eq!(minus(&ranges, &others), [0..2, 4..8, 12..14, 15..19, 35..40]);
        let parts = [2..4, 8..10, 10..12, 14..15, 19..20, 30..35, 50..60];
        assert_eq!(both(&ranges, &others), parts);
        assert_eq!(minus(&ranges, &[]), ranges);
        assert_eq!(both(&ranges, &[]), []);
    }
}
