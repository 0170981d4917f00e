//! All tables of a session, and how they get into the region.

use std::{
    collections::{HashMap, HashSet},
    num::NonZeroUsize,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use heapattach_abi::{
    region,
    unwind::{self, DIRECTORY_HEAD, ENTRY_BYTES, MODULES, PAGE_BYTES, PAGE_SHIFT, ROW_BYTES, Rule},
};
use nix::errno::Errno;

use heapattach_process::{
    addr::RemoteAddr,
    generations::Generations,
    image::{Image, images},
    memory::Memory,
    proc::{Process, maps::Mapping},
    shared::Shared,
};

use super::{Compiled, compile};
use heapattach_process::cache::Cache;

/// The tables of one process take no more.
const MOST: usize = 512 << 20;
/// Room for modules that come later, and a part of what is there now besides.
const LATER: usize = 8 << 20;

/// What mappings are made of.
const PAGE: usize = 4096;

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
#[derive(Clone, Debug)]
struct Module {
    image: Image,
    compiled: Compiled,
    /// Offsets of page index and rows in the region.
    at: Option<(usize, usize)>,
    /// The number that frames in it have ([`Generations`]); 0 if it stays as long as the process.
    number: u64,
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
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Forked children have the same until one of them loads something.
    modules: Arc<Vec<Module>>,
    /// Published once, and gone: a plugin may come back to where it was.
    retired: Vec<Module>,
    /// Where in the region the next thing goes, a page of its own once everything is published; and
    /// the end of the region.
    next: usize,
    end: usize,
    /// Where the newest directory is; 0: there is none.
    directory: u64,
    generation: u64,
    /// Another one as soon as code lies where other code has been.
    epoch: u64,
    is_published: bool,
    totals: Totals,
    /// Where what was made for other processes is kept.
    cache: Option<Arc<Cache>>,
    /// The biases of modules that stay as long as the process; `None`: all do.
    lasting: Option<HashSet<u64>>,
    /// Those that do not.
    generations: Arc<Generations>,
}

impl Tables {
    /// Makes the tables of all that is mapped now.
    pub fn new(process: &Process, memory: &Memory, maps: &[Mapping<'_>]) -> Self {
        let mut tables = Self::default();
        tables.look(process, memory, maps);
        tables
    }

    /// None yet, and none is made that is kept in this cache.
    pub fn kept_in(cache: Option<Cache>) -> Self {
        Self { cache: cache.map(Arc::new), ..Self::default() }
    }

    /// From now on only modules with these biases are thought to stay.
    pub(crate) fn set_lasting(&mut self, biases: HashSet<u64>) {
        self.lasting = Some(biases);
    }

    /// The modules that may go away.
    pub fn generations(&self) -> &Arc<Generations> {
        &self.generations
    }

    /// The number of an image's module, and whether other code lay there before.
    fn number(&self, image: &Image) -> (u64, bool) {
        let stays =
            |known: &HashSet<u64>| known.contains(&image.bias.get()) || image.path.starts_with("[");
        if self.lasting.as_ref().is_none_or(stays) {
            return (0, false);
        }
        self.generations.number(image)
    }

    /// Bytes that the region needs for them.
    pub fn room(&self) -> usize {
        let waiting = self.modules.iter().filter(|module| module.waits());
        let wanted: usize = waiting.map(|m| bytes_of(&m.image.code, &m.compiled)).sum();
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

    /// How often they were published.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// What they are.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Makes tables for what has come, forgets what is gone; says whether anything has changed.
    pub fn look(&mut self, process: &Process, memory: &Memory, maps: &[Mapping<'_>]) -> bool {
        let now = images(memory, maps);
        self.take_in(process, memory, maps, now)
    }

    /// The same with these images, which were read from that memory.
    pub(crate) fn take_in(
        &mut self,
        process: &Process,
        memory: &Memory,
        maps: &[Mapping<'_>],
        mut now: Vec<Image>,
    ) -> bool {
        let began = Instant::now();
        now.sort_by_key(|image| image.code.start);
        now.dedup_by(|a, b| a.code.start < b.code.end);
        now.truncate(MODULES);
        if now.iter().eq(self.modules.iter().map(|module| &module.image)) {
            return false;
        }
        let mut old: HashMap<RemoteAddr, Module> =
            Arc::unwrap_or_clone(std::mem::take(&mut self.modules))
                .into_iter()
                .map(|module| (module.image.code.start, module))
                .collect();
        let (mut known, mut stayed) = (Vec::with_capacity(now.len()), Vec::new());
        for image in &now {
            let stays = old.get(&image.code.start).is_some_and(|old| old.image == *image);
            stayed.push(stays);
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
        let mut compiled = compile_all(&new, |image, left| {
            compile(process, memory, maps, image, left, self.cache.as_deref())
        })
        .into_iter();
        if let Some(cache) = &self.cache {
            cache.tidy();
        }
        let came: Vec<_> = now.iter().zip(&stayed).filter(|(_, stayed)| !**stayed).collect();
        let is_other = came.iter().any(|(image, _)| self.number(image).1);
        self.epoch += u64::from(is_other);
        let modules = now
            .iter()
            .zip(known)
            .map(|(image, old)| {
                old.unwrap_or_else(|| Module {
                    image: image.clone(),
                    compiled: compiled.next().unwrap_or_default(),
                    at: None,
                    number: self.number(image).0,
                })
            })
            .collect();
        self.modules = Arc::new(modules);
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
        range: Range<usize>,
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
            Some([code.start.get(), code.end.get(), index as u64, rows as u64, module.number])
        });
        let entries: Vec<u64> = placed.flatten().collect();
        let count = entries.len() * 8 / ENTRY_BYTES;
        let directory = [&[self.generation, count as u64, self.epoch], &entries[..]].concat();
        debug_assert_eq!(directory.len() * 8, DIRECTORY_HEAD + count * ENTRY_BYTES);
        self.directory = match self.take(directory.len() * 8) {
            Some(at) => {
                shared.fill(memory, at, &directory)?;
                at as u64
            }
            // What is known may be wrong by now; frame pointers are better than that.
            None => {
                self.totals.left_out = self.totals.modules;
                0
            }
        };
        // What comes next begins a page: forked children go on with this one's and all before.
        self.next = self.next.next_multiple_of(PAGE).min(self.end);
        self.point(shared, memory)?;
        self.is_published = true;
        self.totals.bytes = self.next - range.start;
        Ok(())
    }

    /// Tells the hooks of `shared` where the newest directory is.
    ///
    /// # Errors
    /// When the target is gone.
    pub(crate) fn point(&self, shared: &Shared, memory: &Memory) -> Result<(), Errno> {
        shared.store(memory, region::DIRECTORY, self.directory)
    }

    /// Which part of the region, in whole pages, will never change again, if that is known.
    pub(crate) fn settled(&self, from: usize) -> Option<Range<usize>> {
        let is_whole = self.next.is_multiple_of(PAGE) && from.is_multiple_of(PAGE);
        (self.is_published && is_whole && self.next >= from).then_some(from..self.next)
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
        let bytes = bytes_of(&module.image.code, &module.compiled);
        let rows = module.compiled.rows.len() + 2;
        let Some(at) = self.take(bytes) else { return Ok(false) };
        let module = &self.modules[number];
        fill(shared, memory, at, words_of(&module.image.code, &module.compiled))?;
        let module = &mut Arc::make_mut(&mut self.modules)[number];
        module.at = Some((at + rows * ROW_BYTES, at));
        // It is in the region now.
        module.compiled.rows = Vec::new();
        Ok(true)
    }
}

fn pages_of(code: &Range<RemoteAddr>) -> usize {
    let length = code.end.offset_from(code.start).unwrap_or(0);
    usize::try_from(length >> PAGE_SHIFT).unwrap_or(0) + 1
}

fn bytes_of(code: &Range<RemoteAddr>, compiled: &Compiled) -> usize {
    (compiled.rows.len() + 2) * ROW_BYTES + (pages_of(code) * PAGE_BYTES).next_multiple_of(8)
}

/// The rows, with one before all and one behind, then the page index.
fn words_of<'a>(
    code: &Range<RemoteAddr>,
    compiled: &'a Compiled,
) -> impl Iterator<Item = u64> + use<'a> {
    let own = &compiled.rows[..];
    let [first, last] = [(0, unwind::NONE), (unwind::END, unwind::NONE)];
    let rows = std::iter::once(first).chain(own.iter().copied()).chain(std::iter::once(last));
    let words = rows.map(|(at, rule)| u64::from(at) | u64::from(rule) << 32);
    let mut row = 0;
    let mut row_of = move |page: usize| {
        let start = page << PAGE_SHIFT;
        // Behind the one before all.
        while own.get(row).is_some_and(|&(at, _)| at as usize <= start) {
            row += 1;
        }
        u64::try_from(row).unwrap_or(0)
    };
    let pages = pages_of(code);
    let index = (0..pages).step_by(2).map(move |page| {
        let second = if page + 1 < pages { Some(page + 1) } else { None };
        row_of(page) | second.map_or(0, &mut row_of) << 32
    });
    words.chain(index)
}

/// Writes so many words at once: more would be memory that is asked for and touched for nothing else.
const PIECE: usize = 4096;

/// Writes words from an offset of the region on.
fn fill(
    shared: &Shared,
    memory: &Memory,
    mut at: usize,
    mut words: impl Iterator<Item = u64>,
) -> Result<(), Errno> {
    let mut piece = Vec::with_capacity(PIECE);
    loop {
        piece.clear();
        piece.extend(words.by_ref().take(PIECE));
        if piece.is_empty() {
            return Ok(());
        }
        shared.fill(memory, at, &piece)?;
        at += piece.len() * 8;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_between_two_and_before_the_pages_that_begin_in_them() {
        let page: u32 = 1 << PAGE_SHIFT;
        // Three and a half of them.
        let code = RemoteAddr::new(0x10_0000)..RemoteAddr::new(0x10_0000 + (7 << PAGE_SHIFT) / 2);
        let compiled = Compiled::of(vec![(8, 1), (page, 2), (page + 8, 3), (3 * page - 1, 4)]);
        let words: Vec<u64> = words_of(&code, &compiled).collect();
        let row = |at: u32, rule: u32| u64::from(at) | u64::from(rule) << 32;
        let rows = [
            row(0, unwind::NONE),
            row(8, 1),
            row(page, 2),
            row(page + 8, 3),
            row(3 * page - 1, 4),
            row(unwind::END, unwind::NONE),
        ];
        assert_eq!(words[..6], rows);
        // The first page begins in the row before all, the second in one of its own.
        assert_eq!(words[6..], [2 << 32, 3 | 4 << 32]);
        assert_eq!(words.len() * 8, bytes_of(&code, &compiled));
    }
}
