//! Building our home in the stopped target: six system calls on a borrowed thread, and writes from
//! outside. Nothing of the target's own memory changes here.

use std::ops::Range;

use heapattach_abi::region::{FILTER_AT, tables_at};
use nix::errno::Errno;

use crate::home::{Header, Home, HomeError, PAGE};
use crate::{
    home::{free_range, payload_image::PayloadImage},
    installation::{
        remote_call::{Carrier, CarrierError, Undoing},
        shelter::{Exposure, choose_carrier},
    },
    trace::stopped::Stopped,
};
use heapattach_process::{
    addr::RemoteAddr,
    memory_file::{MemoryFile, TakeError},
    proc::maps::Mapping,
    shared::Shared,
};

const MADV_WIPEONFORK: u64 = 18;
/// No descriptor, from its beginning on.
const NO_FILE: [u64; 2] = [u64::MAX, 0];
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Why there is no home.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The address space has no room near the code.
    #[error("no free range of {length} bytes lies within 2 GiB of the functions at {near}")]
    NoRoom {
        /// How much was wanted.
        length: u64,
        /// Near what.
        near: RemoteAddr,
    },
    /// The kernel has something against every place.
    #[error(
        "none of the {tried} free ranges within 2 GiB of the functions at {near} can be mapped"
    )]
    NoPlace {
        /// How many were tried.
        tried: usize,
        /// Near what.
        near: RemoteAddr,
        /// What was said of the last one.
        #[source]
        source: Box<InstallError>,
    },
    /// The kernel put it elsewhere.
    #[error("the kernel mapped at {got} instead of {wanted}")]
    Moved {
        /// Where it should be.
        wanted: RemoteAddr,
        /// Where it is.
        got: RemoteAddr,
    },
    /// A system call in the target failed.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// Our home cannot be written.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The shared memory cannot be had.
    #[error("the shared memory made in the target could not be taken over")]
    Shared(#[source] TakeError),
    /// No thread can be borrowed.
    #[error("no thread of the target could be borrowed")]
    NoCarrier,
}

/// The call that asks for memory that can be executed.
pub(crate) const CODE: &str = "mmap home";

/// What a home needs to know before it is built.
#[derive(Debug)]
pub struct Blueprint<'a> {
    /// The payload.
    pub image: &'a PayloadImage,
    /// A `syscall` instruction in the vDSO.
    pub gadget: RemoteAddr,
    /// The code that must be in reach.
    pub code: Range<RemoteAddr>,
    /// Room for modules in the journal.
    pub module_room: u64,
    /// Room for changes in the journal.
    pub change_room: u64,
    /// Binary logarithm of the slots of a ring.
    pub ring_bits: u32,
    /// Bytes for unwind tables.
    pub tables: usize,
    /// The session's number.
    pub session: u64,
    /// The start time of this process.
    pub started: u64,
}

/// What came of it. A home that was begun is named even on failure, so that it can be undone.
#[derive(Debug)]
pub struct Built {
    /// The home, if its mapping came to be.
    pub home: Option<Home>,
    /// The shared region, or what went wrong.
    pub shared: Result<Shared, InstallError>,
    /// How long the borrowed thread would not have survived our death.
    pub exposed: Exposure,
}

/// Builds a home.
pub fn build(stop: &Stopped<'_>, maps: &[Mapping<'_>], plan: &Blueprint<'_>) -> Built {
    let mut home = None;
    let mut exposed = Exposure::default();
    let shared = build_with(stop, maps, plan, &mut home, &mut exposed);
    Built { home, shared, exposed }
}

fn build_with(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    plan: &Blueprint<'_>,
    built: &mut Option<Home>,
    exposed: &mut Exposure,
) -> Result<Shared, InstallError> {
    let body = plan.image.text().len() as u64;
    let region = ((tables_at(plan.ring_bits) + plan.tables) as u64).next_multiple_of(PAGE);
    let length = Home::length_for(body, plan.module_room, plan.change_room, region);
    let heap = stop.target().process.heap_start();
    let places = free_range::places(maps, &plan.code, length, heap);
    if places.is_empty() {
        return Err(InstallError::NoRoom { length, near: plan.code.start });
    }
    let thread = choose_carrier(stop, maps).ok_or(InstallError::NoCarrier)?;
    let mut carrier = Carrier::borrow(stop, thread, plan.gadget)?;
    // Everything that takes time comes before the thread's registers change.
    let header = Header {
        session: plan.session,
        owner: std::process::id().into(),
        owner_started: plan.started,
        length,
        body_length: body,
        module_room: plan.module_room,
        change_room: plan.change_room,
        region,
        ..Header::default()
    };
    let homes = places.into_iter().map(|at| Home::new(at, header));
    let homes = homes
        .map(|home| Ok((carrier.rescue_frame(home.frame())?, home)))
        .collect::<Result<Vec<_>, CarrierError>>()?;
    carrier.take_shelter(maps)?;
    let frame = reserve_one(&mut carrier, homes, plan.code.start, built)?;
    let Some(home) = built else { return Err(InstallError::NoCarrier) };
    let memory = &stop.target().memory;
    home.write(memory, &frame)?;
    carrier.rescue(home.gadget(), home)?;
    let shared = furnish(stop, &mut carrier, home)?;
    let at = home.body();
    let wire = memory.write(at, &wired(plan.image, home));
    wire.map_err(|source| HomeError::Write { at, source })?;
    *exposed = carrier.finish()?;
    Ok(shared)
}

