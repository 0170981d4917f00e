//! What lies where a way begins: a variable, the frame of a function, what is a thread's own.

use std::collections::HashMap;

use heapattach_injector::moment::{Image, Rules, Scene, Standing};
use heapattach_process::{
    addr::RemoteAddr,
    proc::{
        Process,
        maps::{self, Mapping},
    },
};
use heapattach_report::Holder;

use crate::check::frame_report::told;
use heapattach_reach::{Retained, RootKind};
use heapattach_symbols::Symbols;
use heapattach_text::printable::printable;

/// Thread-local variables lie so far from where the thread pointer leads, at most.
const TLS_REACH: u64 = 1 << 20;

/// What a place is, before names are known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spot {
    /// In the module that has this code.
    Variable {
        code: u64,
    },
    Frame {
        thread: String,
        code: Option<u64>,
    },
    ThreadLocal {
        thread: String,
    },
}

/// What lies at places.
#[derive(Clone, Debug, Default)]
pub struct Holders(HashMap<u64, Spot>);

impl Holders {
    /// Where all these ways begin.
    pub fn of(retained: &[Retained], pid: i32, scene: &Scene, image: &mut Image<'_>) -> Self {
        let Ok(process) = Process::open(pid) else { return Self::default() };
        let maps = maps::parse(&scene.maps).unwrap_or_default();
        let mut rules = None;
        let mut all = Self::default();
        for way in retained.iter().flat_map(|site| &site.ways).filter(|way| way.at != 0) {
            let name = |thread: &Standing| name(&process, thread.tid);
            let spot = match way.root {
                RootKind::Globals => code_beside(&maps, way.at).map(|code| Spot::Variable { code }),
                RootKind::Stacks => on_stack(&maps, &scene.threads, way.at).map(|thread| {
                    let rules =
                        rules.get_or_insert_with(|| Rules::of(&process, image.memory(), &maps));
                    let mut word = |at| {
                        let mut bytes = [0; 8];
                        image.read(at, &mut bytes);
                        u64::from_le_bytes(bytes)
                    };
                    let code = thread.owner(way.at, rules, &mut word);
                    Spot::Frame { thread: name(thread), code }
                }),
                RootKind::Tls => local_to(&scene.threads, way.at)
                    .map(|thread| Spot::ThreadLocal { thread: name(thread) }),
                _ => None,
            };
            all.0.extend(spot.map(|spot| (way.at, spot)));
        }
        all
    }

    /// What lies there.
    pub fn at(&self, place: u64, symbols: &mut Symbols) -> Option<Holder> {
        Some(match self.0.get(&place)? {
            Spot::Variable { code } => {
                let (name, offset) = symbols.variable(*code, place).or_else(|| {
                    let frames = symbols.symbolize(*code);
                    let module = frames.first().map(|frame| frame.module.clone())?;
                    Some((module, 0))
                })?;
                Holder::Variable { name: printable(&name), offset }
            }
            Spot::Frame { thread, code } => {
                let frame = code.and_then(|code| symbols.symbolize(code).pop());
                let function = frame.map(|frame| printable(&told(frame).place()));
                Holder::Frame { thread: thread.clone(), function }
            }
            Spot::ThreadLocal { thread } => Holder::ThreadLocal { thread: thread.clone() },
        })
    }
}

fn name(process: &Process, tid: i32) -> String {
    let name = process.read_thread(tid, "comm").unwrap_or_default();
    format!("thread {tid} ({})", printable(String::from_utf8_lossy(&name).trim_end()))
}

/// Code of the module whose variables lie there; those that are zero at first follow the others.
pub(crate) fn code_beside(maps: &[Mapping<'_>], place: u64) -> Option<u64> {
    let place = RemoteAddr::new(place);
    let mut index = maps.iter().position(|mapping| mapping.range.contains(&place))?;
    if maps[index].inode == 0 {
        let before = index.checked_sub(1).filter(|_| maps[index].label().is_empty())?;
        (maps[before].range.end == maps[index].range.start).then_some(())?;
        index = before;
    }
    let (device, inode) = (maps[index].device, maps[index].inode);
    let is_own =
        |m: &&Mapping<'_>| m.executable && inode != 0 && (m.device, m.inode) == (device, inode);
    // A file may be mapped more than once.
    let below = maps[..index].iter().rev().find(is_own);
    below.or_else(|| maps[index..].iter().find(is_own)).map(|code| code.range.start.get())
}

/// The thread whose stack has the place: of several in one mapping the next below.
pub(crate) fn on_stack<'t>(
    maps: &[Mapping<'_>],
    threads: &'t [Standing],
    place: u64,
) -> Option<&'t Standing> {
    let mapping = maps.iter().find(|m| m.range.contains(&RemoteAddr::new(place)))?;
    let has = |thread: &&Standing| mapping.range.contains(&RemoteAddr::new(thread.stack));
    let below = threads.iter().filter(has).filter(|thread| thread.stack <= place);
    below.max_by_key(|thread| thread.stack)
}

pub(crate) fn local_to(threads: &[Standing], place: u64) -> Option<&Standing> {
    let near = threads.iter().filter(|thread| thread.pointer.abs_diff(place) < TLS_REACH);
    near.min_by_key(|thread| thread.pointer.abs_diff(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
        1000-2000 r--p 0 0:0 7 /a\n2000-3000 r-xp 1000 0:0 7 /a\n3000-4000 rw-p 2000 0:0 7 /a\n\
        4000-5000 rw-p 0 0:0 0\n5000-6000 rw-p 0 0:0 0 [heap]\n8000-9000 rw-p 0 0:0 0\n\
        a000-b000 rw-p 0 0:0 9 /data\n";

    #[test]
    fn variables_belong_to_the_module_that_they_follow() {
        let maps = maps::parse(MAPS.as_bytes()).unwrap();
        for place in [0x3010, 0x4ff8] {
            assert_eq!(code_beside(&maps, place), Some(0x2000), "{place:x}");
        }
        for place in [0x5000, 0x8000, 0xa000, 0xc000] {
            assert_eq!(code_beside(&maps, place), None, "{place:x}");
        }
    }

    #[test]
    fn a_place_on_a_stack_is_that_threads_whose_stack_ends_next_below() {
        let maps = maps::parse(MAPS.as_bytes()).unwrap();
        let thread = |tid, stack| Standing { tid, stack, ..Standing::default() };
        let threads = [thread(1, 0x8100), thread(2, 0x8800), thread(3, 0x5100)];
        let tid = |place| on_stack(&maps, &threads, place).map(|thread| thread.tid);
        assert_eq!([0x8000, 0x8200, 0x8900, 0x5200].map(tid), [None, Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn thread_local_variables_belong_to_the_nearest_thread() {
        let thread = |tid, pointer| Standing { tid, pointer, ..Standing::default() };
        let threads = [thread(1, 0x7000_0000), thread(2, 0x7100_0000)];
        let tid = |place| local_to(&threads, place).map(|thread| thread.tid);
        assert_eq!([0x6fff_fff0, 0x7100_0010, 0x6000_0000].map(tid), [Some(1), Some(2), None]);
    }
}
