//! The place where a test makes a call of the engine fail, or ends a process, on purpose.
//!
//! Every ptrace request, write into the target and injected call passes [`point`] first. Without
//! the cargo feature `faults` it is nothing; with it, `HEAPATTACH_FAULT` tells what happens:
//! `count`, `trace`, `fail:N` (once), `refuse:N` (once, as for want
//! of memory), `failfrom:N` (for ever), `kill:N` (this process),
//! `killfront:N` (the command that started it) or `hold:N` (at the place `call`).
//! `HEAPATTACH_HOLD=PLACE=FILE,...` has it wait at [`hold`] of that place, for as long as there is such a
//! file. `HEAPATTACH_SPENT=STEP,...` has the time of a step be over ([`is_spent`]), whatever the clock says.
//! With `HEAPATTACH_COMPARE` copies that were made early are compared with the memory of the stopped target
//! ([`is_comparing`]).

use nix::errno::Errno;

/// Passes, unless a test wants the call named `what` to fail.
///
/// # Errors
/// `EIO` if a test asked for it.
#[cfg(not(feature = "faults"))]
#[inline]
pub fn point(_what: &'static str) -> Result<(), Errno> {
    Ok(())
}

/// See the other half.
///
/// # Errors
/// `EIO` if a test asked for it.
#[cfg(feature = "faults")]
pub fn point(what: &'static str) -> Result<(), Errno> {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::{Pid, getppid},
    };
    let (plan, wanted) = armed::plan();
    let now = armed::next();
    let changes = armed::changes(what);
    if now == wanted {
        // A retry more, and the numbers of all later calls are others: a test goes by this.
        eprintln!("heapattach: faults: call {now} is {what}, after {changes} changes");
    }
    if plan == "trace" {
        eprintln!("heapattach: faults: call {now} is {what}");
    }
    match plan {
        "fail" if now == wanted => Err(Errno::EIO),
        "refuse" if now == wanted => Err(Errno::ENOMEM),
        "failfrom" if now >= wanted => Err(Errno::EIO),
        "kill" if now == wanted => {
            let _ = kill(Pid::this(), Signal::SIGKILL);
            Ok(())
        }
        "killfront" if now == wanted => {
            let _ = kill(getppid(), Signal::SIGKILL);
            Ok(())
        }
        "hold" if now == wanted => {
            hold("call");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Waits here, if a test wants that: so that it can do something just then.
#[cfg(not(feature = "faults"))]
#[inline]
pub fn hold(_place: &'static str) {}

/// See the other half.
#[cfg(feature = "faults")]
pub fn hold(place: &'static str) {
    let plan = std::env::var("HEAPATTACH_HOLD").unwrap_or_default();
    let here = |part: &str| {
        part.split_once('=').filter(|(at, _)| *at == place).map(|(_, file)| file.to_owned())
    };
    let Some(file) = plan.split(',').find_map(here) else { return };
    let file = std::path::Path::new(&file);
    if file.exists() {
        eprintln!("heapattach: faults: held at {place}");
    }
    while file.exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Whether a test wants the time that there is for this step to be over.
#[cfg(not(feature = "faults"))]
#[inline]
pub fn is_spent(_step: &'static str) -> bool {
    false
}

/// See the other half.
#[cfg(feature = "faults")]
pub fn is_spent(step: &'static str) -> bool {
    std::env::var("HEAPATTACH_SPENT").is_ok_and(|steps| steps.split(',').any(|one| one == step))
}

/// Whether a test wants to know if copies that were made early are what a full stop would have read.
#[cfg(not(feature = "faults"))]
#[inline]
pub fn is_comparing() -> bool {
    false
}

/// See the other half.
#[cfg(feature = "faults")]
pub fn is_comparing() -> bool {
    std::env::var_os("HEAPATTACH_COMPARE").is_some()
}

/// Tells a test something.
pub fn tell(text: &str) {
    #[cfg(feature = "faults")]
    eprintln!("heapattach: faults: {text}");
    let _ = text;
}

/// Prints how many calls there were, if a test wants to know.
pub fn summary() {
    #[cfg(feature = "faults")]
    if matches!(armed::plan().0, "count" | "trace") {
        eprintln!("heapattach: faults: {} calls", armed::next() - 1);
    }
}

#[cfg(feature = "faults")]
mod armed {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };

    static CALLS: AtomicU64 = AtomicU64::new(0);
    static CHANGES: AtomicU64 = AtomicU64::new(0);
    static PLAN: OnceLock<(String, u64)> = OnceLock::new();

    pub fn plan() -> (&'static str, u64) {
        let (plan, wanted) = PLAN.get_or_init(|| {
            let text = std::env::var("HEAPATTACH_FAULT").unwrap_or_default();
            let (plan, number) = text.split_once(':').unwrap_or((&text, "0"));
            (plan.to_owned(), number.parse().unwrap_or(0))
        });
        (plan, *wanted)
    }

    pub fn next() -> u64 {
        CALLS.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How often a thread's registers were changed, this call included.
    pub fn changes(what: &str) -> u64 {
        let is_one = u64::from(what == "PTRACE_SETREGS");
        CHANGES.fetch_add(is_one, Ordering::Relaxed) + is_one
    }
}