/// Builds a home without a payload: what calls are made at that survive our death, and nothing that a hook
/// would need.
pub fn build_bare(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    gadget: RemoteAddr,
    session: u64,
    started: u64,
) -> (Option<Home>, Result<Exposure, InstallError>) {
    let mut built = None;
    let result = build_bare_with(stop, maps, gadget, (session, started), &mut built);
    (built, result)
}

fn build_bare_with(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    gadget: RemoteAddr,
    (session, owner_started): (u64, u64),
    built: &mut Option<Home>,
) -> Result<Exposure, InstallError> {
    let region = PAGE;
    let length = Home::length_for(0, 0, 0, region);
    let near = gadget..gadget.offset(1);
    let places = free_range::places(maps, &near, length, stop.target().process.heap_start());
    if places.is_empty() {
        return Err(InstallError::NoRoom { length, near: near.start });
    }
    let thread = choose_carrier(stop, maps).ok_or(InstallError::NoCarrier)?;
    let mut carrier = Carrier::borrow(stop, thread, gadget)?;
    let owner = std::process::id().into();
    let header = Header { session, owner, owner_started, length, region, ..Header::default() };
    let homes = places.into_iter().map(|at| Home::new(at, header));
    let homes = homes
        .map(|home| Ok((carrier.rescue_frame(home.frame())?, home)))
        .collect::<Result<Vec<_>, CarrierError>>()?;
    carrier.take_shelter(maps)?;
    let frame = reserve_one(&mut carrier, homes, near.start, built)?;
    let Some(home) = built else { return Err(InstallError::NoCarrier) };
    home.write(&stop.target().memory, &frame)?;
    carrier.rescue(home.gadget(), home)?;
    Ok(carrier.finish()?)
}

/// Maps the first of these homes that the kernel has nothing against; answers the frame made for it.
fn reserve_one(
    carrier: &mut Carrier<'_, '_>,
    homes: Vec<(Vec<u8>, Home)>,
    near: RemoteAddr,
    built: &mut Option<Home>,
) -> Result<Vec<u8>, InstallError> {
    let tried = homes.len();
    let mut last = InstallError::NoCarrier;
    for (frame, home) in homes {
        let (at, length, munmap) = (home.at().get(), home.header().length, libc::SYS_munmap);
        carrier.undo_by(Undoing { number: munmap, arguments: [at, length, 0, 0, 0, 0] });
        match reserve(carrier, &home) {
            Ok(()) => {
                *built = Some(home);
                return Ok(frame);
            }
            Err(error) if is_about_the_place(&error) => last = error,
            Err(error) => {
                // If the answer was lost, the range may be there all the same, and is to be undone.
                let was_refused =
                    matches!(error, InstallError::Carrier(CarrierError::Refused { .. }));
                *built = (!was_refused).then_some(home);
                return Err(error);
            }
        }
    }
    Err(InstallError::NoPlace { tried, near, source: Box::new(last) })
}

/// Whether another place may do: the range is in use or reserved, or not the program's to map. What a
/// policy forbids it forbids anywhere.
fn is_about_the_place(error: &InstallError) -> bool {
    use Errno::{EEXIST, EINVAL, ENOMEM, EPERM};
    match error {
        InstallError::Moved { .. } => true,
        InstallError::Carrier(CarrierError::Refused { call: CODE, source }) => {
            matches!(*source, ENOMEM | EEXIST | EINVAL | EPERM)
        }
        _ => false,
    }
}

/// The one call without a rescue place of ours.
fn reserve(carrier: &mut Carrier<'_, '_>, home: &Home) -> Result<(), InstallError> {
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let length = home.header().length;
    let got = map(carrier, CODE, home.at(), length, protection, flags, NO_FILE)?;
    // Kernels before 4.17 take the address for a hint.
    if got == home.at() {
        return Ok(());
    }
    carrier.call("munmap home", libc::SYS_munmap, [got.get(), length, 0, 0, 0, 0])?;
    Err(InstallError::Moved { wanted: home.at(), got })
}

/// The pages of the home that are not code.
fn furnish(
    stop: &Stopped<'_>,
    carrier: &mut Carrier<'_, '_>,
    home: &mut Home,
) -> Result<Shared, InstallError> {
    let length = home.region().offset_from(home.control()).unwrap_or(0);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    map(carrier, "mmap control", home.control(), length, READ_WRITE, flags, NO_FILE)?;
    let arguments = [home.control().get(), length, MADV_WIPEONFORK, 0, 0, 0];
    carrier.call("madvise", libc::SYS_madvise, arguments)?;

    match share(stop, carrier, home) {
        Err(InstallError::Carrier(CarrierError::Refused { call: "memfd_create", source }))
            if has_no_file_for_us(source) =>
        {
            keep_private(stop, carrier, home)
        }
        Err(InstallError::Shared(TakeError::Unavailable(_))) => keep_private(stop, carrier, home),
        other => other,
    }
}

