//! Free pages of a process that the kernel takes back: the target itself calls `madvise(MADV_DONTNEED)`, on a
//! borrowed thread, with all threads stopped. No code of the target runs, no hook is put in, and nothing stays.
//!
//! Which pages these are is told by who looks at the stopped target, and must be such that no thread reads what is
//! in them any more: each call stands for itself, so that a process that is killed between two has lost nothing.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use nix::errno::Errno;

use crate::{
    home::{Home, session_lock::SessionLock, vdso},
    installation::{
        install,
        remote_call::{Carrier, CarrierError},
        shelter,
    },
    session::{
        attach::own_start_time,
        failure::Failure,
        keep::KeepError,
        prepare::clean_up_before,
        undo::{Left, undo},
    },
    trace::{
        insist::insist,
        stopped::{Stopped, choose_carrier},
        target::Target,
    },
};
use heapattach_process::{addr::RemoteAddr, proc::maps};

/// Why nothing, or not all, was given up.
#[derive(Debug, thiserror::Error)]
pub enum PurgeError {
    /// The target is as it was.
    #[error(transparent)]
    Before(#[from] KeepError),
    /// What looked at it wants nothing done.
    #[error("{0}")]
    Refused(String),
    /// Memory is shared with a child that runs.
    #[error("a child made by vfork still uses the memory of the process")]
    VforkChild,
    /// No thread can be borrowed.
    #[error("no thread of the target can be borrowed")]
    NoCarrier,
    /// A call could not be made.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// The frame that brings the thread back could not be written.
    #[error("the memory of the target cannot be written")]
    Memory(#[source] Errno),
}

/// What was given up.
#[derive(Debug, Default)]
pub struct Purged {
    /// Ranges, and their bytes.
    pub ranges: u64,
    /// See `ranges`.
    pub bytes: u64,
    /// Ranges for which there was no time.
    pub left: u64,
    /// Why not all of them.
    pub error: Option<PurgeError>,
    /// How long the target was stopped, in all.
    pub stopped: Duration,
}

/// Stops the target, has `look` say which pages are not needed, and has the kernel take them, for as long as the
/// target may be stopped.
///
/// # Errors
/// What of heapattach is left in the target.
pub fn purge(
    target: &Target,
    most: Duration,
    look: impl FnOnce(&Stopped<'_>) -> Result<Vec<Range<u64>>, String>,
) -> Result<Purged, Left> {
    let mut purged = Purged::default();
    let mut home = None;
    let result = SessionLock::take().map_err(KeepError::Lock).and_then(|lock| {
        clean_up_before(target).map_err(|Failure { error, .. }| KeepError::Leftovers(error))?;
        let gadget = vdso::syscall_gadget(target).map_err(|_| KeepError::Maps)?;
        shelter::look_ahead(target);
        let began = Instant::now();
        let stop = Stopped::all(target)?;
        let until = began + most;
        let made = in_stop(&stop, gadget, &lock, until, look, &mut home, &mut purged);
        purged.stopped = stop.finish().stopped.max(began.elapsed());
        // The lock is held until all of it is undone.
        Ok((lock, made))
    });
    let (lock, made) = match result {
        Ok((lock, made)) => (Some(lock), made),
        Err(error) => (None, Err(error.into())),
    };
    if let Some(home) = home.take() {
        let undone = undo(target, &home)?;
        purged.stopped += undone.stops.iter().map(|stop| stop.stopped).sum::<Duration>();
    }
    drop(lock);
    purged.error = made.err();
    Ok(purged)
}

fn in_stop(
    stop: &Stopped<'_>,
    gadget: RemoteAddr,
    lock: &SessionLock,
    until: Instant,
    look: impl FnOnce(&Stopped<'_>) -> Result<Vec<Range<u64>>, String>,
    built: &mut Option<Home>,
    purged: &mut Purged,
) -> Result<(), PurgeError> {
    if stop.has_vfork_child() {
        return Err(PurgeError::VforkChild);
    }
    let ranges = look(stop).map_err(PurgeError::Refused)?;
    let target = stop.target();
    let text = target.process.read("maps").map_err(|_| KeepError::Maps)?;
    let maps = maps::parse(&text).map_err(|_| KeepError::Maps)?;
    let (made, result) = install::build_bare(stop, &maps, gadget, lock.session(), own_start_time());
    *built = made;
    result.map_err(KeepError::from)?;
    let Some(home) = built.as_ref() else { return Err(PurgeError::NoCarrier) };
    let thread = choose_carrier(stop).ok_or(PurgeError::NoCarrier)?;
    let mut carrier = Carrier::borrow(stop, thread, gadget)?;
    let frame = carrier.rescue_frame(home.frame())?;
    insist(|| target.memory.write(home.frame(), &frame)).map_err(PurgeError::Memory)?;
    carrier.rescue(home.gadget(), home)?;
    let dont_need = u64::from(libc::MADV_DONTNEED.unsigned_abs());
    let mut ranges = ranges.into_iter();
    let result = ranges.by_ref().take_while(|_| Instant::now() < until).try_for_each(|range| {
        let length = range.end.saturating_sub(range.start);
        carrier.call("madvise", libc::SYS_madvise, [range.start, length, dont_need, 0, 0, 0])?;
        purged.ranges += 1;
        purged.bytes = purged.bytes.saturating_add(length);
        Ok::<(), CarrierError>(())
    });
    purged.left = ranges.count() as u64;
    carrier.finish()?;
    Ok(result?)
}
