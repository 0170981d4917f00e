//! System calls made by the target on our behalf, on one borrowed thread, and nothing else: no
//! code of the target runs, its stack is not touched, and it is given back as it was found.
//!
//! A thread whose registers are changed would crash if this process died just then. From the
//! moment a rescue place exists in the target ([`Carrier::rescue`]) it would not: the call is then
//! made on a stack that holds a signal frame with everything as it was. The first and the last
//! call of a session have no such place of ours: they take shelter in what the program has
//! (`shelter/`). What has no shelter either is measured as the unsafe window, with the reason.

use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::{
    arch::{self, Registers, SignalMask},
    home::Home,
};
use crate::{
    installation::shelter::{Bare, Exposure, Gadget, Shelter, Site},
    trace::{
        insist::insist,
        seen::Seen,
        stopped::{Stopped, StoppedThread, rseq},
        walk::Step,
    },
};
use heapattach_process::{addr::RemoteAddr, fault, proc::maps::Mapping};

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
    thread: &'s StoppedThread,
    tid: i32,
    saved: Registers,
    mask: SignalMask,
    /// Its vector state, once it was asked for.
    vector: Vec<u8>,
    /// The `syscall` of the vDSO.
    gadget: RemoteAddr,
    rescue: Option<Rescue>,
    /// Where there is no home: in the program's own code and stack.
    shelter: Option<Shelter>,
    /// Why it has none.
    bare: Option<Bare>,
    /// When the registers were changed without a rescue place.
    exposed_since: Option<Instant>,
    exposed: Exposure,
    /// The mask is blocked and the registers may be changed.
    borrowed: bool,
}

/// A call that a borrowed thread makes by itself if this process dies.
#[derive(Clone, Copy, Debug)]
pub struct Undoing {
    /// Its number.
    pub number: i64,
    /// What it is given.
    pub arguments: [u64; 6],
}

/// Nothing is to be undone: a call without consequence.
const UNDONE: Undoing = Undoing { number: libc::SYS_getpid, arguments: [0; 6] };

/// Where a call survives the death of this process.
#[derive(Clone, Copy, Debug)]
struct Rescue {
    gadget: RemoteAddr,
    stack: RemoteAddr,
    /// The registers with which it stands aside before its signals are blocked and after: on a stack
    /// of ours no handler could run.
    aside: Option<Registers>,
}

impl<'s, 't> Carrier<'s, 't> {
    /// Borrows a thread of the stopped target; `gadget` is a `syscall` instruction in its vDSO.
    ///
    /// # Errors
    /// When the thread ended meanwhile or does not answer.
    pub fn borrow(
        stop: &'s Stopped<'t>,
        thread: &'s StoppedThread,
        gadget: RemoteAddr,
    ) -> Result<Self, CarrierError> {
        let tid = thread.tid;
        let request = |source| CarrierError::Request { tid, source };
        let mut saved = thread.registers;
        if let Some(abort) = rseq::section(stop, thread) {
            saved = arch::moved_to(&saved, abort);
        }
        let mask = insist(|| stop.tracer().signal_mask(tid)).map_err(request)?;
        Ok(Self {
            stop,
            thread,
            tid,
            saved,
            mask,
            vector: Vec::new(),
            gadget,
            rescue: None,
            shelter: None,
            bare: None,
            exposed_since: None,
            exposed: Exposure::default(),
            borrowed: false,
        })
    }