/// The target has no descriptor to spare, or may not make such a file.
fn has_no_file_for_us(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EMFILE
            | Errno::ENFILE
            | Errno::EPERM
            | Errno::EACCES
            | Errno::ENOSYS
            | Errno::EINVAL
    )
}

/// A file for the region, made by the target so that no path need be shared, and taken over. Where
/// that is not possible at all, as under a filter without pidfd_getfd, memory of the target's must do.
fn share(
    stop: &Stopped<'_>,
    carrier: &mut Carrier<'_, '_>,
    home: &mut Home,
) -> Result<Shared, InstallError> {
    let length = usize::try_from(home.header().region).unwrap_or(0);
    share_over(stop, carrier, home, &[0..length, length..length])
}

/// The same for these parts of the region; the others stay what they are.
pub(crate) fn share_over(
    stop: &Stopped<'_>,
    carrier: &mut Carrier<'_, '_>,
    home: &mut Home,
    parts: &[Range<usize>],
) -> Result<Shared, InstallError> {
    let memory = &stop.target().memory;
    home.amend(memory, |header| header.descriptor = 1)?;
    let descriptor = create_shared(carrier, home)?;
    let number = i32::try_from(descriptor).unwrap_or(-1);
    let bytes = usize::try_from(home.header().region).unwrap_or(0);
    let taken = MemoryFile::take(&stop.target().process, number);
    let shared = match taken.and_then(|file| Shared::take(file, bytes)) {
        Ok(shared) => shared,
        Err(error) => {
            if matches!(error, TakeError::Unavailable(_)) {
                carrier.call("close", libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
                home.amend(memory, |header| header.descriptor = 0)?;
            }
            return Err(InstallError::Shared(error));
        }
    };
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let (from, length) = (part.start as u64, part.len() as u64);
        let at = home.region().offset(from);
        map(carrier, "mmap region", at, length, READ_WRITE, flags, [descriptor, from])?;
    }
    carrier.call("close", libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
    home.amend(memory, |header| header.descriptor = 0)?;
    Ok(shared)
}

/// The same without a file.
fn keep_private(
    stop: &Stopped<'_>,
    carrier: &mut Carrier<'_, '_>,
    home: &mut Home,
) -> Result<Shared, InstallError> {
    let length = home.header().region;
    home.amend(&stop.target().memory, |header| header.is_private = 1)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    map(carrier, "mmap region", home.region(), length, READ_WRITE, flags, NO_FILE)?;
    let arguments = [home.region().get(), length, MADV_WIPEONFORK, 0, 0, 0];
    carrier.call("madvise", libc::SYS_madvise, arguments)?;
    Ok(Shared::Private(home.region()))
}

/// `memfd_create`, without the flag that kernels before 6.3 do not know.
fn create_shared(carrier: &mut Carrier<'_, '_>, home: &Home) -> Result<u64, CarrierError> {
    const MFD_NOEXEC_SEAL: u64 = 8;
    let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    let name = home.name().get();
    let create = libc::SYS_memfd_create;
    match carrier.call("memfd_create", create, [name, flags | MFD_NOEXEC_SEAL, 0, 0, 0, 0]) {
        Err(CarrierError::Refused { source: Errno::EINVAL, .. }) => {
            carrier.call("memfd_create", create, [name, flags, 0, 0, 0, 0])
        }
        other => other,
    }
}

fn map(
    carrier: &mut Carrier<'_, '_>,
    call: &'static str,
    at: RemoteAddr,
    length: u64,
    protection: i32,
    flags: i32,
    [descriptor, offset]: [u64; 2],
) -> Result<RemoteAddr, CarrierError> {
    let (protection, flags) = (protection.unsigned_abs().into(), flags.unsigned_abs().into());
    let arguments = [at.get(), length, protection, flags, descriptor, offset];
    carrier.call(call, libc::SYS_mmap, arguments).map(RemoteAddr::new)
}

/// The addresses that the payload needs, and its cells for them.
pub fn wiring(image: &PayloadImage, home: &Home) -> [(usize, RemoteAddr); 3] {
    [
        (image.control_cell(), home.control()),
        (image.index_cell(), home.index()),
        (image.filter_cell(), home.region().offset(FILTER_AT as u64)),
    ]
}

/// The payload with the addresses it needs filled in.
fn wired(image: &PayloadImage, home: &Home) -> Vec<u8> {
    let mut body = image.text().to_vec();
    for (cell, value) in wiring(image, home) {
        if let Some(bytes) = body.get_mut(cell..cell + 8) {
            bytes.copy_from_slice(&value.get().to_le_bytes());
        }
    }
    body
}
