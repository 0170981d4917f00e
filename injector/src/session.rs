//! One session: attach, watch, detach. The target is not traced while the session lasts; a module
//! that appears later means one more short stop.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use nix::errno::Errno;

use crate::{
    addr::RemoteAddr,
    counters::Counters,
    heartbeat::Heartbeat,
    home::Home,
    install::{self, Blueprint, InstallError},
    leftovers::{Child, clean_children},
    linker::{Link, LinkError},
    module,
    patch::{NotNow, PatchError, Patches, not_now},
    payload_image::PayloadImage,
    places::Places,
    plan::{HookMode, PlannedHook, Way, plan},
    preflight::{self, Refusal},
    proc::{
        Process,
        maps::{self, Mapping},
    },
    slots::{self, Sorted},
    stopped::{StopCost, StopError, Stopped},
    stub_page::StubPage,
    survey::{Survey, SurveyError, Surveyor},
    target::Target,
    undo::{Left, Undone, undo},
    vdso,
};

/// How often a stop is tried again when text cannot be changed just then, before slots must do.
const ATTEMPTS: usize = 30;

/// The same for vfork children, each try of which may wait for the child to exec or end.
const VFORK_ATTEMPTS: usize = 4;
const VFORK_PATIENCE: Duration = Duration::from_millis(500);

/// How often the target may change under a plan.
const REPLANS: usize = 50;

/// So many failures are told one by one.
const MISSED_LIMIT: usize = 20;

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

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How to hook.
    pub mode: HookMode,
    /// The most memory that may be added to the target; 0: no limit.
    pub max_memory: u64,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It was not tried.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The target's modules cannot be found out.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// The target cannot be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// No home could be built.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The hooks could not be put in.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// The hooks could not be switched on.
    #[error("the hooks could not be switched on")]
    Enable(#[source] Errno),
    /// The kernel does not tell.
    #[error("the memory map of the target cannot be read")]
    Maps,
    /// A heapattach that was killed left hooks that cannot be taken out.
    #[error("what a former heapattach left could not be undone")]
    Leftovers,
    /// It changes faster than we can look.
    #[error("the modules of the target changed during each of {0} looks")]
    Restless(usize),
}

/// An attach that failed, and whether the target is as it was.
#[derive(Debug)]
pub struct Failure {
    /// Why.
    pub error: AttachError,
    /// What is still in the target; `None` if nothing is.
    pub left: Option<Left>,
    /// Whether the target was ever stopped.
    pub touched: bool,
}

impl Failure {
    fn untouched(error: impl Into<AttachError>) -> Self {
        Self { error: error.into(), left: None, touched: false }
    }
}

/// A session.
#[derive(Debug)]
pub struct Session<'t> {
    target: &'t Target,
    image: &'t PayloadImage,
    options: Options,
    surveyor: Surveyor,
    links: Vec<Link>,
    /// What is hooked.
    pub patches: Patches,
    /// What was counted.
    pub counters: Counters,
    /// Slots that are left alone, or not filled yet.
    pub sorted: Sorted,
    /// Where callers live.
    pub places: Places,
    /// Every stop so far.
    pub stops: Vec<StopRecord>,
    /// How long borrowed threads would not have survived our death.
    pub exposed: Duration,
    heartbeat: Heartbeat,
    /// The target may not read the time-stamp counter.
    clockless: bool,
    own_start: u64,
    /// Looks that are due because a slot may be bound behind our back.
    rechecks: Vec<Instant>,
    /// What could not be hooked in mid-session, for the report.
    pub missed: Vec<String>,
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

/// What was found out before the stop.
struct Prepared {
    survey: Survey,
    hooks: Vec<PlannedHook>,
    code: Range<RemoteAddr>,
}

