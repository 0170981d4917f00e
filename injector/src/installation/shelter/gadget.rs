//! Places in the program's own code: a system call that returns, the return from a signal, and the end
//! of a function that moves the stack pointer to where its frame pointer is.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use super::Bare;
use crate::arch;
use crate::trace::target::Target;
use heapattach_process::{addr::RemoteAddr, memory::Memory, proc::maps::Mapping};

/// More code of one file is not searched,
const CODE_LIMIT: u64 = 16 << 20;
/// most have all places in this much of it,
const FIRST_PART: u64 = 128 << 10;
/// and no more files are searched.
const FILES_LIMIT: usize = 16;

/// Device, inode and offset of mapped code.
type Code = ((u32, u32), u64, u64);

/// Offsets of the places in it; the last is not in every code.
type Offsets = (u64, u64, Option<u64>);

/// What was found so far.
static KNOWN: Mutex<Option<HashMap<Code, Option<Offsets>>>> = Mutex::new(None);

/// Where a call can be made that survives us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gadget {
    /// A call that returns.
    pub call: RemoteAddr,
    /// The signal return.
    pub restorer: RemoteAddr,
    /// The end of a function that leads to where the frame pointer does.
    pub leave: Option<RemoteAddr>,
}

impl Gadget {
    /// Finds one in the program's libc, or, where it has none, in the rest of its code.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn find(target: &Target, maps: &[Mapping<'_>]) -> Result<Self, Bare> {
        // Of the thread that stands for the process: it is switched on for all of them.
        let status = target.process.read("status").unwrap_or_default();
        if status.windows(5).any(|word| word == b"shstk") {
            return Err(Bare::ShadowStack);
        }
        let is_code =
            |mapping: &&Mapping<'_>| mapping.executable && !mapping.writable && mapping.inode != 0;
        let (libc, rest): (Vec<_>, Vec<_>) = maps.iter().filter(is_code).partition(|m| is_libc(m));
        let files = libc.into_iter().chain(rest).take(FILES_LIMIT);
        let mut found = files.filter_map(|mapping| Self::in_code(&target.memory, mapping));
        found.next().ok_or(Bare::NoCode)
    }

    /// That of [`arch::BROUGHT_CODE`], where it is put at this place.
    pub(super) fn brought(at: RemoteAddr) -> Self {
        let (restorer, leave) = (at.offset(arch::BROUGHT_RETURN), at.offset(arch::BROUGHT_LEAVE));
        Self { call: at, restorer, leave: Some(leave) }
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
        let (call, restorer, leave) = offsets?;
        let place = |offset: u64| mapping.range.start.offset(offset);
        // Another process may have other bytes there.
        let is = |at, wanted: &[u8]| memory.read_vec(at, wanted.len()).is_ok_and(|b| b == wanted);
        let (call, restorer, leave) = (place(call), place(restorer), leave.map(place));
        let holds = is(call, &arch::CALL_AND_RETURN)
            && arch::SIGNAL_RETURNS.iter().any(|wanted| is(restorer, wanted));
        let leave = leave.filter(|&at| is(at, &arch::LEAVE_AND_RETURN));
        holds.then_some(Self { call, restorer, leave })
    }
}

fn is_libc(mapping: &Mapping<'_>) -> bool {
    let name = mapping.label().as_encoded_bytes();
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name.starts_with(b"libc.") || name.starts_with(b"libc-2") || name.starts_with(b"ld-musl")
}

fn search(memory: &Memory, mapping: &Mapping<'_>) -> Option<Offsets> {
    let length = mapping.range.end.offset_from(mapping.range.start)?.min(CODE_LIMIT);
    let within = |length: u64| {
        search_in(&memory.read_vec(mapping.range.start, usize::try_from(length).ok()?).ok()?)
    };
    let is_whole = |found: &Offsets| found.2.is_some();
    within(length.min(FIRST_PART)).filter(is_whole).or_else(|| within(length))
}

/// The first of each.
fn search_in(code: &[u8]) -> Option<Offsets> {
    let find = |wanted: &[u8]| Some(code.windows(wanted.len()).position(|w| w == wanted)? as u64);
    let call = find(&arch::CALL_AND_RETURN)?;
    let restorer = arch::SIGNAL_RETURNS.iter().find_map(|wanted| find(wanted))?;
    Some((call, restorer, find(&arch::LEAVE_AND_RETURN)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tracer::Tracer;
    use heapattach_process::proc::{Process, maps};

    #[test]
    fn code_that_is_brought_is_what_is_looked_for_elsewhere() {
        let Gadget { call, restorer, leave } = Gadget::brought(RemoteAddr::new(0));
        let at = |place: RemoteAddr| {
            &arch::BROUGHT_CODE[usize::try_from(place.get()).expect("a few bytes")..]
        };
        assert!(at(call).starts_with(&arch::CALL_AND_RETURN));
        assert!(arch::SIGNAL_RETURNS.iter().any(|wanted| at(restorer).starts_with(wanted)));
        assert_eq!(at(leave.expect("it is brought")), arch::LEAVE_AND_RETURN);
    }

    #[test]
    fn the_libc_of_this_process_has_both_places() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let target = Target::open(process, Tracer::Own).unwrap();
        let text = target.process.read("maps").unwrap();
        let maps = maps::parse(&text).unwrap();
        let first = Gadget::find(&target, &maps);
        assert!(first.is_ok_and(|found| found.leave.is_some()), "no places in libc");
        assert_eq!(Gadget::find(&target, &maps), first);
    }
}
