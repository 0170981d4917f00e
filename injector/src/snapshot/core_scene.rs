//! The scene of a core: what the map and the registers in it tell. What the kernel kept for the process
//! (epoll, timers, robust lists) is in no core.

use std::{ops::Range, sync::Arc};

use heapattach_process::{
    addr::RemoteAddr,
    core_file::{CoreFile, CoreThread},
    memory::Memory,
    proc::maps::{self, Mapping},
    root::RootKind,
};

use super::{
    area::{Known, areas},
    arenas::Arenas,
    scene::Scene,
    standing::Standing,
    thread::{self, Thread},
};
use crate::arch;

impl Standing {
    /// A thread of a core.
    pub fn of_core(thread: &CoreThread) -> Self {
        Self::of(thread.tid, &arch::registers_of_core(&thread.registers))
    }
}

impl Scene {
    /// Of a core. Below the thread pointers there are so many bytes `tls` of thread-local variables.
    ///
    /// # Errors
    /// When its map cannot be read.
    pub fn of_core(core: &Arc<CoreFile>, tls: u64) -> Result<Self, maps::MapsError> {
        let memory = Memory::of_core(Arc::clone(core));
        let maps = maps::parse(core.maps())?;
        let mut scene = Self::default();
        let mut threads = Vec::new();
        for own in core.threads() {
            let registers = arch::registers_of_core(&own.registers);
            threads.push(Thread::of(&registers));
            scene.threads.push(Standing::of(own.tid, &registers));
            scene.pointers.extend(thread::pointers(&registers, &own.vectors));
            let record = arch::thread_pointer(&registers).get();
            scene.pointers.extend(thread::dynamic_tls(&memory, record));
        }
        let idle = scene.idle_stacks(&memory, &maps, &threads);
        let arenas = Arenas::of(&memory, &maps, &|_| true);
        let known = Known {
            threads: &threads,
            idle_stacks: &idle,
            heaps: &arenas.heaps,
            announced: &[],
            hidden: &arenas.books,
            tls,
        };
        scene.areas = areas(&maps, &known);
        // What brk gave is found by its place alone: as long as that is not certain its words count.
        for area in scene.areas.iter_mut().filter(|area| area.holder == RootKind::Heap) {
            if !arenas.heaps.iter().any(|heap| heap.contains(&area.range.start)) {
                area.holder = RootKind::Mapped;
            }
        }
        let range = |m: &Mapping<'_>| -> Range<u64> { m.range.start.get()..m.range.end.get() };
        scene.code = maps.iter().filter(|m| m.executable).map(range).collect();
        scene.files =
            maps.iter().filter(|m| m.inode != 0 && m.readable && !m.is_huge()).map(range).collect();
        scene.loader = loader(core, &maps).into_iter().collect();
        Ok(scene)
    }
}

/// The code of the dynamic loader.
fn loader(core: &CoreFile, maps: &[Mapping<'_>]) -> Option<Range<u64>> {
    let own = maps::covering(maps, RemoteAddr::new(core.interpreter()?))?;
    let is_same = |m: &&Mapping<'_>| (m.device, m.inode) == (own.device, own.inode);
    let code = maps.iter().filter(is_same).find(|m| m.executable && own.inode != 0)?;
    Some(code.range.start.get()..code.range.end.get())
}
