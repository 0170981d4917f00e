//! Everything about a stopped target that the bytes of its memory do not say.

use std::ops::Range;

use crate::home::Home;
use crate::trace::{insist::insist, ptrace::robust_list, stopped::Stopped};
use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    presence::Presence,
    proc::{
        Process,
        maps::{self, Mapping},
    },
    root::RootKind,
    told_loader,
};

use super::{
    area::{Area, Backing, Known, Pointer, areas},
    arenas::Arenas,
    exiting::{Exits, Stacks},
    kernel, robust,
    standing::Standing,
    thread::{self, Thread},
};

/// Shared files that are looked through, at most.
const FILE_LIMIT: u64 = 64 << 20;

/// A stopped target.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// Its writable memory; once [`Image::settle`](super::Image::settle) was called, as far as it was
    /// written to; sorted.
    pub areas: Vec<Area>,
    /// Pointers that lie in none of it.
    pub pointers: Vec<Pointer>,
    /// Its code; sorted.
    pub code: Vec<Range<u64>>,
    /// The code of the dynamic loader.
    pub loader: Vec<Range<u64>>,
    /// What is mapped from files; sorted.
    pub files: Vec<Range<u64>>,
    /// Its threads.
    pub threads: Vec<Standing>,
    /// Threads whose registers could not be read.
    pub unread_threads: usize,
    /// What pointers can be hidden in, in words.
    pub blind: Vec<String>,
    /// The memory map, as the kernel told it.
    pub maps: Vec<u8>,
    /// The books of the C library's allocator: they are in no area.
    pub books: Vec<Range<u64>>,
}

impl Scene {
    /// Looks at a stopped target; the homes are left out, and in the ranges that it `announced`
    /// pointers count. Of threads that are in one of the `exits` the frames of these do not. Below the
    /// thread pointers there are so many bytes `tls` of thread-local variables.
    ///
    /// # Errors
    /// When its memory map cannot be read.
    pub fn of(
        stop: &Stopped<'_>,
        homes: &[Home],
        announced: &[Range<u64>],
        exits: &Exits,
        tls: u64,
    ) -> Result<Self, nix::errno::Errno> {
        let target = stop.target();
        let (process, memory) = (&target.process, &target.memory);
        // The first thread may have ended alone.
        process.find_voice();
        let text = process.read("maps")?;
        let maps = maps::parse(&text).map_err(|_| nix::errno::Errno::EPROTO)?;
        let mut scene = Self::default();
        let mut threads: Vec<Thread> =
            stop.threads().iter().map(|t| Thread::of(&t.registers)).collect();
        let mut stacks = Stacks::new(memory, &maps, exits);
        for (thread, known) in stop.threads().iter().zip(&mut threads) {
            let vectors = insist(|| stop.tracer().vector_state(thread.tid));
            scene.threads.push(Standing::of(thread.tid, &thread.registers));
            scene.unread_threads += usize::from(vectors.is_err());
            let vectors = vectors.unwrap_or_default();
            match stacks.exiting(&thread.registers) {
                Some(exiting) => {
                    known.alive_from = exiting.alive_from;
                    let kept = exiting.kept.into_iter();
                    scene.pointers.extend(thread::pointers_in(&thread.registers, kept));
                }
                None => scene.pointers.extend(thread::pointers(&thread.registers, &vectors)),
            }
            let record = crate::arch::thread_pointer(&thread.registers).get();
            scene.pointers.extend(thread::dynamic_tls(memory, record));
            let list = insist(|| robust_list(thread.tid)).unwrap_or(0);
            scene.pointers.extend(robust::locks(list, |at| memory.word(RemoteAddr::new(at)).ok()));
        }
        let idle = scene.idle_stacks(memory, &maps, &threads);
        let presence = Presence::of(process);
        let is_there = |at: u64| !presence.there(&(at..at + 8)).is_empty();
        let arenas = Arenas::of(memory, &maps, &is_there);
        let mut hidden: Vec<Range<u64>> =
            homes.iter().map(|home| home.at().get()..home.end().get()).collect();
        hidden.extend(arenas.books.iter().cloned());
        let known = Known {
            threads: &threads,
            idle_stacks: &idle,
            heaps: &arenas.heaps,
            announced,
            hidden: &hidden,
            tls,
        };
        let mut areas = areas(&maps, &known);
        scene.leave_out_large_files(process, &mut areas);
        scene.areas = areas;
        scene.ask_kernel(process);
        let range = |m: &Mapping<'_>| m.range.start.get()..m.range.end.get();
        scene.code = maps.iter().filter(|m| m.executable).map(range).collect();
        scene.loader = loader(process, &maps).filter(|m| m.executable).map(range).collect();
        scene.files =
            maps.iter().filter(|m| m.inode != 0 && m.readable && !m.is_huge()).map(range).collect();
        drop(maps);
        scene.books = arenas.books;
        scene.maps = text;
        Ok(scene)
    }

