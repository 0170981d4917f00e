//! The moment of a process that no session is attached to, kept by a clone: no hook is put in, and nothing
//! stays. What the clone is made with is mapped for as long as it lives, and is a home like any other: what a
//! killed heapattach leaves of it is found and undone in the same way.

use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::{
    home::{Home, session_lock::SessionLock, vdso},
    installation::{
        install::{self, InstallError},
        shelter,
    },
    session::{
        attach::own_start_time,
        failure::{AttachError, Failure},
        prepare::clean_up_before,
        undo::{Left, undo},
    },
    snapshot::{Clone, CloneError},
    trace::{
        stopped::{StopError, Stopped},
        target::Target,
    },
};
use heapattach_process::{addr::RemoteAddr, fault, proc::maps};

/// Why a moment is not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// Others could not see that there is a session.
    #[error("the lock of this session cannot be taken")]
    Lock(#[source] Errno),
    /// What a killed heapattach left is in the way.
    #[error(transparent)]
    Leftovers(Box<AttachError>),
    /// The memory map cannot be read.
    #[error("the memory map of the target cannot be read")]
    Maps,
    /// The target cannot be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// There is no place for what the clone is made with.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// There is no clone.
    #[error("the target could not be cloned")]
    Clone(#[from] CloneError),
}

/// A moment that a clone keeps.
#[derive(Debug)]
pub struct Keeping<'t> {
    target: &'t Target,
    clone: Option<Clone<'t>>,
    home: Option<Home>,
    _lock: SessionLock,
}

/// A moment, and what was seen of it.
#[derive(Debug)]
pub struct Moment<'t, S, F> {
    /// What was seen in the stop.
    pub seen: S,
    /// The clone that keeps the memory; or why there is none, and what was done in the stop instead.
    pub kept: Result<Keeping<'t>, (KeepError, F)>,
    /// How long the target was stopped.
    pub stopped: Duration,
}

/// Stops the target, has `look` see it, and keeps its memory; it goes on then. Without a clone `instead`
/// is done in the same stop.
///
/// # Errors
/// When it cannot be stopped. Nothing is left in it then.
pub fn keep<'t, S, F>(
    target: &'t Target,
    look: impl FnOnce(&Stopped<'t>) -> S,
    instead: impl FnOnce(&Stopped<'t>, &mut S) -> F,
) -> Result<Moment<'t, S, F>, KeepError> {
    let lock = SessionLock::take().map_err(KeepError::Lock)?;
    clean_up_before(target).map_err(|Failure { error, .. }| KeepError::Leftovers(error))?;
    let gadget = vdso::syscall_gadget(target).map_err(|_| KeepError::Maps)?;
    shelter::look_ahead(target);
    let began = Instant::now();
    let mut stop = Stopped::all(target)?;
    let mut seen = look(&stop);
    let mut home = None;
    let made = make(&stop, gadget, &lock, &mut home);
    let mut keeping = Keeping { target, clone: None, home, _lock: lock };
    let kept = match made {
        Ok(clone) => {
            keeping.clone = Some(clone);
            Ok(keeping)
        }
        Err(error) => {
            stop.take_turns();
            Err((error, instead(&stop, &mut seen)))
        }
    };
    let stopped = stop.finish().stopped.max(began.elapsed());
    fault::hold("kept");
    // Without a clone the rest was undone when the guard went.
    Ok(Moment { seen, kept, stopped })
}

/// Stops the target for as long as `look` takes, and changes nothing; how long that was.
///
/// # Errors
/// When it cannot be stopped.
pub fn stop<'t, S>(
    target: &'t Target,
    look: impl FnOnce(&Stopped<'t>) -> S,
) -> Result<(S, Duration), StopError> {
    let began = Instant::now();
    let mut stop = Stopped::all(target)?;
    stop.take_turns();
    let seen = look(&stop);
    Ok((seen, stop.finish().stopped.max(began.elapsed())))
}

fn make<'t>(
    stop: &Stopped<'t>,
    gadget: RemoteAddr,
    lock: &SessionLock,
    home: &mut Option<Home>,
) -> Result<Clone<'t>, KeepError> {
    let text = stop.target().process.read("maps").map_err(|_| KeepError::Maps)?;
    let maps = maps::parse(&text).map_err(|_| KeepError::Maps)?;
    let (built, result) =
        install::build_bare(stop, &maps, gadget, lock.session(), own_start_time());
    *home = built;
    result?;
    Ok(Clone::make(stop, home.as_ref())?)
}

impl Keeping<'_> {
    /// The clone, which never runs.
    pub fn pid(&self) -> i32 {
        self.clone.as_ref().map_or(0, Clone::pid)
    }

    /// Ends the clone and undoes the rest; how long the target was stopped for that.
    ///
    /// # Errors
    /// What is left in the target.
    pub fn finish(mut self) -> Result<Duration, Left> {
        self.undo()
    }

    fn undo(&mut self) -> Result<Duration, Left> {
        let mut stopped = Duration::ZERO;
        if let Some(clone) = self.clone.take() {
            // A clone that cannot be taken in is a zombie until the target ends.
            stopped += clone.finish().unwrap_or_default();
        }
        if let Some(home) = self.home.take() {
            let undone = undo(self.target, &home)?;
            stopped += undone.stops.iter().map(|stop| stop.stopped).sum::<Duration>();
        }
        Ok(stopped)
    }
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        let _ = self.undo();
    }
}
