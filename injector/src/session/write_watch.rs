//! Which pages a process does not write to for a while. The target itself calls `userfaultfd`, on a borrowed thread
//! with all threads stopped; the descriptor is taken over, and closed in the target in the same stop. No hook is put
//! in, no line of the target's runs, and its pages are watched from outside while it goes on.
//!
//! When we end, however we do, the kernel closes the descriptor, and nothing is watched any more. A descriptor that a
//! killed heapattach left in the target is closed with what else it left: see `give_back::unmap`.

use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::errno::Errno;

use crate::{
    home::{Home, HomeError, session_lock::SessionLock, vdso},
    installation::{
        install,
        remote_call::{Carrier, CarrierError},
        shelter,
    },
    session::{
        Session,
        attach::own_start_time,
        failure::Failure,
        keep::KeepError,
        prepare::clean_up_before,
        undo::{Left, undo},
    },
    trace::{
        insist::insist,
        stopped::{Stopped, choose_carrier},
        target::{Target, may_suspend_seccomp},
    },
};
use heapattach_process::{
    addr::RemoteAddr,
    fault,
    page_writes::{FLAGS, PageWrites, USERFAULTFD, WritesError, watchable},
    proc::{maps, pidfd},
};

/// Why no pages are watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The target is as it was.
    #[error(transparent)]
    Before(#[from] KeepError),
    /// It watches pages of its own.
    #[error(
        "the process has a userfaultfd of its own, and pages of one are not watched by another"
    )]
    HasItsOwn,
    /// A call that a filter forbids would kill it.
    #[error(
        "the process is under seccomp, and a forbidden call would kill it; need CAP_SYS_ADMIN to suspend the filter \
         meanwhile: run heapattach as root"
    )]
    Seccomp,
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
    /// What is noted in the target could not be written.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Its descriptor is not to be had.
    #[error("the descriptor cannot be taken over")]
    Take(#[source] Errno),
    /// The kernel does not do it.
    #[error(transparent)]
    Writes(#[from] WritesError),
}

/// Has all private memory without a file watched from now on, for as long as the answer lives; how long the target was
/// stopped for it.
///
/// # Errors
/// What of heapattach is left in the target.
pub fn watch(target: &Target) -> Result<(Result<PageWrites, WatchError>, Duration), Left> {
    let (mut home, mut stopped) = (None, Duration::ZERO);
    let result = SessionLock::take().map_err(KeepError::Lock).and_then(|lock| {
        clean_up_before(target).map_err(|Failure { error, .. }| KeepError::Leftovers(error))?;
        let gadget = vdso::syscall_gadget(target).map_err(|_| KeepError::Maps)?;
        shelter::look_ahead(target);
        let began = Instant::now();
        let mut stop = Stopped::all(target)?;
        let made = in_stop(&mut stop, gadget, &lock, &mut home);
        stopped = stop.finish().stopped.max(began.elapsed());
        // The lock is taken until all of it is undone.
        Ok((lock, made))
    });
    let (lock, made) = match result {
        Ok((lock, made)) => (Some(lock), made),
        Err(error) => (None, Err(error.into())),
    };
    if let Some(home) = home.take() {
        let undone = undo(target, &home)?;
        stopped += undone.stops.iter().map(|stop| stop.stopped).sum::<Duration>();
    }
    drop(lock);
    Ok((made.and_then(|descriptor| from_outside(target, descriptor)), stopped))
}

/// The same in a session, which has a place in the target for the calls.
///
/// # Errors
/// When no pages are watched; then nothing more than before is in the target.
pub fn watch_in(session: &Session<'_>) -> Result<(PageWrites, Duration), WatchError> {
    let target = session.target();
    let gadget = vdso::syscall_gadget(target).map_err(|_| KeepError::Maps)?;
    let began = Instant::now();
    let stop = session.stop().map_err(KeepError::from)?;
    let mut home = session.patches.home.clone();
    let made = refuse(&stop).and_then(|()| take_over(&stop, &mut home, gadget));
    let stopped = stop.finish().stopped.max(began.elapsed());
    Ok((from_outside(target, made?)?, stopped))
}

fn from_outside(target: &Target, descriptor: OwnedFd) -> Result<PageWrites, WatchError> {
    let areas = watchable(&target.process).map_err(|_| KeepError::Maps)?;
    Ok(PageWrites::watch(&target.process, descriptor, &areas)?)
}

fn in_stop(
    stop: &mut Stopped<'_>,
    gadget: RemoteAddr,
    lock: &SessionLock,
    built: &mut Option<Home>,
) -> Result<OwnedFd, WatchError> {
    refuse(stop)?;
    let target = stop.target();
    let text = target.process.read("maps").map_err(|_| KeepError::Maps)?;
    let maps = maps::parse(&text).map_err(|_| KeepError::Maps)?;
    let (made, result) = install::build_bare(stop, &maps, gadget, lock.session(), own_start_time());
    *built = made;
    result.map_err(KeepError::from)?;
    let Some(home) = built.as_mut() else { return Err(WatchError::NoCarrier) };
    take_over(stop, home, gadget)
}

/// Whether it must not be done.
fn refuse(stop: &Stopped<'_>) -> Result<(), WatchError> {
    let target = stop.target();
    let is_filtered = || target.process.status().is_ok_and(|status| status.seccomp != 0);
    match () {
        () if stop.has_vfork_child() => Err(WatchError::VforkChild),
        () if has_its_own(target) => Err(WatchError::HasItsOwn),
        () if is_filtered() && !may_suspend_seccomp() => Err(WatchError::Seccomp),
        () => Ok(()),
    }
}

/// A borrowed thread makes the call.
fn take_over(
    stop: &Stopped<'_>,
    home: &mut Home,
    gadget: RemoteAddr,
) -> Result<OwnedFd, WatchError> {
    let target = stop.target();
    let thread = choose_carrier(stop).ok_or(WatchError::NoCarrier)?;
    let mut carrier = Carrier::borrow(stop, thread, gadget)?;
    let frame = carrier.rescue_frame(home.frame())?;
    insist(|| target.memory.write(home.frame(), &frame)).map_err(WatchError::Memory)?;
    carrier.rescue(home.gadget(), home)?;
    // A clean-up after us learns from it that there may be one.
    home.amend(&target.memory, |header| header.descriptor = 1)?;
    let result = hand_over(&mut carrier, target);
    fault::hold("handed over");
    if result.is_ok() {
        home.amend(&target.memory, |header| header.descriptor = 0)?;
    }
    carrier.finish()?;
    result
}

/// A new descriptor of the target's becomes ours alone.
fn hand_over(carrier: &mut Carrier<'_, '_>, target: &Target) -> Result<OwnedFd, WatchError> {
    let number = carrier.call("userfaultfd", libc::SYS_userfaultfd, [FLAGS, 0, 0, 0, 0, 0])?;
    fault::hold("userfaultfd");
    let taken = fault::point("pidfd_getfd").and_then(|()| {
        let process = target.process.pidfd().ok_or(Errno::ENOSYS)?;
        pidfd::take(process.as_fd(), i32::try_from(number).unwrap_or(-1))
    });
    carrier.call("close", libc::SYS_close, [number, 0, 0, 0, 0, 0])?;
    taken.map_err(WatchError::Take)
}

fn has_its_own(target: &Target) -> bool {
    target.process.descriptors().iter().any(|(_, link)| link == USERFAULTFD)
}
