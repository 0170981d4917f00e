//! Attaching: look, plan, stop, build, patch, enable. Whatever fails after the first change is
//! rolled back before the error is told.

mod ground;

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use heapattach_abi::{region::tables_at, stacks::USUAL_FRAMES};

use crate::{
    addr::RemoteAddr,
    asked::Asked,
    failure::{AttachError, Failure},
    heartbeat::Heartbeat,
    home::Home,
    install::{self, Orders},
    linker::LinkError,
    loader::Loader,
    mailbox::{Mailboxes, Service},
    obstacle::{NotNow, not_now},
    patch::Patches,
    payload_image::PayloadImage,
    places::Places,
    plan::{HookMode, PlannedHook, Wishes},
    preflight,
    prepare::{Prepared, clean_up_before, fall_back, prepare, still_there, surveyor},
    proc::{
        Process,
        maps::{self, Mapping},
    },
    python,
    session::{Session, StopReason, StopRecord},
    shared::Shared,
    slots::Sorted,
    stopped::Stopped,
    stream::Stream,
    stub_page::StubPage,
    survey::{SurveyError, Surveyor},
    target::Target,
    thread_pointer,
    unwind::Tables,
    user_dispatch, vdso,
};

use ground::{Broken, Ground};

/// How often a stop is tried again when text cannot be changed just then, before slots must do.
const ATTEMPTS: usize = 30;

/// Looks at a full ring before a thread lets others have its processor, some microseconds. A power of
/// two.
const SPINS: u32 = 64;

/// The same for vfork children, each try of which may wait for the child to exec or end.
const VFORK_ATTEMPTS: usize = 4;
const VFORK_PATIENCE: Duration = Duration::from_millis(500);

/// How often the target may change under a plan.
const REPLANS: usize = 50;

/// What the user asked for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How to hook.
    pub mode: HookMode,
    /// The most memory that may be added to the target; 0: no limit.
    pub max_memory: u64,
    /// Mean bytes between samples; 1 records every block.
    pub interval: u64,
    /// Binary logarithm of the slots of a ring.
    pub ring_bits: u32,
    /// How often a thread looks again for room in a full ring.
    pub ring_patience: u32,
    /// Hook mmap and its family too.
    pub pages: bool,
    /// Follow stacks by tables; else by frame pointers.
    pub tables: bool,
    /// Frames of a stack that are recorded.
    pub most_frames: u32,
    /// Have stacks that nobody knows copied by the kernel: a system call of the target's.
    pub copies: bool,
    /// Of so many stacks one is walked twice, to verify what makes walks fast; 0: none.
    pub verify: u32,
    /// How the payload gets into the target.
    pub loader: Loader,
    /// Have it loaded although a filter may forbid the target's loader its calls.
    pub force: bool,
    /// Functions that the user named.
    pub asked: Asked,
    /// Whether to walk Python frames.
    pub python: python::Wish,
    /// What is done with what the program asks for by `heapattach.h`.
    pub service: Service,
}

impl Options {
    /// What is usual.
    pub fn sampling(mode: HookMode) -> Self {
        Self {
            mode,
            max_memory: 0,
            interval: 512 << 10,
            ring_bits: 11,
            ring_patience: 0,
            pages: true,
            tables: true,
            most_frames: USUAL_FRAMES,
            verify: 0,
            copies: false,
            loader: Loader::Map,
            force: false,
            asked: Asked::default(),
            python: python::Wish::Auto,
            service: Service::None,
        }
    }

    /// What is to be hooked, and how.
    pub(crate) fn wishes(&self) -> Wishes {
        Wishes { mode: self.mode, pages: self.pages, asked: self.asked }
    }
}

/// The hooks put in at one stop.
struct Installed {
    patches: Patches,
    mailboxes: Mailboxes,
    shared: Shared,
    sorted: Sorted,
    places: Places,
    exposed: Duration,
}

/// Attaches. `held` is a stop made by whoever started the target.
///
/// # Errors
/// With the target as it was, or a list of what is left.
pub fn attach<'t>(
    target: &'t Target,
    image: &'t PayloadImage,
    options: Options,
    held: Option<Stopped<'t>>,
) -> Result<Session<'t>, Failure> {
    let heartbeat = Heartbeat::new();
    clean_up_before(target)?;
    let gadget =
        vdso::syscall_gadget(target).map_err(|_| Failure::clean(AttachError::Maps, false))?;
    let surveyor = surveyor(target, &options)?;
    let mut attach = Attach {
        target,
        image,
        options,
        surveyor,
        heartbeat,
        gadget,
        stops: Vec::new(),
        waits: 0,
        tables: Tables::default(),
        ground: None,
    };
    if options.loader == Loader::Dlopen {
        attach.load()?;
    }
    let mut held = held;
    for _ in 0..REPLANS {
        match attach.attempt(held.take()) {
            Ok(Some((prepared, installed))) => return Ok(attach.into_session(&prepared, installed)),
            Ok(None) => {}
            Err(failure) => return Err(attach.abandon(failure)),
        }
    }
    let touched = attach.touched();
    Err(attach.abandon(Failure::clean(AttachError::Restless(REPLANS), touched)))
}

