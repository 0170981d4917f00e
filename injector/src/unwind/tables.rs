//! All tables of a session, and how they get into the region.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use heapattach_abi::{
    region,
    unwind::{self, DIRECTORY_HEAD, ENTRY_BYTES, MODULES, PAGE_BYTES, PAGE_SHIFT, ROW_BYTES, Rule},
};
use nix::errno::Errno;

use super::{Compiled, Image, compile, images};
use crate::{
    addr::RemoteAddr,
    memory::Memory,
    proc::{Process, maps::Mapping},
    shared::Shared,
};

/// The tables of one process take no more.
const MOST: usize = 512 << 20;
/// Room for modules that come later, and a part of what is there now besides.
const LATER: usize = 8 << 20;

/// Unwind information of one process that is looked at, at once: beyond, modules have no table.
const INFORMATION: u64 = 1 << 29;

/// What the tables are, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Modules with a table.
    pub modules: usize,
    /// Rows of all of them.
    pub rows: usize,
    /// Rows that cannot be followed.
    pub unknown: usize,
    /// Bytes published.
    pub bytes: usize,
    /// Modules that found no room.
    pub left_out: usize,
    /// The time it took to make them.
    pub took: Duration,
}

/// A module: its rows until they are published, and where they are then.
#[derive(Debug)]
struct Module {
    image: Image,
    compiled: Compiled,
    /// Offsets of page index and rows in the region.
    at: Option<(usize, usize)>,
}

impl Module {
    /// Whether it has a table that is not published.
    fn waits(&self) -> bool {
        self.at.is_none() && !self.compiled.rows.is_empty()
    }

    fn has_table(&self) -> bool {
        self.at.is_some() || self.waits()
    }
}

/// The tables of a session.
#[derive(Debug, Default)]
pub struct Tables {
    modules: Vec<Module>,
    /// Published once, and gone: a plugin may come back to where it was.
    retired: Vec<Module>,
    /// Where in the region the next thing goes, and the end of the region.
    next: usize,
    end: usize,
    generation: u64,
    is_published: bool,
    totals: Totals,
}

