//! One session, once it is attached: watch, extend, detach. The target is not traced while the
//! session lasts; a module that appears later means one more short stop.

pub mod attach;
pub mod failure;
pub mod forecast;
pub mod heir;
pub mod keep;
pub mod leftovers;
pub(crate) mod prepare;
pub mod purge;
pub mod stop_record;
pub mod undo;
pub mod write_watch;

use std::{ops::Range, time::Instant};

use heapattach_abi::{control::ENABLED, region::tables_at};
use nix::errno::Errno;

use crate::snapshot::StaticTls;
use crate::{arch, home::Home, options::Options, scripts::Python, unwind::Tables};
use crate::{
    home::{payload_image::PayloadImage, session_lock::SessionLock},
    hook::{
        nests::Nests,
        obstacle::{fall_back, not_now},
        patch::{ActiveHook, Patches},
        plan::{PlannedHook, Way, plan, still_there, wraps},
        requests,
        slots::{self, Sorted},
        survey::{Survey, Surveyor},
    },
    installation::{
        give_back::{self, Undone},
        in_call::InCall,
        orders,
        shelter::Exposure,
    },
    records::{
        counts::Counts, heartbeat::Heartbeat, loads::Loads, mailbox::Mailboxes, places::Places,
        stream::Stream,
    },
    session::{
        failure::AttachError,
        leftovers::{Child, clean_children},
        stop_record::{StopReason, StopRecord},
        undo::{Left, undo},
    },
    trace::{
        insist::insist,
        stopped::{StopError, Stopped},
        target::Target,
    },
};
use heapattach_process::{addr::RemoteAddr, fault, image::images, linker::Link, proc::maps};