impl<'t> Session<'t> {
    /// Attaches. `held` is a stop made by whoever started the target.
    ///
    /// # Errors
    /// With the target as it was, or a list of what is left.
    pub fn attach(
        target: &'t Target,
        image: &'t PayloadImage,
        options: Options,
        mut held: Option<Stopped<'t>>,
    ) -> Result<Self, Failure> {
        let heartbeat = Heartbeat::new();
        clean_up_before(target)?;
        let gadget =
            vdso::syscall_gadget(target).map_err(|_| Failure::untouched(AttachError::Maps))?;
        let mut surveyor = surveyor(target)?;
        let own_start = own_start_time();
        let mut stops = Vec::new();
        let mut waits = 0;
        for _ in 0..REPLANS {
            let prepared = match prepare(target, &mut surveyor, options.mode) {
                Ok(prepared) => prepared,
                // The lists change while we walk them.
                Err(AttachError::Survey(SurveyError::Link(LinkError::List(_)))) => continue,
                Err(error) => {
                    return Err(Failure { error, left: None, touched: !stops.is_empty() });
                }
            };
            let mut hooks = prepared.hooks.clone();
            let touched = !stops.is_empty();
            let stop = match held.take() {
                Some(stop) => stop,
                None => Stopped::all(target).map_err(|e| Failure {
                    error: e.into(),
                    left: None,
                    touched,
                })?,
            };
            let text = target.process.read("maps").unwrap_or_default();
            let Ok(maps) = maps::parse(&text) else {
                return Err(Failure { error: AttachError::Maps, left: None, touched: true });
            };
            refuse_company(target, &maps)?;
            if !still_there(target, &prepared.survey, &hooks) {
                stops.push(record(StopReason::Attach, stop));
                continue;
            }
            if let Some(reason) = not_now(&stop, &maps, &hooks) {
                waits += 1;
                let limit = if reason == NotNow::VforkChild { VFORK_ATTEMPTS } else { ATTEMPTS };
                if waits < limit && options.mode != HookMode::Slots {
                    stops.push(record(StopReason::Attach, stop));
                    match reason {
                        NotNow::VforkChild => target.hold_late(VFORK_PATIENCE),
                        NotNow::ThreadInWindow(_) => {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                    continue;
                }
                fall_back(&mut hooks, reason, options.mode);
            }
            let (module_room, change_room) = journal_room(&prepared.survey);
            let blueprint = Blueprint {
                image,
                gadget,
                code: prepared.code.clone(),
                module_room,
                change_room,
                session: session_number(),
                started: own_start,
            };
            let used = Home::used_by(image.text().len() as u64, slot_count(&prepared.survey));
            if options.max_memory != 0 && used > options.max_memory {
                return Err(too_much(used, options.max_memory));
            }
            let built = install::build(&stop, &maps, &blueprint);
            let Some(home) = built.home else {
                let error = built.counters.err().map_or(AttachError::Maps, Into::into);
                return Err(Failure { error, left: None, touched: true });
            };
            let stubs = StubPage::find(&target.memory, &maps)
                .first()
                .and_then(|&at| StubPage::open(&target.memory, at).ok());
            let counters = match built.counters {
                Ok(counters) => counters,
                Err(error) => return Err(roll_back(stop, &home, error.into())),
            };
            let mut patches = Patches::new(home.clone(), stubs, options.mode);
            let sorted = patches
                .add(&stop, &maps, image, hooks)
                .and_then(|()| patches.lead(&stop, &maps, image, &prepared.survey));
            let sorted = match sorted {
                Ok(sorted) => sorted,
                Err(error) => return Err(roll_back(stop, &home, error.into())),
            };
            if let Err(errno) = install::enable(&stop, &home, first_deadline(target, &heartbeat)) {
                return Err(roll_back(stop, &home, AttachError::Enable(errno)));
            }
            stops.push(record(StopReason::Attach, stop));
            let now = Instant::now();
            let mut places = Places::default();
            places.note(&maps);
            return Ok(Self {
                target,
                image,
                options,
                surveyor,
                links: prepared.survey.loaded.iter().map(|l| l.link.clone()).collect(),
                patches,
                counters,
                sorted,
                places,
                stops,
                exposed: built.exposed,
                heartbeat,
                clockless: is_clockless(target),
                own_start,
                rechecks: [200, 20].map(|ms| now + Duration::from_millis(ms)).to_vec(),
                missed: Vec::new(),
            });
        }
        Err(Failure {
            error: AttachError::Restless(REPLANS),
            left: None,
            touched: !stops.is_empty(),
        })
    }

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
        if changed || due || self.sorted.pending > 0 {
            self.links = links;
            if let Err(error) = self.extend(survey)
                && self.missed.len() < MISSED_LIMIT
            {
                self.missed.push(error.to_string());
                // The next look tries again.
                self.links.clear();
            }
        }
        Watch::Runs
    }

    /// Sets the hooks' deadline forward.
    pub fn beat(&self) {
        if self.clockless {
            return;
        }
        // An ended target is noticed elsewhere.
        let _ = self.heartbeat.beat(&self.target.memory, &self.patches.home);
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
        let hooks = plan(target, &survey, &maps, self.options.mode, known);
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
        self.stops.push(record(StopReason::Module, stop));
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
        for hook in &mut hooks {
            self.check_reach(hook);
        }
        self.patches.add(stop, &maps, self.image, hooks)?;
        self.sorted = self.patches.lead(stop, &maps, self.image, survey)?;
        Ok(())
    }

    /// An entry that our code cannot be reached from is left to the slots.
    fn check_reach(&self, hook: &mut PlannedHook) {
        let home = &self.patches.home;
        if let Way::Entry(_) = hook.way {
            out_of_reach(hook, &(home.at()..home.end()), self.options.mode);
        }
    }

    /// Gives everything back, in the target and in the children it forked meanwhile.
    pub fn detach(&mut self) -> Detached {
        let home = self.patches.home.clone();
        let text = self.target.process.read("maps").unwrap_or_default();
        self.places.note(&maps::parse(&text).unwrap_or_default());
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

fn too_much(used: u64, limit: u64) -> Failure {
    let refusal = Refusal {
        value: format!("the hooks and their journal take {used} bytes of the target"),
        need: format!("at most {limit} bytes (--max-memory)"),
        cure: "raise --max-memory".to_owned(),
        unsupported: false,
    };
    Failure { error: refusal.into(), left: None, touched: true }
}

/// Undoes what a dead heapattach left, before a new session begins.
fn clean_up_before(target: &Target) -> Result<(), Failure> {
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).map_err(|_| Failure::untouched(AttachError::Maps))?;
    for at in Home::find(&target.memory, &maps) {
        let Ok(home) = Home::open(&target.memory, at) else { continue };
        undo(target, &home).map_err(|left| Failure {
            error: AttachError::Leftovers,
            left: Some(left),
            touched: true,
        })?;
    }
    Ok(())
}

fn surveyor(target: &Target) -> Result<Surveyor, Failure> {
    Surveyor::new(target).map_err(|error| match error {
        SurveyError::Link(LinkError::Static) => Failure::untouched(Refusal::unsupported(
            format!("process {} is statically linked", target.process.pid()),
            "a dynamically linked program",
            "link it dynamically, if you can",
        )),
        other => Failure::untouched(other),
    })
}

fn prepare(
    target: &Target,
    surveyor: &mut Surveyor,
    mode: HookMode,
) -> Result<Prepared, AttachError> {
    let survey = surveyor.look(target)?;
    let text = target.process.read("maps").map_err(|_| AttachError::Maps)?;
    let maps = maps::parse(&text).map_err(|_| AttachError::Maps)?;
    let mut hooks = plan(target, &survey, &maps, mode, |_| false);
    if hooks.is_empty() {
        return Err(Refusal::unsupported(
            "no allocation function was found in any module",
            "a program that uses malloc or mmap through its libraries",
            "see `heapattach doctor -p PID`",
        )
        .into());
    }
    let code = reachable_code(&mut hooks, mode);
    Ok(Prepared { survey, hooks, code })
}

/// The code that our home must be near to. Entries too far from malloc's are left to the slots.
fn reachable_code(hooks: &mut [PlannedHook], mode: HookMode) -> Range<RemoteAddr> {
    let is_entry = |h: &&PlannedHook| matches!(h.way, Way::Entry(_));
    let centre =
        hooks.iter().find(is_entry).or(hooks.first()).map_or_else(Default::default, |h| h.at);
    let mut range = centre..centre.offset(1);
    for hook in hooks.iter_mut().filter(|h| matches!(h.way, Way::Entry(_))) {
        if out_of_reach(hook, &range, mode) {
            continue;
        }
        range = range.start.min(hook.at)..range.end.max(hook.at.offset(1));
    }
    range
}

/// Leaves `hook` to the slots if it and `range` do not lie within one branch's reach.
fn out_of_reach(hook: &mut PlannedHook, range: &Range<RemoteAddr>, mode: HookMode) -> bool {
    const REACH: u64 = 1 << 30;
    let far = hook.at.distance(range.start).max(hook.at.distance(range.end)) > REACH;
    if far {
        let why = "it lies too far from the other allocation functions".to_owned();
        hook.way = Way::without_entry(why, mode);
    }
    far
}

fn fall_back(hooks: &mut [PlannedHook], reason: NotNow, mode: HookMode) {
    let why = match reason {
        NotNow::VforkChild => "a vfork child ran in the same memory at every try".to_owned(),
        NotNow::ThreadInWindow(tid) => {
            format!("thread {tid} stood in the first instructions at every try")
        }
    };
    for hook in hooks.iter_mut().filter(|h| matches!(h.way, Way::Entry(_))) {
        hook.way = Way::without_entry(why.clone(), mode);
    }
}

/// Whether the modules that define the hooked functions are still the ones looked at.
fn still_there(target: &Target, survey: &Survey, hooks: &[PlannedHook]) -> bool {
    let same = |link: &Link| {
        let module = survey.loaded.iter().find(|l| l.link == *link).map(|l| l.module.identity);
        module::identity_at(&target.memory, link.dynamic).ok() == module
    };
    let mut checked: Vec<&Link> = Vec::new();
    hooks.iter().all(|hook| {
        checked.contains(&&hook.definer) || {
            checked.push(&hook.definer);
            same(&hook.definer)
        }
    })
}

/// Somebody else may have attached between our look and our stop.
fn refuse_company(target: &Target, maps: &[Mapping<'_>]) -> Result<(), Failure> {
    for at in Home::find(&target.memory, maps) {
        if let Ok(home) = Home::open(&target.memory, at)
            && let Some(refusal) = preflight::busy(target.process.pid(), &home)
        {
            return Err(Failure { error: refusal.into(), left: None, touched: true });
        }
    }
    Ok(())
}

fn roll_back(stop: Stopped<'_>, home: &Home, error: AttachError) -> Failure {
    let target = stop.target();
    stop.finish();
    Failure { error, left: undo(target, home).err(), touched: true }
}

fn record(reason: StopReason, stop: Stopped<'_>) -> StopRecord {
    StopRecord { reason, cost: stop.finish() }
}

/// Under strict seccomp the kernel makes reading the time-stamp counter a fault.
fn is_clockless(target: &Target) -> bool {
    target.process.status().is_ok_and(|status| status.seccomp == 1)
}

fn first_deadline(target: &Target, heartbeat: &Heartbeat) -> u64 {
    if is_clockless(target) { 0 } else { heartbeat.deadline() }
}

/// Room in the journal for what is loaded now and what may come: modules, and changes.
pub(crate) fn journal_room(survey: &Survey) -> (u64, u64) {
    (2 * survey.loaded.len() as u64 + 1024, 2 * slot_count(survey) + 8192)
}

fn slot_count(survey: &Survey) -> u64 {
    survey.loaded.iter().map(|l| l.module.slots.len() as u64).sum()
}

fn own_start_time() -> u64 {
    let own = Process::open(std::process::id().cast_signed());
    own.ok().and_then(|p| p.start_time()).unwrap_or(0)
}

/// A number no other session has.
fn session_number() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