impl Tables {
    /// Makes the tables of all that is mapped now.
    pub fn new(process: &Process, memory: &Memory, maps: &[Mapping<'_>]) -> Self {
        let mut tables = Self::default();
        tables.look(process, memory, maps);
        tables
    }

    /// Bytes that the region needs for them.
    pub fn room(&self) -> usize {
        let waiting = self.modules.iter().filter(|module| module.waits());
        let wanted: usize = waiting.map(|m| bytes_of(&m.image, &m.compiled)).sum();
        (wanted + wanted / 4 + LATER).min(MOST)
    }

    /// The rule for an address of code, as long as nothing was published.
    pub fn rule(&self, at: u64) -> Option<Rule> {
        let at = RemoteAddr::new(at);
        let after = self.modules.partition_point(|module| module.image.code.start <= at);
        let module = self.modules.get(after.checked_sub(1)?)?;
        let distance = at.offset_from(module.image.code.start).unwrap_or(0);
        let rows = &module.compiled.rows;
        let row = rows.partition_point(|&(from, _)| u64::from(from) <= distance);
        let is_inside = at < module.image.code.end;
        Rule::unpack(rows.get(row.checked_sub(1)?)?.1).filter(|_| is_inside)
    }

    /// Whether the hooks know all of them.
    pub fn are_published(&self) -> bool {
        self.is_published
    }

    /// What they are.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Makes tables for what has come, forgets what is gone; says whether anything has changed.
    pub fn look(&mut self, process: &Process, memory: &Memory, maps: &[Mapping<'_>]) -> bool {
        let began = Instant::now();
        let mut now = images(memory, maps);
        now.sort_by_key(|image| image.code.start);
        now.dedup_by(|a, b| a.code.start < b.code.end);
        now.truncate(MODULES);
        if now.iter().eq(self.modules.iter().map(|module| &module.image)) {
            return false;
        }
        let mut old: HashMap<RemoteAddr, Module> =
            self.modules.drain(..).map(|module| (module.image.code.start, module)).collect();
        let mut known = Vec::with_capacity(now.len());
        for image in &now {
            let stays = old.get(&image.code.start).is_some_and(|old| old.image == *image);
            let mut back = || {
                let at = self.retired.iter().position(|retired| retired.image == *image)?;
                Some(self.retired.swap_remove(at))
            };
            known.push(if stays { old.remove(&image.code.start) } else { back() });
        }
        self.retired.extend(old.into_values().filter(|old| old.at.is_some()));
        self.retired.truncate(MODULES);
        let new: Vec<&Image> = now
            .iter()
            .zip(&known)
            .filter(|(_, old)| old.is_none())
            .map(|(image, _)| image)
            .collect();
        let mut compiled =
            compile_all(&new, |image, left| compile(process, memory, maps, image, left))
                .into_iter();
        self.modules = now
            .iter()
            .zip(known)
            .map(|(image, old)| {
                old.unwrap_or_else(|| Module {
                    image: image.clone(),
                    compiled: compiled.next().unwrap_or_default(),
                    at: None,
                })
            })
            .collect();
        let made = self.modules.iter().filter(|module| module.at.is_none());
        for module in made {
            self.totals.rows += module.compiled.rows.len();
            self.totals.unknown += module.compiled.unknown;
        }
        self.is_published = false;
        self.totals.modules = self.modules.iter().filter(|module| module.has_table()).count();
        self.totals.took += began.elapsed();
        true
    }

    /// Puts into the region, from `at` to `end`, what is not there yet, and then tells the hooks.
    ///
    /// # Errors
    /// When the target is gone.
    pub fn publish(
        &mut self,
        shared: &Shared,
        memory: &Memory,
        range: std::ops::Range<usize>,
    ) -> Result<(), Errno> {
        self.next = self.next.max(range.start);
        self.end = range.end;
        self.totals.left_out = 0;
        for number in 0..self.modules.len() {
            if self.modules[number].waits() && !self.place(shared, memory, number)? {
                self.totals.left_out += 1;
            }
        }
        self.generation += 1;
        let placed = self.modules.iter().filter_map(|module| {
            let (index, rows) = module.at?;
            let code = &module.image.code;
            Some([code.start.get(), code.end.get(), index as u64, rows as u64])
        });
        let entries: Vec<u64> = placed.flatten().collect();
        let directory = [[self.generation, entries.len() as u64 / 4].as_slice(), &entries].concat();
        debug_assert_eq!(directory.len() * 8, DIRECTORY_HEAD + entries.len() / 4 * ENTRY_BYTES);
        match self.take(directory.len() * 8) {
            Some(at) => {
                shared.fill(memory, at, &directory)?;
                shared.store(memory, region::DIRECTORY, at as u64)?;
            }
            // What is known may be wrong by now; frame pointers are better than that.
            None => {
                self.totals.left_out = self.totals.modules;
                shared.store(memory, region::DIRECTORY, 0)?;
            }
        }
        self.is_published = true;
        self.totals.bytes = self.next - range.start;
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Option<usize> {
        let at = self.next;
        let next = at.checked_add(bytes.next_multiple_of(8)).filter(|&next| next <= self.end)?;
        self.next = next;
        Some(at)
    }

    /// Puts one module's table into the region; `false` if there is no room.
    fn place(&mut self, shared: &Shared, memory: &Memory, number: usize) -> Result<bool, Errno> {
        let module = &self.modules[number];
        let bytes = bytes_of(&module.image, &module.compiled);
        let rows = module.compiled.rows.len() + 2;
        let Some(at) = self.take(bytes) else { return Ok(false) };
        let module = &self.modules[number];
        shared.fill(memory, at, &words_of(&module.image, &module.compiled))?;
        let module = &mut self.modules[number];
        module.at = Some((at + rows * ROW_BYTES, at));
        // It is in the region now.
        module.compiled.rows = Vec::new();
        Ok(true)
    }
}

fn pages_of(image: &Image) -> usize {
    let length = image.code.end.offset_from(image.code.start).unwrap_or(0);
    usize::try_from(length >> PAGE_SHIFT).unwrap_or(0) + 1
}

fn bytes_of(image: &Image, compiled: &Compiled) -> usize {
    (compiled.rows.len() + 2) * ROW_BYTES + (pages_of(image) * PAGE_BYTES).next_multiple_of(8)
}

/// The rows, with one before all and one behind, then the page index.
fn words_of(image: &Image, compiled: &Compiled) -> Vec<u64> {
    let first = (0, unwind::NONE);
    let last = (unwind::END, unwind::NONE);
    let rows = std::iter::once(first).chain(compiled.rows.iter().copied());
    let rows: Vec<(u32, u32)> = rows.chain(std::iter::once(last)).collect();
    let mut words: Vec<u64> =
        rows.iter().map(|&(at, rule)| u64::from(at) | u64::from(rule) << 32).collect();
    let mut row = 0;
    let pages: Vec<u32> = (0..pages_of(image))
        .map(|page| {
            let start = page << PAGE_SHIFT;
            while rows.get(row + 1).is_some_and(|&(at, _)| at as usize <= start) {
                row += 1;
            }
            u32::try_from(row).unwrap_or(0)
        })
        .collect();
    words.extend(
        pages.chunks(2).map(|pair| {
            u64::from(pair[0]) | pair.get(1).map_or(0, |&second| u64::from(second) << 32)
        }),
    );
    words
}

/// On all processors: the larger part of the time of an attach.
fn compile_all(
    images: &[&Image],
    compile: impl Fn(&Image, &AtomicU64) -> Compiled + Sync,
) -> Vec<Compiled> {
    let (next, left) = (AtomicUsize::new(0), AtomicU64::new(INFORMATION));
    let workers = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(images.len());
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Relaxed);
            let Some(image) = images.get(number) else { return done };
            done.push((number, compile(image, &left)));
        }
    };
    let mut all = vec![Compiled::default(); images.len()];
    thread::scope(|scope| {
        // Where no thread can be had this one does all.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..workers).filter_map(spawn).collect();
        let own = work();
        let others = others.into_iter().filter_map(|other| other.join().ok()).flatten();
        for (number, compiled) in own.into_iter().chain(others) {
            all[number] = compiled;
        }
    });
    all
}
