//! An errand: a thread of the target calls its loader for us. Allocation functions are led to the
//! gates in our home; the first thread to come waits there for our answer; once it stands where a
//! program may call its loader, it is told to; and the functions are given back.
//!
//! Nothing of the target's is held meanwhile: every other thread runs on, the one that calls is
//! its own master, and if we die, it goes on by itself and the journal tells what to give back. A
//! breakpoint would outlive us and kill the target; a jump written into the function would be
//! inherited by every child forked meanwhile, and hang it.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use heapattach_abi::kind::HookKind;
use nix::errno::Errno;

use crate::{
    arch::errand_words::State,
    home::{payload_image::PayloadImage, stub_page::StubPage},
    hook::{
        obstacle::{NotNow, fall_back, not_now},
        patch::{PatchError, Patches},
        plan::{HookMode, PlannedHook, Wishes, out_of_reach, plan, still_there},
        survey::{Survey, SurveyError, Surveyor},
    },
    installation::{
        give_back::{self, GiveBackError, Undone},
        install::InstallError,
        shared_object::{Block, Order},
    },
    trace::{
        insist::insist,
        stopped::{StopCost, StopError, Stopped},
        target::Target,
    },
};
use crate::{
    home::Home,
    loader::{
        functions::Functions,
        gate_image::gate_image_in,
        safety::{self, Unsafe},
    },
};
use heapattach_entry::user_hooks::UserHooks;
use heapattach_process::{
    linker::LinkError,
    proc::maps::{self, Mapping},
};

/// How often we look whether a thread has come.
const LOOK: Duration = Duration::from_micros(200);

/// After a thread that came where no program may call its loader, others get a chance.
const AFTER_REFUSAL: Duration = Duration::from_millis(1);

/// How long a thread that came back from its vfork may be held while others are still in theirs.
const VFORK_PATIENCE: Duration = Duration::from_millis(100);

/// The call itself takes milliseconds; this is for machines that have no time.
const CALL_PATIENCE: Duration = Duration::from_secs(60);

/// How often a stop is tried again when text cannot be changed just then, before slots must do.
const ATTEMPTS: usize = 30;

/// Why an errand was not run, or did not help.
#[derive(Debug, thiserror::Error)]
pub enum ErrandError {
    /// No thread came to a place where a program may call its loader.
    #[error("no thread of the target came to a place where it may make a call of ours within {waited:.0?}{}",
        why.map(|why| format!(" ({why})")).unwrap_or_default())]
    NobodyCame {
        /// How long we waited.
        waited: Duration,
        /// What was wrong with the last that came.
        why: Option<Unsafe>,
    },
    /// The call does not return.
    #[error("a thread of the target is still in that call after {0:?}")]
    Stuck(Duration),
    /// The home holds no gate image.
    #[error("the home in the target was made by another version of heapattach")]
    NoLure,
    /// The modules cannot be told.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// The memory map cannot be read.
    #[error("the memory map of the target cannot be read")]
    Maps,
    /// Nothing is hooked that a thread could come by.
    #[error("no allocation function can be redirected to our code")]
    NoFunction,
    /// The target cannot be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// A function could not be led to the gate image.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// A function could not be given back.
    #[error(transparent)]
    Undo(#[from] GiveBackError),
    /// A system call in the target failed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The target cannot be written.
    #[error("what is to be done cannot be written into the target")]
    Write(#[source] Errno),
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the function answered.
    pub result: u64,
    /// What `dlerror` said.
    pub message: String,
    /// How long it took, at most.
    pub took: Duration,
}

/// Errands to be run in one target, and what the stops for them cost.
pub struct Errands<'t> {
    target: &'t Target,
    home: Home,
    gate_image: PayloadImage,
    mode: HookMode,
    /// Every stop so far.
    pub stops: Vec<StopCost>,
}