/// So many failures are told one by one.
const MISSED_LIMIT: usize = 20;

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
    /// By what it is known that something was loaded.
    pub(crate) loads: Option<Loads>,
    /// Whether some hooked functions call others.
    pub(crate) nests: Nests,
    /// So many modules that may go away have their place noted.
    pub(crate) generations: usize,
    /// What it said when tables were last made.
    pub(crate) seen: Option<u64>,
    /// Whether its system calls were filtered when that was last asked.
    pub(crate) is_confined: bool,
    /// Slots that are left alone, or not filled yet.
    pub sorted: Sorted,
    /// Where callers live.
    pub places: Places,
    /// Every stop so far.
    pub stops: Vec<StopRecord>,
    /// How long borrowed threads would not have survived our death.
    pub exposed: Exposure,
    pub(crate) heartbeat: Heartbeat,
    /// Tells others that the session lives; until it is given back.
    #[allow(dead_code, reason = "kept, not asked")]
    pub(crate) lock: SessionLock,
    /// The target may not read the time-stamp counter.
    pub(crate) clockless: bool,
    pub(crate) own_start: u64,
    /// Looks that are due because a slot may be bound behind our back.
    pub(crate) rechecks: Vec<Instant>,
    /// What threads have of thread-local variables, if that was asked for.
    pub(crate) static_tls: StaticTls,
    /// How often modules came or went.
    pub changes: u64,
    /// What could not be hooked in mid-session, for the report.
    pub missed: Vec<String>,
    /// Where the stack of the first thread can be.
    pub(crate) first_stack: Range<RemoteAddr>,
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

    /// Changes with everything that children of the target take over.
    pub fn state(&self) -> [u64; 4] {
        let header = self.patches.home.header();
        [self.changes, header.modules, header.changes, self.tables.generation()]
    }

    /// Whether no module that is loaded meanwhile can free past the hooks before it is found: they are in the
    /// functions that free, and not in slots that lead to them.
    pub fn sees_all_frees(&self) -> bool {
        let frees = |hook: &&ActiveHook| hook.planned.function().frees && hook.planned.is_hooked();
        let is_entry = |hook: &ActiveHook| matches!(hook.planned.way, Way::Entry(_));
        self.sorted.pending == 0 && self.patches.hooks.iter().filter(frees).all(is_entry)
    }

    /// Whether the program that was attached to is over, and by what.
    pub fn is_over(&self) -> Option<Watch> {
        if Home::open(&self.target.memory, self.patches.home.at()).is_ok() {
            return None;
        }
        // A process on its way out has no memory left, though it may still be listed. The next program
        // may be at its end by now, too: the tracer of the exec knows of it.
        let has_memory = || self.target.process.read("maps").is_ok_and(|maps| !maps.is_empty());
        let has_execed = self.target.tracer().has_execed() || has_memory();
        Some(if has_execed { Watch::Execed } else { Watch::Ended })
    }

    /// Looks whether the target still runs, and whether it loaded something. A module that cannot
    /// be hooked does not end the session; it is noted in [`Session::missed`].
    pub fn watch(&mut self) -> Watch {
        self.target.release_late();
        if let Some(over) = self.is_over() {
            return over;
        }
        let memory = &self.target.memory;
        self.look_at_filter();
        let seen = self.loads.as_mut().and_then(|loads| loads.now(memory));
        let has_loaded = self.seen != seen;
        let due = self.rechecks.pop_if(|due| *due <= Instant::now()).is_some();
        let Ok(survey) = self.surveyor.look(self.target) else { return Watch::Runs };
        let links: Vec<Link> = survey.loaded.iter().map(|l| l.link.clone()).collect();
        let changed = links != self.links;
        self.changes += u64::from(changed || has_loaded);
        if changed {
            let text = self.target.process.read("maps").unwrap_or_default();
            let maps = maps::parse(&text).unwrap_or_default();
            self.mailboxes.look(&self.target.memory, &maps, &mut self.patches.home);
        }
        if changed || has_loaded || due || self.sorted.pending > 0 {
            self.links = links;
            self.look_for_python(&survey);
            // To read the images again only because slots are looked at once more would have us wait for a
            // disk that gives nothing, and the target, too: meanwhile the kernel lets it map nothing.
            if changed || has_loaded {
                self.extend_tables(seen);
            }
            if let Err(error) = self.extend(survey)
                && self.missed.len() < MISSED_LIMIT
            {
                self.missed.push(format!("a new module: {error}"));
                // The next look tries again.
                self.links.clear();
            }
        } else if survey.loaded.iter().any(|loaded| loaded.module.java.is_there()) {
            // A virtual machine begins to run after it was loaded, and nothing says when.
            self.look_for_python(&survey);
        }
        Watch::Runs
    }

    /// Has the payload walk Python frames, if there is an interpreter by now that we can read.
    fn look_for_python(&mut self, survey: &Survey) {
        if self.python.is_some() {
            return;
        }
        let Options { python, interval, .. } = self.options;
        let Some((found, _)) = Python::wanted(self.target, survey, python) else { return };
        let text = self.target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).unwrap_or_default();
        let (control, is_direct) = (self.patches.home.control(), self.patches.sees_pages_go());
        // The end of the target is noticed elsewhere.
        let _ = found.tell(self.target, control, &maps, interval <= 1, is_direct);
        self.take_python(Some(found));
    }

    /// Has the frames read that the payload was told to walk.
    fn take_python(&mut self, found: Option<Python>) {
        if let Some(Python::Readable(interpreter)) = &found {
            self.stream.read_python(interpreter.as_ref().clone());
        }
        self.python = found;
    }

    /// Once its system calls are filtered, none is made that it would not make itself.
    fn look_at_filter(&mut self) {
        if self.loads.is_some() && !self.is_confined && self.target.is_confined() {
            self.is_confined = Loads::forbid(self.target, &self.patches.home).is_ok();
        }
    }

    /// From now on it is looked at seldom: what its system calls are filtered by is noticed late, and so the
    /// payload makes none.
    pub fn rest(&self) {
        if self.loads.is_some() && !self.is_confined {
            // The end of the target is noticed elsewhere.
            let _ = Loads::forbid(self.target, &self.patches.home);
        }
    }

    /// It is looked at often again.
    pub fn wake(&mut self) {
        self.look_at_filter();
        if self.loads.is_some() && !self.is_confined {
            let _ = Loads::allow(self.target, &self.patches.home);
        }
    }

    /// Notes what modules have of thread-local variables, for a moment that comes later.
    pub fn note_static_tls(&mut self) {
        self.static_tls.follow(&self.target.process, &self.target.memory, &self.links);
    }

    /// So many bytes below each thread pointer, as far as it was noted.
    pub fn static_tls(&self) -> u64 {
        self.static_tls.bytes()
    }

    /// By what it is known that the target's loader has loaded something, where that is known.
    pub fn loads(&self) -> Option<Loads> {
        self.loads.clone()
    }

    /// How much the target's loader has loaded, where that is known: what changes it changes the map.
    pub fn loaded(&self) -> Option<u64> {
        self.loads.clone()?.now(&self.target.memory)
    }

    /// Notes where code lay that came and went.
    pub fn note_generations(&mut self) {
        for known in self.tables.generations().since(self.generations) {
            self.places.note_generation(&known);
            self.generations += 1;
        }
    }

    /// Makes and publishes tables for what came; `seen` is what the loader said just before.
    fn extend_tables(&mut self, seen: Option<u64>) {
        let (process, memory) = (&self.target.process, &self.target.memory);
        let text = process.read("maps").unwrap_or_default();
        let Ok(maps) = maps::parse(&text) else { return };
        let images = images(memory, &maps);
        // A plugin may have come to the place of another between the map and the memory: then the one
        // would bear the name of the other. The next look finds both as they are.
        let mut again = self.loads.clone();
        if again.as_mut().and_then(|loads| loads.now(memory)) != seen {
            return;
        }
        if self.options.tables && self.tables.take_in(process, memory, &maps, images) {
            self.publish_tables();
        }
        if let Some((loads, now)) = self.loads.as_ref().zip(seen) {
            let control = self.patches.home.control();
            // The end of the target is noticed elsewhere.
            let _ = self.stream.tell_loads(loads, now, &self.target.memory, control);
            self.seen = seen;
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

    /// Whether functions of LeakSanitizer are stood in for in the target.
    pub fn provides(&self) -> bool {
        self.patches.stubs.as_ref().is_some_and(|stubs| stubs.provides(&self.target.memory))
    }

    /// Lets threads go on that wait in one of these functions for a check, with its result; `number` counts
    /// results.
    pub fn answer_stand_ins(&self, number: u32, is_leaked: bool) {
        if let Some(stubs) = self.patches.stubs.as_ref().filter(|_| self.provides()) {
            // The end of the target is noticed elsewhere.
            let _ = stubs.answer(&self.target.memory, number, is_leaked);
        }
    }

    /// Lets the thread go on that waits for a check which it requested of valgrind, with what was found;
    /// `number` counts results.
    pub fn answer_requests(&self, number: u32, found: &[u64; arch::REQUEST_ANSWERS]) {
        if self.patches.heard.hooks.is_some() {
            // The end of the target is noticed elsewhere.
            let _ = requests::answer(&self.target.memory, &self.patches.home, number, found);
        }
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

    /// How many calls may be counted once for each function that they went through: where hooked
    /// functions call others, and threads share a row, nothing tells whose call is in the middle of
    /// which.
    pub fn counted_twice(&self, counts: &Counts) -> u64 {
        if self.nests == Nests::default() { 0 } else { counts.crowded }
    }

    /// Hooks what came since the last look.
    fn extend(&mut self, survey: Survey) -> Result<(), AttachError> {
        let target = self.target;
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).map_err(|_| AttachError::Maps)?;
        self.places.note(&maps);
        let known = |at| self.patches.knows(at);
        let wishes = self.options.wishes(&survey, target, &maps);
        let hooks = plan(target, &survey, &maps, wishes, known);
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
        let mut nests = self.nests;
        if !hooks.is_empty() {
            let planned = self.patches.hooks.iter().map(|hook| &hook.planned);
            let all: Vec<PlannedHook> = planned.chain(&hooks).cloned().collect();
            nests = nests.or(wraps(target, &survey, &maps, &all));
        }
        let stop = Stopped::all(target)?;
        let mut result = self.extend_stopped(&stop, &survey, hooks);
        if result.is_ok() && nests != self.nests {
            result = orders::nest(&stop, &self.patches.home, nests).map_err(AttachError::Enable);
            if result.is_ok() {
                self.nests = nests;
            }
        }
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

    /// Stops the target.
    ///
    /// # Errors
    /// When it cannot be stopped.
    pub fn stop(&self) -> Result<Stopped<'t>, StopError> {
        Stopped::all(self.target)
    }

    /// Has the hooks record nothing from now on. To be called while the target is stopped, before
    /// no process reads any more: a thread that finds its ring full may wait for room.
    ///
    /// # Errors
    /// When the target cannot be written to.
    pub fn silence(&self, stop: &Stopped<'_>) -> Result<(), Errno> {
        let at = self.patches.home.control().offset(ENABLED as u64);
        insist(|| stop.target().memory.write(at, &0_u32.to_le_bytes()))
    }

    /// The calls of hooked functions that stopped threads are in.
    pub fn calls(&self, stop: &Stopped<'_>) -> Vec<InCall> {
        let text = self.target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).unwrap_or_default();
        let threads = give_back::threads_in_code(stop, &self.patches.home, &maps);
        threads.map(|(thread, place)| InCall::of(stop, thread, place)).collect()
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
        fault::hold("detached");
        // Every process of the machine is looked at for that: not where there can be no child.
        let children = if self.target.tracer().may_have_forked() {
            clean_children(self.target, &home, self.own_start)
        } else {
            Vec::new()
        };
        Detached { result, children }
    }
}
