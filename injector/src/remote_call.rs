//! System calls made by the target on our behalf, on one borrowed thread, and nothing else: no
//! code of the target runs, its stack is not touched, and it is given back as it was found.
//!
//! A thread whose registers are changed would crash if this process died just then. From the
//! moment a rescue place exists in the target ([`Carrier::rescue`]) it would not: the call is then
//! made on a stack that holds a signal frame with everything as it was. The first and the last
//! call of a session have no such place of ours; where there is time for it they take shelter
//! (`shelter.rs`), else how long they take is measured as the window.

use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::{
    addr::RemoteAddr,
    arch::{self, Registers},
    fault, lease,
    proc::maps::Mapping,
    ptrace::{self, SignalMask},
    rseq,
    shelter::{Places, Shelter},
    stopped::{Stopped, StoppedThread, insist},
    wait::Seen,
};

/// How long a call of the five harmless kinds may take.
const CALL_PATIENCE: Duration = Duration::from_secs(5);

/// Stops that belong to something else are skipped, but not for ever.
const OTHER_STOPS: usize = 32;

/// Why a call could not be made; not the call's own answer.
#[derive(Debug, thiserror::Error)]
pub enum CarrierError {
    /// A ptrace request failed.
    #[error("thread {tid} could not be borrowed")]
    Request {
        /// The thread.
        tid: i32,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// The call did not come back, or something else did.
    #[error("thread {tid} did not come back from an injected {call}")]
    Lost {
        /// The thread.
        tid: i32,
        /// Which call.
        call: &'static str,
    },
    /// The thread was killed.
    #[error("thread {tid} ended during an injected {call}")]
    Ended {
        /// The thread.
        tid: i32,
        /// Which call.
        call: &'static str,
    },
    /// The kernel refused the call itself.
    #[error("{call} in the target failed")]
    Refused {
        /// Which call.
        call: &'static str,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
}

/// A borrowed thread.
#[derive(Debug)]
pub struct Carrier<'s, 't> {
    stop: &'s Stopped<'t>,
    tid: i32,
    saved: Registers,
    mask: SignalMask,
    /// The `syscall` of the vDSO.
    gadget: RemoteAddr,
    rescue: Option<Rescue>,
    /// Where there is no home: in the program's own code and stack.
    shelter: Option<Shelter>,
    /// When the registers were changed without a rescue place.
    exposed_since: Option<Instant>,
    exposed: Duration,
    /// The mask is blocked and the registers may be changed.
    borrowed: bool,
}

/// Where a call survives the death of this process.
#[derive(Clone, Copy, Debug)]
struct Rescue {
    gadget: RemoteAddr,
    stack: RemoteAddr,
}

impl<'s, 't> Carrier<'s, 't> {
    /// Borrows a thread of the stopped target; `gadget` is a `syscall` instruction in its vDSO.
    ///
    /// # Errors
    /// When the thread ended meanwhile or does not answer.
    pub fn borrow(
        stop: &'s Stopped<'t>,
        thread: &StoppedThread,
        gadget: RemoteAddr,
    ) -> Result<Self, CarrierError> {
        let tid = thread.tid;
        let request = |source| CarrierError::Request { tid, source };
        let mut saved = thread.registers;
        if let Some(abort) = rseq::section(stop, thread) {
            saved = arch::moved_to(&saved, abort);
        }
        let mask = insist(|| ptrace::signal_mask(tid)).map_err(request)?;
        Ok(Self {
            stop,
            tid,
            saved,
            mask,
            gadget,
            rescue: None,
            shelter: None,
            exposed_since: None,
            exposed: Duration::ZERO,
            borrowed: false,
        })
    }

    /// Makes a rescue place out of what the program has, where that is possible: its process is not
    /// in use by anybody else meanwhile.
    pub fn take_shelter(&mut self, maps: &[Mapping<'_>]) {
        // Threads of a process that runs freely are borrowed for too short a time to look for one.
        if !lease::is_held() || self.stop.has_vfork_child() {
            return;
        }
        let target = self.stop.target();
        let Some(at) = Shelter::room(maps, arch::stack_pointer(&self.saved)) else { return };
        let Some(places) = Places::find(target, maps) else { return };
        let Ok(frame) = self.rescue_frame(at) else { return };
        self.shelter = Shelter::build(&target.memory, places, at, &frame);
        self.forgo_rescue();
    }

    /// The frame that brings the thread back from `stack`, to be written there before
    /// [`Carrier::rescue`].
    ///
    /// # Errors
    /// When the thread ended meanwhile.
    pub fn rescue_frame(&self, stack: RemoteAddr) -> Result<Vec<u8>, CarrierError> {
        let state = insist(|| ptrace::vector_state(self.tid))
            .map_err(|source| CarrierError::Request { tid: self.tid, source })?;
        Ok(arch::rescue_frame(&self.saved, self.mask, &state, stack))
    }

    /// From now on calls are made at `gadget` ([`arch::RESCUED_CALL`]) on `stack`, and if the
    /// thread is away from its own place already, it waits there.
    ///
    /// # Errors
    /// When the thread ended meanwhile.
    pub fn rescue(&mut self, gadget: RemoteAddr, stack: RemoteAddr) -> Result<(), CarrierError> {
        self.rescue = Some(Rescue { gadget, stack });
        if self.borrowed {
            // Should we die now, it makes a call without consequence, and returns.
            let harmless = libc::SYS_getpid;
            let waiting = arch::call_registers(&self.saved, gadget, Some(stack), harmless, [0; 6]);
            let tid = self.tid;
            ptrace::set_registers(tid, &waiting)
                .map_err(|source| CarrierError::Request { tid, source })?;
            self.covered();
        }
        Ok(())
    }

    /// The next calls cannot be rescued in our home, since it is what they unmap.
    pub fn forgo_rescue(&mut self) {
        let shelter = self.shelter.as_ref();
        self.rescue = shelter.map(|at| Rescue { gadget: at.gadget, stack: at.stack });
    }

    /// How long the thread would not have survived the death of this process.
    pub fn exposed(&self) -> Duration {
        self.exposed
    }

    /// Makes the target call `number`.
    ///
    /// # Errors
    /// [`CarrierError::Refused`] with the call's own errno, or what went wrong with the thread.
    pub fn call(
        &mut self,
        call: &'static str,
        number: i64,
        arguments: [u64; 6],
    ) -> Result<u64, CarrierError> {
        fault::point(call).map_err(|source| CarrierError::Refused { call, source })?;
        let tid = self.tid;
        let request = |source| CarrierError::Request { tid, source };
        if self.rescue.is_none() {
            self.exposed_since.get_or_insert_with(Instant::now);
        }
        let is_first = !std::mem::replace(&mut self.borrowed, true);
        let (gadget, stack) = match self.rescue {
            Some(rescue) => (rescue.gadget, Some(rescue.stack)),
            None => (self.gadget, None),
        };
        let registers = arch::call_registers(&self.saved, gadget, stack, number, arguments);
        ptrace::set_registers(tid, &registers).map_err(request)?;
        if is_first {
            // Only now: should we die between the two, the frame gives back both, but nothing would
            // give back a mask alone.
            ptrace::set_signal_mask(tid, SignalMask::MAX).map_err(request)?;
        }
        self.run_to_call(call)?;
        self.run_to_call(call)?;
        let after = insist(|| ptrace::registers(tid)).map_err(request)?;
        arch::call_result(&after).map_err(|source| CarrierError::Refused { call, source })
    }

    /// Gives the thread back as it was found.
    ///
    /// # Errors
    /// When it ended meanwhile, or nothing helps.
    pub fn finish(mut self) -> Result<Duration, CarrierError> {
        self.restore()?;
        Ok(self.exposed)
    }

    fn run_to_call(&self, call: &'static str) -> Result<(), CarrierError> {
        let tid = self.tid;
        let deadline = Instant::now() + CALL_PATIENCE;
        for _ in 0..OTHER_STOPS {
            insist(|| ptrace::resume_to_syscall(tid, 0))
                .map_err(|source| CarrierError::Request { tid, source })?;
            match self.stop.target().waiter.wait(tid, deadline) {
                Seen::Call => return Ok(()),
                // A stop of the whole process reports itself first.
                Seen::Interrupted | Seen::Event(_) | Seen::Signal(_) => {}
                Seen::Ended => return Err(CarrierError::Ended { tid, call }),
                Seen::Nothing => break,
            }
        }
        Err(CarrierError::Lost { tid, call })
    }

    /// Interrupts once more and writes everything back at that stop: the kernel itself then
    /// restarts the call the thread was in, or lets it return EINTR, and takes signals first.
    fn restore(&mut self) -> Result<(), CarrierError> {
        if !std::mem::take(&mut self.borrowed) {
            return Ok(());
        }
        // A thread that does not come back may need it for ever.
        let shelter = self.shelter.take();
        self.bring_back()?;
        self.shelter = shelter;
        Ok(())
    }

    fn bring_back(&mut self) -> Result<(), CarrierError> {
        let tid = self.tid;
        let request = |source| CarrierError::Request { tid, source };
        let deadline = Instant::now() + CALL_PATIENCE;
        let mut stops = 0;
        loop {
            insist(|| ptrace::interrupt(tid)).map_err(request)?;
            insist(|| ptrace::resume(tid, 0)).map_err(request)?;
            match self.stop.target().waiter.wait(tid, deadline) {
                Seen::Interrupted => break,
                Seen::Ended => return Err(CarrierError::Ended { tid, call: "restore" }),
                Seen::Nothing => return Err(CarrierError::Lost { tid, call: "restore" }),
                _ if stops > OTHER_STOPS => {
                    return Err(CarrierError::Lost { tid, call: "restore" });
                }
                _ => stops += 1,
            }
        }
        // The mask first: a thread with everything blocked would be worse than one that still
        // stands in our rescue place.
        insist(|| ptrace::set_signal_mask(tid, self.mask)).map_err(request)?;
        insist(|| ptrace::set_registers(tid, &self.saved)).map_err(request)?;
        self.covered();
        Ok(())
    }

    fn covered(&mut self) {
        if let Some(since) = self.exposed_since.take() {
            self.exposed += since.elapsed();
        }
    }
}

impl Drop for Carrier<'_, '_> {
    fn drop(&mut self) {
        // The seat belt; errors have nobody to go to.
        let _ = self.restore();
        if let Some(shelter) = self.shelter.take() {
            shelter.leave(&self.stop.target().memory);
        }
    }
}