impl<'t> Errands<'t> {
    /// Errands by way of the gate image in `home`.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(target: &'t Target, home: &Home, mode: HookMode) -> Result<Self, ErrandError> {
        let gate_image = gate_image_in(&target.memory, home).ok_or(ErrandError::NoLure)?;
        Ok(Self { target, home: home.clone(), gate_image, mode, stops: Vec::new() })
    }

    /// Has `order` carried out by the first thread that comes to a safe place, and gives all
    /// functions back.
    ///
    /// # Errors
    /// When none comes within `patience`, or one of the many things that can go wrong does. The
    /// functions may still lead to the gate image then, which is harmless; undoing the home gives them
    /// back.
    pub fn run(
        &mut self,
        functions: &Functions,
        order: &Order,
        patience: Duration,
    ) -> Result<Outcome, ErrandError> {
        let memory = &self.target.memory;
        let block = Block::of(memory, &self.home);
        block.set_state(State::Idle).map_err(ErrandError::Write)?;
        block.set_order(order).map_err(ErrandError::Write)?;
        self.set_out()?;
        let waited = self.wait(functions, order, patience);
        let withdrawn = self.withdraw();
        let outcome = waited?;
        withdrawn?;
        Ok(outcome)
    }

    /// Leads the allocation functions to the gate image.
    fn set_out(&mut self) -> Result<(), ErrandError> {
        let target = self.target;
        let mut surveyor = Surveyor::new(target, UserHooks::default())?;
        for attempt in 0..=ATTEMPTS {
            let survey = match surveyor.look(target) {
                // The target loads or unloads something just now.
                Err(SurveyError::Link(LinkError::List(_))) if attempt < ATTEMPTS => {
                    sleep(AFTER_REFUSAL);
                    continue;
                }
                looked => looked?,
            };
            let mut hooks = self.functions(&survey)?;
            let stop = Stopped::all(target)?;
            let text = target.process.read("maps").map_err(|_| ErrandError::Maps)?;
            let maps = maps::parse(&text).map_err(|_| ErrandError::Maps)?;
            let reason = not_now(&stop, &maps, &hooks);
            let is_same = still_there(target, &survey, &hooks);
            if attempt < ATTEMPTS && (reason.is_some() || !is_same) {
                self.stops.push(stop.finish());
                match reason {
                    Some(NotNow::VforkChild) => target.hold_late(VFORK_PATIENCE),
                    _ => sleep(AFTER_REFUSAL),
                }
                continue;
            }
            if let Some(reason) = reason {
                fall_back(&mut hooks, reason, self.mode);
            }
            let led = self.lead(&stop, &maps, &survey, hooks);
            self.stops.push(stop.finish());
            return led;
        }
        Err(ErrandError::NoFunction)
    }

    /// The functions that threads are to come by.
    fn functions(&self, survey: &Survey) -> Result<Vec<PlannedHook>, ErrandError> {
        let text = self.target.process.read("maps").map_err(|_| ErrandError::Maps)?;
        let maps = maps::parse(&text).map_err(|_| ErrandError::Maps)?;
        let wishes =
            Wishes { mode: self.mode, pages: false, rights: false, asked: UserHooks::default() };
        let mut hooks = plan(self.target, survey, &maps, wishes, |_| false);
        // A gate does not keep the arithmetic flags.
        hooks.retain(|hook| hook.is_hooked() && hook.kind().0 != HookKind::Chosen);
        let reach = self.home.at()..self.home.end();
        for hook in &mut hooks {
            if let crate::hook::plan::Way::Entry(_) = hook.way {
                out_of_reach(hook, &reach, self.mode);
            }
        }
        if !hooks.iter().any(PlannedHook::is_hooked) {
            return Err(ErrandError::NoFunction);
        }
        Ok(hooks)
    }

    fn lead(
        &mut self,
        stop: &Stopped<'_>,
        maps: &[Mapping<'_>],
        survey: &Survey,
        hooks: Vec<PlannedHook>,
    ) -> Result<(), ErrandError> {
        let memory = &self.target.memory;
        let stubs = StubPage::known(memory, maps, &self.home);
        let mut patches = Patches::new(self.home.clone(), stubs, self.mode);
        let led = patches
            .add(stop, maps, &self.gate_image, hooks)
            .and_then(|()| patches.lead(stop, maps, &self.gate_image, survey));
        self.home = patches.home;
        led?;
        Block::of(memory, &self.home).set_state(State::Wanted).map_err(ErrandError::Write)
    }

    /// Waits for a thread, and for its call.
    fn wait(
        &mut self,
        functions: &Functions,
        order: &Order,
        patience: Duration,
    ) -> Result<Outcome, ErrandError> {
        let target = self.target;
        let block = Block::of(&target.memory, &self.home);
        let mut since = Instant::now();
        let mut why = None;
        let mut is_granted = false;
        loop {
            match block.state() {
                Some(State::Done) => {
                    let result = block.result().ok_or(StopError::Gone)?;
                    return Ok(Outcome { result, message: block.message(), took: since.elapsed() });
                }
                Some(State::Parked) => match self.answer(functions, order)? {
                    Ok(()) => {
                        is_granted = true;
                        since = Instant::now();
                    }
                    Err(reason) => {
                        why = Some(reason).filter(|r| *r != Unsafe::Gone).or(why);
                        sleep(AFTER_REFUSAL);
                    }
                },
                Some(State::Granted | State::Running) => {
                    if since.elapsed() > CALL_PATIENCE {
                        return Err(ErrandError::Stuck(since.elapsed()));
                    }
                    sleep(LOOK);
                }
                Some(State::Wanted | State::Claimed) => sleep(LOOK),
                Some(State::Idle | State::Refused) => {
                    block.set_state(State::Wanted).map_err(ErrandError::Write)?;
                }
                None => return Err(StopError::Gone.into()),
            }
            if !target.process.is_alive() {
                return Err(StopError::Gone.into());
            }
            target.release_late();
            if !is_granted && since.elapsed() > patience {
                return Err(ErrandError::NobodyCame { waited: since.elapsed(), why });
            }
        }
    }

    /// Looks at the thread that waits, with everything stopped, and answers it.
    fn answer(
        &mut self,
        functions: &Functions,
        order: &Order,
    ) -> Result<Result<(), Unsafe>, ErrandError> {
        let target = self.target;
        let lists = Surveyor::new(target, UserHooks::default())?.lists();
        let lists = lists.ok_or(SurveyError::Link(LinkError::Static))?;
        let stop = Stopped::all(target)?;
        let text = target.process.read("maps").map_err(|_| ErrandError::Maps)?;
        let maps = maps::parse(&text).map_err(|_| ErrandError::Maps)?;
        let block = Block::of(&target.memory, &self.home);
        let judgement =
            safety::judge(&stop, &maps, &block, (functions, lists), order.starts_thread);
        let answer = match judgement {
            Ok(()) => Some(State::Granted),
            Err(Unsafe::Gone) => None,
            Err(_) => Some(State::Refused),
        };
        if let Some(answer) = answer {
            insist(|| block.set_state(answer)).map_err(ErrandError::Write)?;
        }
        self.stops.push(stop.finish());
        Ok(judgement)
    }

    /// Gives the functions back.
    fn withdraw(&mut self) -> Result<(), ErrandError> {
        let mut undone = Undone::default();
        let result = give_back::words(self.target, &self.home, &mut undone);
        self.stops.extend(undone.stops);
        Ok(result?)
    }
}
