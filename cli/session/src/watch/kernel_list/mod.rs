//! The kernel's own list of mappings beside what was recorded: what system calls of the program's own mapped
//! or unmapped, by no function that is hooked.
//!
//! ```text
//! before the attach   before the detach   after it     recorded as live
//!        -                   x               x                -           mapped by no hooked function
//!                            -               -                x           unmapped by no hooked function
//! ```
//!
//! The program runs meanwhile: two lists with the end of the hooks between them tell apart what merely came or
//! went just then. Nothing is stopped for it. Of a program that ends in the session there is no list at its end:
//! [`Looks`] compares while it runs, and what the last look found is told with its time.

mod looks;
mod question;
pub mod spread;

use std::ops::Range;

use heapattach_ledger::Unhooked;
use heapattach_process::proc::maps;
use heapattach_profile::Profile;

pub use looks::Looks;
pub use question::Recorded;
use question::{Answer, Question};
use spread::{is_ours, kind};

/// Mappings that are told one by one.
const TOLD: usize = 8;
/// Less is not worth a word.
const LEAST: u64 = 64 << 10;

/// The list of a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelList {
    /// What can be touched, ascending.
    ranges: Vec<(Range<u64>, String)>,
    /// All there is, ascending.
    all: Vec<Range<u64>>,
    /// Whether our own memory is among them: it is the process that was attached to, not what it has
    /// become by exec.
    has_ours: bool,
}

impl KernelList {
    /// Without what we have mapped: there, and what is named as ours. Empty if the process is gone.
    pub fn of(maps: &[maps::Mapping<'_>], home: &Range<u64>) -> Self {
        let is_ours = |map: &maps::Mapping<'_>| is_ours(map, home);
        let range = |map: &maps::Mapping<'_>| map.range.start.get()..map.range.end.get();
        // What the heap of brk grows by is known otherwise; it may have no block that was sampled.
        let is_other = |map: &&maps::Mapping<'_>| !is_ours(map) && map.label() != "[heap]";
        let others = maps.iter().filter(is_other).filter(|map| map.readable || map.writable);
        let ranges = others.map(|map| {
            let label = map.label().to_string_lossy();
            let name = if label.starts_with('/') { label.into_owned() } else { String::new() };
            (range(map), if name.is_empty() { kind(map).to_owned() } else { name })
        });
        let all = maps.iter().map(range).collect();
        Self { ranges: ranges.collect(), all, has_ours: maps.iter().any(is_ours) }
    }
}

impl KernelList {
    /// The ranges that are not all in an earlier list.
    fn beyond(&self, earlier: &Self) -> Vec<Range<u64>> {
        let ranges = self.ranges.iter().map(|(range, _)| range);
        ranges.filter(|range| !without(range, &earlier.all).is_empty()).cloned().collect()
    }
}

/// What came and went by no hooked function.
#[derive(Debug)]
pub struct Judgement {
    /// The largest mappings that came, and the bytes of all.
    pub unhooked: (Vec<Unhooked>, u64),
    /// What is recorded as mapped, and is not there.
    pub vanished: Vec<Range<u64>>,
}

/// The lists around the end of a session.
#[derive(Debug)]
pub struct Comparison {
    /// Before the attach.
    pub before: KernelList,
    /// While the hooks still counted.
    pub during: KernelList,
    /// When they no longer did.
    pub after: KernelList,
}

impl Comparison {
    /// Whether it can be told at all: all lists are of one program.
    pub fn is_sound(&self) -> bool {
        let has_all = [&self.before, &self.during, &self.after].map(|list| !list.ranges.is_empty());
        self.during.has_ours && has_all.iter().all(|has| *has)
    }

    /// What was mapped by no hooked function, of `recorded` live ranges, ascending, and of what has none of
    /// these `blocks`, which an allocator has mapped for itself: the largest, and the bytes of all.
    fn mapped(
        &self,
        recorded: &[Range<u64>],
        blocks: impl Iterator<Item = u64>,
    ) -> (Vec<Unhooked>, u64) {
        let (before, after) = (&self.before.all, &self.after.all);
        let mut found: Vec<(&Range<u64>, &str, u64)> = Vec::new();
        for (range, kind) in &self.during.ranges {
            let new = without(range, before).into_iter().flat_map(|part| without(&part, recorded));
            let bytes: u64 = new.flat_map(|part| overlaps(&part, after)).map(length).sum();
            if bytes >= LEAST {
                found.push((range, kind, bytes));
            }
        }
        for block in blocks {
            let at = found.partition_point(|(range, ..)| range.end <= block);
            if let Some((range, _, bytes)) = found.get_mut(at)
                && range.contains(&block)
            {
                *bytes = 0;
            }
        }
        found.retain(|(.., bytes)| *bytes > 0);
        let sum = found.iter().fold(0_u64, |sum, (.., bytes)| sum.saturating_add(*bytes));
        let told = found.into_iter().map(|(range, kind, bytes)| Unhooked {
            kind: kind.to_owned(),
            start: range.start,
            bytes,
        });
        let mut told: Vec<Unhooked> = told.collect();
        told.sort_by_key(|one| (std::cmp::Reverse(one.bytes), one.start));
        told.truncate(TOLD);
        (told, sum)
    }

