//! One session, once it is attached: watch, extend, detach. The target is not traced while the
//! session lasts; a module that appears later means one more short stop.

use std::time::{Duration, Instant};

use heapattach_abi::{control::ENABLED, region::tables_at};
use nix::errno::Errno;

use crate::{
    attach::Options,
    failure::AttachError,
    heartbeat::Heartbeat,
    home::Home,
    leftovers::{Child, clean_children},
    linker::Link,
    mailbox::Mailboxes,
    obstacle::not_now,
    patch::Patches,
    payload_image::PayloadImage,
    places::Places,
    plan::{PlannedHook, Way, plan},
    prepare::{fall_back, still_there},
    proc::maps,
    python::{self, Python},
    slots::{self, Sorted},
    stopped::{StopCost, StopError, Stopped, insist},
    stream::Stream,
    survey::{Survey, Surveyor},
    target::Target,
    undo::{self, Left, Undone, undo},
    unwind::Tables,
};

/// So many failures are told one by one.
const MISSED_LIMIT: usize = 20;

/// How often a stop is tried again because a thread was in the middle of an allocation.
const IDLE_TRIES: usize = 30;

/// Why a session stopped the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// To put the hooks in.
    Attach,
    /// A new module came, or a slot was bound meanwhile.
    Module,
    /// To give everything back.
    Detach,
}

/// One stop of the target.
#[derive(Clone, Copy, Debug)]
pub struct StopRecord {
    /// What for.
    pub reason: StopReason,
    /// What it cost.
    pub cost: StopCost,
}

impl StopRecord {
    /// Lets the target run on, and notes what the stop cost.
    pub(crate) fn end(reason: StopReason, stop: Stopped<'_>) -> Self {
        Self { reason, cost: stop.finish() }
    }
}

/// A session.
#[derive(Debug)]
pub struct Session<'t> {
    pub(crate) target: &'t Target,
    pub(crate) image: &'t PayloadImage,
    pub(crate) options: Options,
    pub(crate) surveyor: Surveyor,
    pub(crate) links: Vec<Link>,
    /// What is hooked.
    pub patches: Patches,
    /// What the program asks for.
    pub mailboxes: Mailboxes,
    /// What is counted and recorded.
    pub stream: Stream,
    /// What stacks are followed by.
    pub tables: Tables,
    /// Slots that are left alone, or not filled yet.
    pub sorted: Sorted,
    /// Where callers live.
    pub places: Places,
    /// Every stop so far.
    pub stops: Vec<StopRecord>,
    /// How long borrowed threads would not have survived our death.
    pub exposed: Duration,
    pub(crate) heartbeat: Heartbeat,
    /// The target may not read the time-stamp counter.
    pub(crate) clockless: bool,
    pub(crate) own_start: u64,
    /// Looks that are due because a slot may be bound behind our back.
    pub(crate) rechecks: Vec<Instant>,
    /// How often modules came or went.
    pub changes: u64,
    /// What could not be hooked in mid-session, for the report.
    pub missed: Vec<String>,
    /// The Python interpreter, once there is one.
    pub python: Option<Python>,
}

/// What became of the target since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// It runs.
    Runs,
    /// It became another program; nothing of ours is left in it.
    Execed,
    /// It ended.
    Ended,
}

/// What detach did.
#[derive(Debug)]
pub struct Detached {
    /// In the target.
    pub result: Result<Undone, Left>,
    /// In its children.
    pub children: Vec<Child>,
}