    /// The bytes that are to be looked through.
    pub fn bytes(&self) -> u64 {
        self.areas.iter().map(|area| area.range.end - area.range.start).sum()
    }

    /// Stacks of ended threads that the C library keeps. What is on them means nothing, but the
    /// next thread will use the vector that leads to its thread-local memory again.
    pub(super) fn idle_stacks(
        &mut self,
        memory: &Memory,
        maps: &[Mapping<'_>],
        threads: &[Thread],
    ) -> Vec<Range<u64>> {
        let mut idle = Vec::new();
        let is_above_guard = |index: usize| {
            let below = index.checked_sub(1).and_then(|below| maps.get(below));
            below.is_some_and(|b| !b.readable && b.range.end == maps[index].range.start)
        };
        for (index, mapping) in maps.iter().enumerate() {
            let lives = |at: u64| mapping.range.contains(&RemoteAddr::new(at));
            let is_candidate = mapping.writable && mapping.is_anonymous() && !mapping.shared;
            if !is_candidate
                || !is_above_guard(index)
                || threads.iter().any(|t| lives(t.pointer) || lives(t.stack))
            {
                continue;
            }
            if let Some(record) = thread::record_at_end(memory, mapping) {
                self.pointers.extend(thread::dynamic_tls(memory, record));
                idle.push(mapping.range.start.get()..mapping.range.end.get());
            }
        }
        idle
    }

    /// Of files that are shared with their readers, as those of data bases are, only those are
    /// looked through that are small; of these, what the target has touched.
    fn leave_out_large_files(&mut self, process: &Process, areas: &mut Vec<Area>) {
        let presence = Presence::of(process);
        let (mut shown, mut bytes) = (Vec::new(), 0);
        areas.retain(|area| {
            if area.backing == Backing::File && area.holder != RootKind::Announced {
                let parts = presence.touched(&area.range);
                bytes += parts.iter().map(|part| part.end - part.start).sum::<u64>();
                shown.extend(parts.into_iter().map(|range| Area { range, ..area.clone() }));
            }
            area.backing != Backing::File || area.holder == RootKind::Announced
        });
        if bytes > FILE_LIMIT {
            self.blind.push(format!("{} MiB of shared files are not looked through", bytes >> 20));
        } else {
            areas.extend(shown);
            areas.sort_by_key(|area| area.range.start);
        }
    }

    fn ask_kernel(&mut self, process: &Process) {
        let mut rings = 0;
        for (number, link) in process.descriptors() {
            match link.as_encoded_bytes() {
                b"anon_inode:[eventpoll]" => {
                    let text = process.read(&format!("fdinfo/{number}")).unwrap_or_default();
                    self.pointers.extend(kernel::epoll(&text));
                }
                b"anon_inode:[io_uring]" => rings += 1,
                _ => {}
            }
        }
        if rings > 0 {
            self.blind.push(format!("{rings} io_uring: what was submitted to it is not seen"));
        }
        self.pointers.extend(kernel::timers(&process.read_process("timers").unwrap_or_default()));
    }
}

/// The mappings of the dynamic loader's file.
fn loader<'m, 'a>(
    process: &Process,
    maps: &'m [Mapping<'a>],
) -> impl Iterator<Item = &'m Mapping<'a>> {
    let base = told_loader::auxv(process).ok().and_then(|auxv| auxv.interpreter);
    let own = base.and_then(|base| maps::covering(maps, base));
    let own = own.map(|own| (own.device, own.inode)).filter(|(_, inode)| *inode != 0);
    maps.iter().filter(move |m| own == Some((m.device, m.inode)))
}
