//! Building our home in the stopped target: six system calls on a borrowed thread, and writes from
//! outside. Nothing of the target's own memory changes here.

use std::ops::Range;

use heapattach_abi::{
    control,
    region::{self, FILTER_AT, pack_interval, tables_at},
    row,
    samples::FILTER_BYTES,
};
use nix::errno::Errno;

use crate::home::{Header, Home, HomeError, PAGE};
use crate::{
    home::{free_range, payload_image::PayloadImage},
    hook::nests::Nests,
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

/// What the hooks are told when they are switched on.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Until when, by the time-stamp counter; 0: for ever.
    pub deadline: u64,
    /// Mean bytes between samples; 1 records everything.
    pub interval: u64,
    /// Hooked functions call hooked functions: every call of theirs is looked at.
    pub nests: Nests,
    /// Binary logarithm of the slots of a ring.
    pub ring_bits: u32,
    /// How often a thread looks again for room in a full ring.
    pub ring_patience: u32,
    /// The same for records of mappings.
    pub map_patience: u32,
    /// Where none of these bits is set in the number of such looks, it lets others have its processor,
    /// or sleeps; 0: never.
    pub yield_mask: u32,
    /// Makes the random numbers others than those of the last session.
    pub salt: u32,
    /// Frames of a stack that are recorded.
    pub most_frames: u32,
    /// Of so many stacks one is verified; 0: none.
    pub verify: u32,
    /// Whether unknown stacks may be copied by system calls.
    pub may_copy: bool,
    /// Where the stack of the first thread can be.
    pub first_stack: Range<RemoteAddr>,
}

/// Has hooks that are on take calls of hooked functions by hooked functions for what they are: a wrapper
/// was loaded. Every call of a block takes the slow path from now on if it is one of blocks.
///
/// # Errors
/// When the target cannot be written.
pub fn nest(stop: &Stopped<'_>, home: &Home, nests: Nests) -> Result<(), Errno> {
    let memory = &stop.target().memory;
    let looks = home.control().offset(control::BY_ADDRESS as u64);
    let mut word = [0; 4];
    memory.read(looks, &mut word)?;
    memory.write(looks, &(u32::from_le_bytes(word) | nests.bits()).to_le_bytes())?;
    if !nests.blocks {
        return Ok(());
    }
    // A counter that is full stays full.
    memory.write(home.region().offset(FILTER_AT as u64), &[u8::MAX; FILTER_BYTES])?;
    let taken = memory.word(home.region().offset(region::ROWS_TAKEN as u64))?;
    let rows = usize::try_from(taken).unwrap_or(usize::MAX).min(row::ROWS - 1);
    for number in 0..=rows {
        let at = region::ROWS_AT + number * row::ROW_BYTES + row::THRESHOLD;
        memory.write_word(home.region().offset(at as u64), 0)?;
    }
    Ok(())
}

/// Turns all hooks on.
///
/// # Errors
/// When the target cannot be written.
pub fn enable(stop: &Stopped<'_>, home: &Home, orders: &Orders) -> Result<(), Errno> {
    let memory = &stop.target().memory;
    let by_address = if orders.interval <= 1 { control::EVERY_ADDRESS } else { 0 };
    let looks = by_address | orders.nests.bits();
    if looks & !control::NESTS_MAPS != 0 {
        // Every block that is given back is looked at.
        memory.write(home.region().offset(FILTER_AT as u64), &[u8::MAX; FILTER_BYTES])?;
    }
    let field = |offset: usize| home.control().offset(offset as u64);
    let shared = |offset: usize| home.region().offset(offset as u64);
    memory.write_word(shared(region::DEADLINE_TSC), orders.deadline)?;
    memory.write_word(shared(region::INTERVAL), pack_interval(orders.interval, 0))?;
    memory.write_word(shared(region::FIRST_STACK), orders.first_stack.start.get())?;
    memory.write_word(shared(region::FIRST_STACK_END), orders.first_stack.end.get())?;
    memory.write_word(field(control::REGION), home.region().get())?;
    for (offset, value) in [
        (control::RING_BITS, orders.ring_bits),
        (control::RING_PATIENCE, orders.ring_patience),
        (control::MAP_PATIENCE, orders.map_patience),
        (control::YIELD_MASK, orders.yield_mask),
        (control::SALT, orders.salt),
        (control::MOST_FRAMES, orders.most_frames),
        (control::VERIFY, orders.verify),
        (control::MAY_COPY, orders.may_copy.into()),
        (control::BY_ADDRESS, looks),
        // Last: the hooks look at nothing else before.
        (control::ENABLED, 1),
    ] {
        memory.write(field(offset), &value.to_le_bytes())?;
    }
    Ok(())
}