impl<'t> Session<'t> {
    /// The target.
    pub fn target(&self) -> &'t Target {
        self.target
    }

    /// Looks whether the target still runs, and whether it loaded something. A module that cannot
    /// be hooked does not end the session; it is noted in [`Session::missed`].
    pub fn watch(&mut self) -> Watch {
        self.target.release_late();
        let memory = &self.target.memory;
        if Home::open(memory, self.patches.home.at()).is_err() {
            // A process on its way out has no memory left, though it may still be listed.
            let has_memory = self.target.process.read("maps").is_ok_and(|maps| !maps.is_empty());
            return if has_memory { Watch::Execed } else { Watch::Ended };
        }
        let due = self.rechecks.pop_if(|due| *due <= Instant::now()).is_some();
        let Ok(survey) = self.surveyor.look(self.target) else { return Watch::Runs };
        let links: Vec<Link> = survey.loaded.iter().map(|l| l.link.clone()).collect();
        let changed = links != self.links;
        self.changes += u64::from(changed);
        if changed {
            self.mailboxes.look(self.target, &mut self.patches.home);
        }
        if changed || due || self.sorted.pending > 0 {
            self.links = links;
            self.look_for_python(&survey);
            self.extend_tables();
            if let Err(error) = self.extend(survey)
                && self.missed.len() < MISSED_LIMIT
            {
                self.missed.push(format!("a new module: {error}"));
                // The next look tries again.
                self.links.clear();
            }
        }
        Watch::Runs
    }

    /// Has the payload walk Python frames, if there is an interpreter that we can read.
    pub(crate) fn look_for_python(&mut self, survey: &Survey) {
        let Options { python, interval, .. } = self.options;
        if self.python.is_some() || python == python::Wish::Off {
            return;
        }
        let memory = &self.target.memory;
        self.python =
            python::recognise(survey, memory).map(|found| found.if_allowed(self.target, python));
        if let Some(Python::Readable(interpreter)) = &self.python {
            let own = self.target.process.status().map_or(0, |status| status.own_tgid);
            let orders = interpreter.orders(u64::from(own.unsigned_abs()), interval <= 1);
            self.stream.read_python(interpreter.as_ref().clone());
            // The end of the target is noticed elsewhere.
            let _ = python::tell(memory, self.patches.home.control(), &orders);
        }
    }

    /// Makes and publishes tables for what came.
    fn extend_tables(&mut self) {
        let text = self.target.process.read("maps").unwrap_or_default();
        let Ok(maps) = maps::parse(&text) else { return };
        if self.options.tables && self.tables.look(&self.target.process, &self.target.memory, &maps)
        {
            self.publish_tables();
        }
    }

    /// Publishes the tables that are not published yet.
    pub(crate) fn publish_tables(&mut self) {
        if self.options.tables && !self.tables.are_published() {
            let end = usize::try_from(self.patches.home.header().region).unwrap_or(0);
            let range = tables_at(self.options.ring_bits)..end;
            // The end of the target is noticed elsewhere.
            let _ = self.stream.publish(&mut self.tables, &self.target.memory, range);
        }
    }

    /// Remembers which code is where, for the callers.
    fn note_places(&mut self) {
        let text = self.target.process.read("maps").unwrap_or_default();
        self.places.note(&maps::parse(&text).unwrap_or_default());
    }

    /// Sets the hooks' deadline forward.
    pub fn beat(&self) {
        if self.clockless {
            return;
        }
        // An ended target is noticed elsewhere.
        let _ = self.stream.beat(&self.target.memory, self.heartbeat.deadline());
    }

    /// Whether the hooks switched themselves off, since we did not beat.
    pub fn has_expired(&self) -> bool {
        let at = self.patches.home.control().offset(heapattach_abi::control::EXPIRED as u64);
        let mut expired = [0; 4];
        self.target.memory.read(at, &mut expired).is_ok() && expired != [0; 4]
    }

    /// Hooks what came since the last look.
    fn extend(&mut self, survey: Survey) -> Result<(), AttachError> {
        let target = self.target;
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).map_err(|_| AttachError::Maps)?;
        self.places.note(&maps);
        let known = |at| self.patches.knows(at);
        let hooks = plan(target, &survey, &maps, self.options.wishes(), known);
        let by_slots = |at| {
            self.patches.by_slots(at)
                || hooks.iter().any(|h| h.at == at && matches!(h.way, Way::Slots { .. }))
        };
        let stubs = self.patches.stubs.as_ref();
        let any = self.patches.any_by_slots() || !hooks.is_empty();
        self.sorted = if any {
            slots::sort(target, &survey, &maps, stubs, by_slots)
        } else {
            Sorted::default()
        };
        if self.sorted.wanted.is_empty() && hooks.is_empty() {
            return Ok(());
        }
        let stop = Stopped::all(target)?;
        let result = self.extend_stopped(&stop, &survey, hooks);
        self.stops.push(StopRecord::end(StopReason::Module, stop));
        result
    }

    fn extend_stopped(
        &mut self,
        stop: &Stopped<'_>,
        survey: &Survey,
        mut hooks: Vec<PlannedHook>,
    ) -> Result<(), AttachError> {
        let target = self.target;
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).map_err(|_| AttachError::Maps)?;
        if !still_there(target, survey, &hooks) {
            // Come and gone; the next look shows what is there.
            self.links.clear();
            return Ok(());
        }
        if let Some(reason) = not_now(stop, &maps, &hooks) {
            fall_back(&mut hooks, reason, self.options.mode);
        }
        let hooks = self.patches.within_reach(hooks);
        self.patches.add(stop, &maps, self.image, hooks)?;
        self.sorted = self.patches.lead(stop, &maps, self.image, survey)?;
        Ok(())
    }

    /// Stops the target while none of its threads is in the middle of an allocation, as far as that
    /// can be had; else with the thread that was.
    ///
    /// # Errors
    /// When it cannot be stopped.
    pub fn stop_idle(&self) -> Result<(Stopped<'t>, Option<i32>), StopError> {
        for _ in 1..IDLE_TRIES {
            let stop = Stopped::all(self.target)?;
            if self.busy_thread(&stop).is_none() {
                return Ok((stop, None));
            }
            stop.finish();
            std::thread::sleep(Duration::from_millis(1));
        }
        let stop = Stopped::all(self.target)?;
        let busy = self.busy_thread(&stop);
        Ok((stop, busy))
    }

    /// Has the hooks record nothing from now on. To be called while the target stands still, before
    /// nobody reads any more: a thread that finds its ring full may wait for room.
    ///
    /// # Errors
    /// When the target cannot be written to.
    pub fn silence(&self, stop: &Stopped<'_>) -> Result<(), Errno> {
        let at = self.patches.home.control().offset(ENABLED as u64);
        insist(|| stop.target().memory.write(at, &0_u32.to_le_bytes()))
    }

    /// A thread that is in our code, or was called from it.
    pub fn busy_thread(&self, stop: &Stopped<'_>) -> Option<i32> {
        let text = self.target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).unwrap_or_default();
        undo::thread_in_code(stop, &self.patches.home, &maps)
    }

    /// Gives everything back, in the target and in the children it forked meanwhile.
    pub fn detach(&mut self) -> Detached {
        let home = self.patches.home.clone();
        self.note_places();
        let result = undo(self.target, &home);
        if let Ok(undone) = &result {
            self.exposed += undone.exposed;
            let records =
                undone.stops.iter().map(|&cost| StopRecord { reason: StopReason::Detach, cost });
            self.stops.extend(records);
        }
        let children = clean_children(self.target.process.pid(), &home, self.own_start);
        Detached { result, children }
    }
}