    /// Makes a rescue place out of what the program has, where that is possible.
    ///
    /// # Errors
    /// When the thread ended meanwhile.
    pub fn take_shelter(&mut self, maps: &[Mapping<'_>]) -> Result<(), CarrierError> {
        self.vector = self.vector_state()?;
        let target = self.stop.target();
        // Their length is the same wherever calls are made, at every place that is aligned as this one is.
        let nowhere = RemoteAddr::new(0);
        let none = Gadget { call: nowhere, restorer: nowhere, leave: None };
        let length = self.frames(none, nowhere, UNDONE).len() as u64;
        let built = Site::find(self.stop, maps, self.thread, length).and_then(|site| {
            let frames = self.frames(site.gadget, site.at(), UNDONE);
            Shelter::build(&target.memory, site, &frames).ok_or(Bare::NoRoom)
        });
        self.bare = built.as_ref().err().copied();
        self.shelter = built.ok();
        self.forgo_rescue();
        Ok(())
    }

    /// Should this process die in the next calls, the thread makes this one before it is where it was.
    pub fn undo_by(&mut self, undoing: Undoing) {
        // A vfork child may map something there meanwhile: then nothing is unmapped unseen.
        if let Some(shelter) = self.shelter.as_ref().filter(|_| !self.stop.has_vfork_child()) {
            let frames = self.frames(shelter.gadget, shelter.frame(), undoing);
            shelter.rewrite(&self.stop.target().memory, &frames);
        }
    }

    /// The frame that brings the thread back, behind one that has it make a call first, for `at`.
    fn frames(&self, gadget: Gadget, at: RemoteAddr, undoing: Undoing) -> Vec<u8> {
        let Undoing { number, arguments } = undoing;
        let behind = at.offset(arch::PLAIN_FRAME);
        let stack = RemoteAddr::new(behind.get() - 8);
        let registers =
            arch::call_registers(&self.saved, gadget.call, Some(stack), number, arguments);
        // The vector state comes back with the second one.
        let mut frames = arch::rescue_frame(&registers, SignalMask::MAX, &[], at);
        let room = usize::try_from(arch::PLAIN_FRAME - 8).unwrap_or(frames.len());
        frames.resize(room, 0);
        frames.extend_from_slice(&gadget.restorer.get().to_le_bytes());
        frames.extend(arch::rescue_frame(&self.saved, self.mask, &self.vector, behind));
        frames
    }

    fn vector_state(&self) -> Result<Vec<u8>, CarrierError> {
        insist(|| self.stop.tracer().vector_state(self.tid))
            .map_err(|source| CarrierError::Request { tid: self.tid, source })
    }

    /// The frame that brings the thread back from `stack`, to be written there before
    /// [`Carrier::rescue`].
    ///
    /// # Errors
    /// When the thread ended meanwhile.
    pub fn rescue_frame(&self, stack: RemoteAddr) -> Result<Vec<u8>, CarrierError> {
        Ok(arch::rescue_frame(&self.saved, self.mask, &self.vector_state()?, stack))
    }

    /// From now on calls are made at `gadget` ([`arch::RESCUED_CALL`]), on the frame of this home, and
    /// if the thread is away from its own place already, it waits there.
    ///
    /// # Errors
    /// When the thread ended meanwhile.
    pub fn rescue(&mut self, gadget: RemoteAddr, home: &Home) -> Result<(), CarrierError> {
        let stack = home.frame();
        let aside = arch::aside(&self.saved, home.way_back(), stack);
        self.rescue = Some(Rescue { gadget, stack, aside: Some(aside) });
        if self.borrowed {
            // Should we die now, it makes a call without consequence, and returns.
            let harmless = libc::SYS_getpid;
            let waiting = arch::call_registers(&self.saved, gadget, Some(stack), harmless, [0; 6]);
            self.set_registers(&waiting)?;
            self.covered();
        }
        Ok(())
    }

    fn set_registers(&self, registers: &Registers) -> Result<(), CarrierError> {
        let tid = self.tid;
        self.stop
            .tracer()
            .set_registers(tid, registers)
            .map_err(|source| CarrierError::Request { tid, source })
    }

    /// The next calls cannot be rescued in our home, since it is what they unmap.
    pub fn forgo_rescue(&mut self) {
        self.rescue = self.shelter.as_ref().map(|at| Rescue {
            gadget: at.gadget.call,
            stack: at.stack,
            aside: at.aside().map(|(place, to)| arch::aside(&self.saved, place, to)),
        });
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
        self.borrow_now()?;
        let (gadget, stack) = match &self.rescue {
            Some(rescue) => (rescue.gadget, Some(rescue.stack)),
            None => (self.gadget, None),
        };
        let registers = arch::call_registers(&self.saved, gadget, stack, number, arguments);
        let steps = [Step::Registers(Box::new(registers)), Step::ToCall, Step::ToCall];
        let after = match self.make(&steps, call)? {
            Some(after) => after,
            None => insist(|| self.stop.tracer().registers(tid)).map_err(request)?,
        };
        arch::call_result(&after).map_err(|source| CarrierError::Refused { call, source })
    }

    /// Blocks its signals, before the first call. The registers first: should we die between the two
    /// requests, the frame gives back everything; nothing would give back a mask alone.
    fn borrow_now(&mut self) -> Result<(), CarrierError> {
        if std::mem::replace(&mut self.borrowed, true) {
            return Ok(());
        }
        let first = self.rescue.map(|Rescue { gadget, stack, aside }| {
            let Undoing { number, arguments } = UNDONE;
            let waits =
                || arch::call_registers(&self.saved, gadget, Some(stack), number, arguments);
            Step::Registers(Box::new(aside.unwrap_or_else(waits)))
        });
        let steps = first.into_iter().chain([Step::Mask(SignalMask::MAX)]);
        self.make(&steps.collect::<Vec<_>>(), "borrow").map(drop)
    }

    /// Makes these steps: the tracing thread in one go, as far as nothing else happens, or each by
    /// itself. The registers after them, if they are known.
    fn make(&self, steps: &[Step], call: &'static str) -> Result<Option<Registers>, CarrierError> {
        let (tid, tracer) = (self.tid, self.stop.tracer());
        let request = |source| CarrierError::Request { tid, source };
        let walk = tracer.walk(tid, steps).map_err(request)?;
        for (number, step) in steps.iter().enumerate().skip(walk.done) {
            let is_begun = walk.runs && number == walk.done;
            match step {
                Step::Registers(_) | Step::Mask(_) => tracer.write(tid, step).map_err(request)?,
                Step::ToCall => self.run_to_call(call, is_begun)?,
                Step::ToInterrupt => self.run_to_interrupt(call, is_begun)?,
            }
        }
        Ok(walk.registers)
    }

    /// Gives the thread back as it was found.
    ///
    /// # Errors
    /// When it ended meanwhile, or nothing helps.
    pub fn finish(mut self) -> Result<Exposure, CarrierError> {
        self.restore()?;
        Ok(self.exposed)
    }

    /// `is_begun`: it runs already.
    fn run_to_call(&self, call: &'static str, is_begun: bool) -> Result<(), CarrierError> {
        let tid = self.tid;
        let deadline = Instant::now() + CALL_PATIENCE;
        let mut signal = 0;
        for stops in 0..OTHER_STOPS {
            let taken = std::mem::take(&mut signal);
            if stops > 0 || !is_begun {
                insist(|| self.stop.tracer().resume_to_syscall(tid, taken))
                    .map_err(|source| CarrierError::Request { tid, source })?;
            }
            match self.stop.target().waiter.wait(tid, deadline) {
                Seen::Call => return Ok(()),
                // The one signal that cannot be blocked, sent since the stop: taken here it stops the
                // process, which ptrace goes on regardless of; left out it would be lost.
                Seen::Signal(libc::SIGSTOP) => signal = libc::SIGSTOP,
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
        let aside = self.rescue.as_ref().and_then(|rescue| rescue.aside);
        // The mask before its own registers: a thread with everything blocked would be worse than one
        // that still stands in our rescue place.
        let own = [Step::Mask(self.mask), Step::Registers(Box::new(self.saved))];
        let steps = std::iter::once(Step::ToInterrupt)
            .chain(aside.map(Box::new).map(Step::Registers))
            .chain(own);
        self.make(&steps.collect::<Vec<_>>(), "restore")?;
        self.covered();
        Ok(())
    }

    /// `is_begun`: it runs already.
    fn run_to_interrupt(&self, call: &'static str, is_begun: bool) -> Result<(), CarrierError> {
        let tid = self.tid;
        let request = |source| CarrierError::Request { tid, source };
        let deadline = Instant::now() + CALL_PATIENCE;
        for stops in 0..=OTHER_STOPS {
            if stops > 0 || !is_begun {
                insist(|| self.stop.tracer().interrupt(tid)).map_err(request)?;
                insist(|| self.stop.tracer().resume(tid, 0)).map_err(request)?;
            }
            match self.stop.target().waiter.wait(tid, deadline) {
                Seen::Interrupted => return Ok(()),
                Seen::Ended => return Err(CarrierError::Ended { tid, call }),
                Seen::Nothing => break,
                Seen::Call | Seen::Signal(_) | Seen::Event(_) => {}
            }
        }
        Err(CarrierError::Lost { tid, call })
    }

    fn covered(&mut self) {
        if let Some(since) = self.exposed_since.take() {
            self.exposed.note(since, self.bare);
        }
    }
}

impl Drop for Carrier<'_, '_> {
    fn drop(&mut self) {
        // The seat belt; there is no caller to tell errors to.
        let _ = self.restore();
        if let Some(shelter) = self.shelter.take() {
            shelter.leave(&self.stop.target().memory);
        }
    }
}
