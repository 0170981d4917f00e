//! What is there now by what was there before, beside what the kernel tells when it looks at each page: of memory of
//! this process that was written, discarded, unmapped, mapped anew and closed at random.
//!
//! # Safety
//! All calls are about memory that the test mapped itself, and that nothing else looks at.
#![allow(unsafe_code)]

use std::{num::NonZeroUsize, ops::Range, os::raw::c_void, ptr::NonNull};

use nix::sys::mman::{self, MapFlags, MmapAdvise, ProtFlags};

use super::{PageWrites, Pages, WritesError, requests::own_descriptor, tests::skipped};
use crate::proc::{Process, maps};
use crate::ranges::{both, minus};

const PAGE: u64 = 4096;
const TABLE: u64 = 2 << 20;
const LENGTH: u64 = 24 << 20;
const ROUNDS: u64 = 100;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Pages of an area: a few, many, or whole tables.
    fn part(&mut self, area: &Range<u64>) -> Range<u64> {
        let unit = [PAGE, TABLE][usize::try_from(self.below(2)).unwrap()];
        let most = if unit == PAGE { 1 + self.below(600) } else { 1 + self.below(3) };
        let start = (area.start + self.below(area.end - area.start)) / unit * unit;
        let start = start.max(area.start);
        start..(start + most * unit).min(area.end)
    }
}

fn pointer(at: u64) -> NonNull<c_void> {
    NonNull::new(at as *mut c_void).unwrap()
}

fn length(part: &Range<u64>) -> usize {
    usize::try_from(part.end - part.start).unwrap()
}

fn map(at: Option<u64>, length: usize) -> u64 {
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_ANONYMOUS;
    // What another thread mapped meanwhile is never replaced: only what is mapped is mapped over.
    let flags = if at.is_some() { flags | MapFlags::MAP_FIXED } else { flags };
    let at = at.and_then(|at| NonZeroUsize::new(usize::try_from(at).unwrap()));
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let length = NonZeroUsize::new(length).unwrap();
    // SAFETY: the test mapped it, and nothing else looks at it.
    let mapped = unsafe { mman::mmap_anonymous(at, length, access, flags) }.unwrap();
    mapped.as_ptr() as u64
}

/// Writes to pages that may be written to.
fn touch(random: &mut Random, part: &Range<u64>, open: &[Range<u64>]) {
    let every = 1 + random.below(4);
    for at in (part.start..part.end).step_by(4096).filter(|at| (at / PAGE).is_multiple_of(every)) {
        if open.iter().any(|open| open.contains(&at)) {
            // SAFETY: the test mapped it, and nothing else looks at it.
            unsafe { (at as *mut u8).write_volatile(1) };
        }
    }
}

/// Of an area what may be written to, and what is mapped at all.
fn open(process: &Process, area: &Range<u64>) -> [Vec<Range<u64>>; 2] {
    let text = process.read("maps").unwrap();
    let maps = maps::parse(&text).unwrap();
    [true, false].map(|wanted| {
        let own = maps.iter().filter(|m| m.writable || !wanted);
        let own = own.map(|m| m.range.start.get()..m.range.end.get());
        both(&own.collect::<Vec<_>>(), std::slice::from_ref(area))
    })
}

/// A change of what is still `ours` of an area.
fn change(random: &mut Random, process: &Process, area: &Range<u64>, ours: &mut Vec<Range<u64>>) {
    let part = random.part(area);
    let is_ours = minus([&part], ours).is_empty();
    let (at, length) = (pointer(part.start), length(&part));
    match random.below(8) {
        _ if !is_ours => {}
        0..3 => touch(random, &part, &open(process, area)[0]),
        // SAFETY: the test mapped it, and nothing else looks at it.
        3..5 => unsafe { mman::madvise(at, length, MmapAdvise::MADV_DONTNEED) }.unwrap(),
        5 => {
            *ours = minus(ours.iter(), std::slice::from_ref(&part));
            // SAFETY: the test mapped it, and nothing else looks at it.
            unsafe { mman::munmap(at, length) }.unwrap();
        }
        6 => {
            // Where nothing is touched then there is no table any more.
            map(Some(part.start), length);
            let part = random.part(&part);
            touch(random, &part, std::slice::from_ref(&part));
        }
        // SAFETY: the test mapped it, and nothing else looks at it.
        _ => unsafe { mman::mprotect(at, length, ProtFlags::PROT_READ) }.unwrap(),
    }
}

/// Page by page, but for the first one, by which it is found out whether the process is still there.
fn by_page(all: &[Pages], area: &Range<u64>) -> Vec<Pages> {
    let pages = |pages: &Pages| {
        let pages = pages.clone();
        let each = (pages.range.start..pages.range.end).step_by(4096);
        each.map(move |at| Pages { range: at..at + PAGE, ..pages.clone() }).collect::<Vec<_>>()
    };
    all.iter().flat_map(pages).filter(|page| page.range.start > area.start).collect()
}

#[test]
fn what_is_there_since_is_what_is_there() {
    let process = Process::open(std::process::id().cast_signed()).unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let seed = u64::from(now.subsec_nanos()) << 20 | now.as_secs() << 1 | 1;
    let mut random = Random(seed);
    let (mut changed, mut same) = (0, 0);
    for round in 0..ROUNDS {
        let Some(descriptor) = own_descriptor() else {
            return skipped("there is no userfaultfd");
        };
        let start = map(None, usize::try_from(LENGTH).unwrap());
        let area = start..start + LENGTH;
        let mut ours = vec![area.clone()];
        let mut change = |random: &mut Random, times: u64| {
            (0..times).for_each(|_| change(random, &process, &area, &mut ours));
        };
        touch(&mut random, &area, std::slice::from_ref(&area));
        let times = random.below(8);
        change(&mut random, times);
        let writes = match PageWrites::watch(&process, descriptor, &open(&process, &area)[1]) {
            Err(error @ WritesError::NoKernel(_)) => return skipped(&error.to_string()),
            other => other.unwrap(),
        };
        let times = random.below(4);
        change(&mut random, times);
        writes.written_again().unwrap();
        let times = random.below(2);
        change(&mut random, times);
        let before = writes.there().unwrap();
        let times = random.below(6);
        change(&mut random, times);
        let map = open(&process, &(0..u64::MAX))[1].clone();
        let here = open(&process, &area);
        let wanted = by_page(&writes.there().unwrap(), &area);
        let found = by_page(&writes.there_since(&before, &map).unwrap(), &area);
        // Other threads map where nothing is.
        if open(&process, &area) == here {
            let differs = wanted.iter().zip(&found).find(|(wanted, found)| wanted != found);
            assert_eq!(differs, None, "seed {seed}, round {round}");
            assert_eq!(found.len(), wanted.len(), "seed {seed}, round {round}");
            same += found.len();
            changed += usize::from(by_page(&before, &area) != found);
        }
        drop(writes);
        for own in ours {
            // SAFETY: the test mapped it, and nothing else looks at it.
            unsafe { mman::munmap(pointer(own.start), length(&own)) }.unwrap();
        }
    }
    assert!(changed > 10 && same > 10_000, "{changed} changed, {same} pages");
}