    /// What was mapped, and unmapped, by no hooked function, where all records that are later than the list
    /// `during` have a higher stamp than this.
    pub fn judge(&self, profile: &Profile, stamp: u64) -> Judgement {
        let answer = Answer::of(profile, &Question { ranges: Vec::new(), since: stamp });
        let recorded: Vec<_> = answer.ranges.into_iter().map(|(range, _)| range).collect();
        // What is in two lists may be two mappings of a hooked function, one after the other.
        let gone = answer.unmapped.unwrap_or_default();
        let known = union([&recorded[..], &gone].concat());
        let blocks = profile.live_blocks().map(|block| block.at);
        let vanished = self.vanished(&recorded).into_iter();
        Judgement {
            unhooked: self.mapped(&known, blocks),
            vanished: vanished.flat_map(|range| without(&range, &gone)).collect(),
        }
    }

    /// What was recorded as live, and the kernel does not have.
    fn vanished(&self, recorded: &[Range<u64>]) -> Vec<Range<u64>> {
        let gone = recorded.iter().flat_map(|range| without(range, &self.during.all));
        gone.flat_map(|part| without(&part, &self.after.all)).collect()
    }
}

fn length(range: Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// What of a range is in none of these, which ascend.
fn without(range: &Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    let mut at = range.start;
    for other in touching(range, others) {
        if other.start > at {
            left.push(at..other.start);
        }
        at = at.max(other.end);
    }
    if at < range.end {
        left.push(at..range.end);
    }
    left
}

/// What of a range is in any of these.
fn overlaps(range: &Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let parts = touching(range, others);
    parts.map(|other| other.start.max(range.start)..other.end.min(range.end)).collect()
}

/// The same, ascending and without overlaps.
fn union(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut all: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

fn touching<'a>(
    range: &Range<u64>,
    others: &'a [Range<u64>],
) -> impl Iterator<Item = &'a Range<u64>> + use<'a> {
    let first = others.partition_point(|other| other.end <= range.start);
    let end = range.end;
    others[first..].iter().take_while(move |other| other.start < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &[u8]) -> KernelList {
        KernelList::of(&maps::parse(text).unwrap_or_default(), &(0..0))
    }

    fn list(lines: &[&str]) -> KernelList {
        let ours = "ff0000-ff1000 rw-s 00000000 00:01 5    /memfd:heapattach (deleted)";
        let text: Vec<&str> = lines.iter().copied().chain([ours]).collect();
        parsed((text.join("\n") + "\n").as_bytes())
    }

    const OLD: &str = "100000-200000 rw-p 00000000 00:00 0 ";
    const NEW: &str = "300000-400000 rw-p 00000000 00:00 0 ";
    const RINGS: &str = "500000-540000 rw-s 00000000 00:0f 77    anon_inode:[io_uring]";

    fn comparison(before: &[&str], during: &[&str], after: &[&str]) -> Comparison {
        Comparison { before: list(before), during: list(during), after: list(after) }
    }

    #[test]
    fn what_is_new_and_was_not_recorded_came_by_no_hooked_function() {
        let all = comparison(&[OLD], &[OLD, NEW, RINGS], &[OLD, NEW, RINGS]);
        assert!(all.is_sound());
        let (told, bytes) =
            all.mapped(std::slice::from_ref(&(0x30_0000..0x38_0000)), [].into_iter());
        let told: Vec<_> = told.iter().map(|one| (&*one.kind, one.start, one.bytes)).collect();
        assert_eq!(
            told,
            [
                ("anonymous mappings", 0x30_0000, 0x8_0000),
                ("rings of io_uring", 0x50_0000, 0x4_0000)
            ]
        );
        assert_eq!(bytes, 0xc_0000);
        // It went just then.
        assert!(comparison(&[OLD], &[OLD, NEW], &[OLD]).mapped(&[], [].into_iter()).0.is_empty());
        // An allocator has mapped it.
        assert_eq!(all.mapped(&[], [0x39_0000].into_iter()).1, 0x4_0000);
    }

    #[test]
    fn what_is_recorded_and_not_there_was_unmapped_by_no_hooked_function() {
        let recorded = [0x30_0000..0x40_0000, 0x60_0000..0x70_0000];
        let all = comparison(&[OLD], &[OLD, NEW], &[OLD, NEW]);
        assert_eq!(all.vanished(&recorded), recorded[1..]);
        // It came, or went, between the lists.
        assert!(comparison(&[OLD], &[OLD], &[OLD, NEW]).vanished(&recorded[..1]).is_empty());
        assert!(comparison(&[OLD], &[OLD, NEW], &[OLD]).vanished(&recorded[..1]).is_empty());
    }

    #[test]
    fn another_program_tells_nothing_of_this_one() {
        let mut all = comparison(&[OLD], &[OLD], &[OLD]);
        all.during = parsed(b"100000-200000 rw-p 00000000 00:00 0 \n");
        assert!(!all.is_sound(), "it has become another by exec");
        all.after = parsed(b"");
        assert!(!all.is_sound());
        assert_eq!(parsed(b"nonsense\n"), KernelList::default());
    }
}
