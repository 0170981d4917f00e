//! A place for injected calls where there is none of ours: before the home exists, and when it is
//! unmapped. The call is made at a `syscall` of the program's own libc that a `ret` follows, on a
//! signal frame below the red zone of the borrowed thread's stack; should this process die, the
//! thread returns into libc's own signal return, and is where it was.
//!
//! The bytes below the red zone belong to nobody, but they are given back all the same.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::{
    addr::RemoteAddr,
    arch,
    memory::Memory,
    proc::maps::{self, Mapping},
    target::Target,
};

/// More code is not searched.
const CODE_LIMIT: u64 = 16 << 20;

/// Device, inode and offset of mapped code.
type Code = ((u32, u32), u64, u64);

/// Offsets of the two places in it.
static KNOWN: Mutex<Option<HashMap<Code, Option<[u64; 2]>>>> = Mutex::new(None);

/// Two places in the program's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// A call that returns.
    pub gadget: RemoteAddr,
    /// The signal return.
    pub restorer: RemoteAddr,
}

impl Places {
    /// Finds them in the program's libc; `None` if it has none, or returns are checked.
    pub(crate) fn find(target: &Target, maps: &[Mapping<'_>]) -> Option<Self> {
        let status = target.process.read("status").ok()?;
        if status.windows(5).any(|word| word == b"shstk") {
            return None;
        }
        let libc = |mapping: &&Mapping<'_>| {
            let name = mapping.label().as_encoded_bytes();
            let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            mapping.executable && (name.starts_with(b"libc.") || name.starts_with(b"ld-musl"))
        };
        maps.iter().filter(libc).find_map(|mapping| Self::in_code(&target.memory, mapping))
    }

    fn in_code(memory: &Memory, mapping: &Mapping<'_>) -> Option<Self> {
        let code = (mapping.device, mapping.inode, mapping.file_offset);
        let known = |all: &Option<HashMap<_, _>>| all.as_ref()?.get(&code).copied();
        let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known(&lock());
        let offsets = known.unwrap_or_else(|| {
            let found = search(memory, mapping);
            lock().get_or_insert_default().insert(code, found);
            found
        });
        let [gadget, restorer] = offsets?.map(|offset| mapping.range.start.offset(offset));
        // Another process may have other bytes there.
        let is = |at, wanted: &[u8]| memory.read_vec(at, wanted.len()).is_ok_and(|b| b == wanted);
        let holds = is(gadget, &arch::CALL_AND_RETURN)
            && arch::SIGNAL_RETURNS.iter().any(|wanted| is(restorer, wanted));
        holds.then_some(Self { gadget, restorer })
    }
}

fn search(memory: &Memory, mapping: &Mapping<'_>) -> Option<[u64; 2]> {
    let length = mapping.range.end.offset_from(mapping.range.start)?.min(CODE_LIMIT);
    let code = memory.read_vec(mapping.range.start, usize::try_from(length).ok()?).ok()?;
    let find = |wanted: &[u8]| Some(code.windows(wanted.len()).position(|w| w == wanted)? as u64);
    let gadget = find(&arch::CALL_AND_RETURN)?;
    Some([gadget, arch::SIGNAL_RETURNS.iter().find_map(|wanted| find(wanted))?])
}

/// A frame on the stack of a thread.
#[derive(Debug)]
pub(crate) struct Shelter {
    /// Where calls are made.
    pub gadget: RemoteAddr,
    /// On what stack.
    pub stack: RemoteAddr,
    old: Vec<u8>,
}

impl Shelter {
    /// Where the frame of a thread with this stack pointer goes, if there is room for it.
    pub(crate) fn room(maps: &[Mapping<'_>], stack_pointer: RemoteAddr) -> Option<RemoteAddr> {
        const ALIGNED: u64 = 64;
        let top = stack_pointer.get().checked_sub(arch::RED_ZONE)?;
        let at = top.checked_sub(arch::RESCUE_FRAME_LIMIT)? & !(ALIGNED - 1);
        let at = RemoteAddr::new(at);
        let below = RemoteAddr::new(at.get().checked_sub(8)?);
        let mapping = maps::covering(maps, below)?;
        let is_its_own = mapping.writable && mapping.inode == 0;
        (is_its_own && mapping.range.contains(&stack_pointer)).then_some(at)
    }

    /// Writes the frame, which is made for `at`.
    pub(crate) fn build(
        memory: &Memory,
        places: Places,
        at: RemoteAddr,
        frame: &[u8],
    ) -> Option<Self> {
        let stack = RemoteAddr::new(at.get().checked_sub(8)?);
        let bytes = [&places.restorer.get().to_le_bytes(), frame].concat();
        let old = memory.read_vec(stack, bytes.len()).ok()?;
        memory.write(stack, &bytes).ok()?;
        Some(Self { gadget: places.gadget, stack, old })
    }

    /// Gives the bytes back.
    pub(crate) fn leave(self, memory: &Memory) {
        // What is below the red zone means nothing to the program.
        let _ = memory.write(self.stack, &self.old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Process;

    #[test]
    fn the_libc_of_this_process_has_both_places() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let target = Target::open(process).unwrap();
        let text = target.process.read("maps").unwrap();
        let maps = maps::parse(&text).unwrap();
        let first = Places::find(&target, &maps);
        assert!(first.is_some(), "no places in libc");
        assert_eq!(Places::find(&target, &maps), first);
    }

    #[test]
    fn a_frame_stays_below_the_red_zone_and_within_the_stack() {
        let text = b"10000-40000 rw-p 0 00:00 0\n50000-51000 rw-p 0 00:00 0\n";
        let maps = maps::parse(text).unwrap();
        let room = |at| Shelter::room(&maps, RemoteAddr::new(at)).map(RemoteAddr::get);
        let at = room(0x3fff8).unwrap();
        assert!(at + arch::RESCUE_FRAME_LIMIT + arch::RED_ZONE <= 0x3fff8 && at > 0x10000);
        assert_eq!([room(0x50800), room(0x10100), room(0x60000), room(8)], [None; 4]);
    }
}