/// An attach under way.
struct Attach<'t> {
    target: &'t Target,
    image: &'t PayloadImage,
    options: Options,
    surveyor: Surveyor,
    heartbeat: Heartbeat,
    gadget: RemoteAddr,
    stops: Vec<StopRecord>,
    waits: usize,
    tables: Tables,
    /// What the hooks will stand on, if it was built before the stop that puts them in.
    ground: Option<Ground>,
}

impl<'t> Attach<'t> {
    fn touched(&self) -> bool {
        !self.stops.is_empty()
    }

    /// One look and one stop; `None` if it must be tried again.
    fn attempt(
        &mut self,
        held: Option<Stopped<'t>>,
    ) -> Result<Option<(Prepared, Installed)>, Failure> {
        let target = self.target;
        let mode = self.options.mode;
        let prepared = match prepare(target, &mut self.surveyor, &self.options) {
            Ok(prepared) => prepared,
            // The lists change while we walk them.
            Err(AttachError::Survey(SurveyError::Link(LinkError::List(_)))) => return Ok(None),
            Err(error) => return Err(Failure::clean(error, self.touched())),
        };
        self.look_at_tables();
        let touched = self.touched();
        let stop = match held {
            Some(stop) => stop,
            None => Stopped::all(target).map_err(|error| Failure::clean(error, touched))?,
        };
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).map_err(|_| Failure::clean(AttachError::Maps, true))?;
        refuse_company(target, &maps, self.ground.as_ref().map(|ground| &ground.home))?;
        user_dispatch::check(&stop).map_err(|refusal| Failure::clean(refusal, true))?;
        let mut hooks = prepared.hooks.clone();
        if self.surveyor.is_static() {
            thread_pointer::check(&stop).map_err(|refusal| Failure::clean(refusal, true))?;
        }
        if !still_there(target, &prepared.survey, &hooks) {
            self.stops.push(StopRecord::end(StopReason::Attach, stop));
            return Ok(None);
        }
        if let Some(reason) = not_now(&stop, &maps, &hooks) {
            if self.may_wait(reason) {
                self.stops.push(StopRecord::end(StopReason::Attach, stop));
                self.wait(reason);
                return Ok(None);
            }
            fall_back(&mut hooks, reason, mode);
        }
        let installed = self.install(&stop, &maps, &prepared, hooks);
        self.stops.push(StopRecord::end(StopReason::Attach, stop));
        match installed {
            Ok(mut installed) => {
                // A short program may have ended by now, and its own map with it.
                installed.places.note(&maps);
                Ok(Some((prepared, installed)))
            }
            Err(broken) => Err(self.undo_broken(*broken)),
        }
    }

    /// Makes unwind tables, while the target runs: it takes a while.
    fn look_at_tables(&mut self) {
        let text = self.target.process.read("maps").unwrap_or_default();
        if let (true, Ok(maps)) = (self.options.tables, maps::parse(&text)) {
            self.tables.look(&self.target.process, &self.target.memory, &maps);
        }
    }

    /// Whether another stop may find the text free to be changed.
    fn may_wait(&mut self, reason: NotNow) -> bool {
        self.waits += 1;
        self.waits < if reason == NotNow::VforkChild { VFORK_ATTEMPTS } else { ATTEMPTS }
    }

    fn wait(&self, reason: NotNow) {
        match reason {
            NotNow::VforkChild => self.target.hold_late(VFORK_PATIENCE),
            NotNow::ThreadInWindow(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }

    /// Everything that is changed in the target.
    fn install(
        &mut self,
        stop: &Stopped<'_>,
        maps: &[Mapping<'_>],
        prepared: &Prepared,
        hooks: Vec<PlannedHook>,
    ) -> Result<Installed, Box<Broken>> {
        let (ground, is_far) = match self.ground.take() {
            Some(ground) => (ground, true),
            None => (self.build(stop, maps, prepared, self.image)?, false),
        };
        let Ground { home, shared, body, exposed } = ground;
        let stubs = StubPage::known(&self.target.memory, maps, &home);
        let failed = |error| Broken::new(error, Some(home.clone()));
        let mut patches = Patches::new(home.clone(), stubs, self.options.mode);
        patches.body = body;
        let hooks = if is_far {
            let hooks = patches.within_reach(hooks);
            ground::check_reach(&hooks, self.options.asked).map_err(|e| failed(e.into()))?;
            hooks
        } else {
            hooks
        };
        patches.add(stop, maps, self.image, hooks).map_err(|e| failed(AttachError::from(e)))?;
        let sorted = patches
            .lead(stop, maps, self.image, &prepared.survey)
            .map_err(|e| failed(AttachError::from(e)))?;
        let orders = Orders {
            deadline: if is_clockless(self.target) { 0 } else { self.heartbeat.deadline() },
            interval: self.options.interval,
            ring_bits: self.options.ring_bits,
            ring_patience: self.options.ring_patience,
            yield_mask: if is_confined(self.target) { 0 } else { SPINS - 1 },
            salt: u32::try_from(session_number() >> 32).unwrap_or(0),
            most_frames: self.options.most_frames,
            verify: self.options.verify,
            may_copy: self.options.copies && !is_confined(self.target),
            first_stack: first_stack(maps),
        };
        // What is exact is so from the first call on; samples can do without for a moment, and the
        // target stands still meanwhile.
        if self.options.tables && self.options.interval <= 1 {
            let range = tables_at(self.options.ring_bits)
                ..usize::try_from(home.header().region).unwrap_or(0);
            let published = self.tables.publish(&shared, &self.target.memory, range);
            published.map_err(|e| failed(AttachError::Enable(e)))?;
        }
        // A program that begins may ask for something at once.
        let mut mailboxes = Mailboxes::new(self.target, self.options.service);
        mailboxes.look(self.target, &mut patches.home);
        install::enable(stop, &home, &orders).map_err(|e| failed(AttachError::Enable(e)))?;
        let places = Places::default();
        Ok(Installed { patches, mailboxes, shared, sorted, places, exposed })
    }

    fn into_session(self, prepared: &Prepared, installed: Installed) -> Session<'t> {
        let now = Instant::now();
        let mut session = Session {
            target: self.target,
            image: self.image,
            options: self.options,
            surveyor: self.surveyor,
            links: prepared.survey.loaded.iter().map(|l| l.link.clone()).collect(),
            patches: installed.patches,
            mailboxes: installed.mailboxes,
            stream: Stream::new(installed.shared, &self.options),
            tables: self.tables,
            sorted: installed.sorted,
            places: installed.places,
            stops: self.stops,
            exposed: installed.exposed,
            heartbeat: self.heartbeat,
            clockless: is_clockless(self.target),
            own_start: own_start_time(),
            rechecks: [200, 20].map(|ms| now + Duration::from_millis(ms)).to_vec(),
            changes: 0,
            python: None,
            missed: if self.options.copies && is_confined(self.target) {
                vec!["its system calls are filtered, so that no stack was copied".to_owned()]
            } else {
                Vec::new()
            },
        };
        session.publish_tables();
        session.look_for_python(&prepared.survey);
        session
    }
}

/// Where the stack of the first thread can be: the kernel lets it grow down.
fn first_stack(maps: &[Mapping<'_>]) -> Range<RemoteAddr> {
    const MOST: u64 = 64 << 20;
    let Some(at) = maps.iter().position(|m| m.label() == "[stack]") else {
        return Range::default();
    };
    let end = maps[at].range.end;
    let below = at.checked_sub(1).map_or(0, |at| maps[at].range.end.get());
    RemoteAddr::new(below.max(end.get().saturating_sub(MOST)))..end
}

/// Somebody else may have attached between our look and our stop.
fn refuse_company(
    target: &Target,
    maps: &[Mapping<'_>],
    own: Option<&Home>,
) -> Result<(), Failure> {
    for at in Home::find(&target.memory, maps) {
        if own.is_some_and(|own| own.at() == at) {
            continue;
        }
        if let Ok(home) = Home::open(&target.memory, at)
            && let Some(refusal) = preflight::busy(target.process.pid(), &home)
        {
            return Err(Failure::clean(refusal, true));
        }
    }
    Ok(())
}

/// Whether the target's system calls are filtered: then ours must be none.
pub(crate) fn is_confined(target: &Target) -> bool {
    target.process.status().is_ok_and(|status| status.seccomp != 0)
}

/// Under strict seccomp the kernel makes reading the time-stamp counter a fault.
fn is_clockless(target: &Target) -> bool {
    target.process.status().is_ok_and(|status| status.seccomp == 1)
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
