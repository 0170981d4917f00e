//! Attaching: look, plan, stop, build, patch, enable. Whatever fails after the first change is
//! rolled back before the error is told.

pub mod gate;
mod ground;

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use heapattach_abi::region::tables_at;

use crate::{
    home::Home,
    options::{Loader, Options, Service},
    preflight,
    session::Session,
    unwind::Tables,
};
use crate::{
    home::{payload_image::PayloadImage, session_lock::SessionLock, stub_page::StubPage, vdso},
    hook::{
        nests::Nests,
        obstacle::{NotNow, fall_back, not_now},
        patch::{PatchError, Patches},
        plan::{HookMode, PlannedHook, still_there},
        requests,
        slots::Sorted,
        stand_ins,
        survey::{SurveyError, Surveyor},
    },
    installation::{
        orders::{self, Orders},
        shelter::{self, Exposure},
    },
    preflight::foreseen,
    records::{
        heartbeat::Heartbeat,
        loads::{self, Loads},
        mailbox::Mailboxes,
        places::Places,
        stream::Stream,
    },
    session::{
        failure::{AttachError, Failure},
        prepare::{Prepared, clean_up_before, is_unpatched_meanwhile, prepare, surveyor},
        stop_record::{StopReason, StopRecord},
    },
    trace::{
        start::thread_pointer,
        stopped::{Stopped, user_dispatch},
        target::Target,
    },
};
use crate::{scripts::Python, snapshot::StaticTls};
use heapattach_process::cache::Cache;
use heapattach_process::{
    addr::RemoteAddr,
    fault,
    linker::{Link, LinkError},
    proc::{
        Process,
        maps::{self, Mapping},
    },
    shared::Shared,
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

/// What the kernel says of a process that may only read, write and end.
const STRICT: u32 = 1;

/// How often the target may change under a plan.
const REPLANS: usize = 50;

/// The hooks put in at one stop.
struct Installed {
    patches: Patches,
    mailboxes: Mailboxes,
    shared: Shared,
    sorted: Sorted,
    places: Places,
    exposed: Exposure,
    first_stack: Range<RemoteAddr>,
    python: Option<Python>,
}

/// Attaches. `held` is a stop made when the target was started.
///
/// # Errors
/// With the target as it was, or a list of what is left.
pub fn attach<'t>(
    target: &'t Target,
    image: &'t PayloadImage,
    options: Options,
    held: Option<Stopped<'t>>,
) -> Result<Session<'t>, Failure> {
    let mut attach = Attach::begin(target, image, options)?;
    attach.is_start = held.is_some();
    if options.loader == Loader::Dlopen {
        attach.load()?;
    }
    let mut held = held;
    // A program at its beginning delays no one: the other programs of the machine need not wait.
    held.iter_mut().for_each(Stopped::take_turns);
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
    lock: SessionLock,
    gadget: RemoteAddr,
    stops: Vec<StopRecord>,
    waits: usize,
    tables: Tables,
    /// By what it is known that something was loaded, and what that said when tables were made.
    loads: Option<Loads>,
    seen: Option<u64>,
    /// What the hooks will stand on, if it was built before the stop that puts them in.
    ground: Option<Ground>,
    /// The program stands before its first instruction.
    is_start: bool,
}

impl<'t> Attach<'t> {
    /// All that can be done before the target is stopped, but for the plan.
    fn begin(
        target: &'t Target,
        image: &'t PayloadImage,
        options: Options,
    ) -> Result<Self, Failure> {
        let heartbeat = Heartbeat::new();
        fault::hold("begin");
        let lock = SessionLock::take().map_err(|e| Failure::clean(AttachError::Lock(e), false))?;
        clean_up_before(target)?;
        let gadget =
            vdso::syscall_gadget(target).map_err(|_| Failure::clean(AttachError::Maps, false))?;
        shelter::look_ahead(target);
        let surveyor = surveyor(target, &options)?;
        Ok(Self {
            target,
            image,
            options,
            surveyor,
            heartbeat,
            lock,
            gadget,
            stops: Vec::new(),
            waits: 0,
            tables: Tables::kept_in(options.cache.then(Cache::of_environment).flatten()),
            loads: None,
            seen: None,
            ground: None,
            is_start: false,
        })
    }

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
        fault::hold("survey");
        let prepared = match prepare(target, &mut self.surveyor, &self.options) {
            Ok(prepared) => prepared,
            // The lists change while we walk them.
            Err(AttachError::Survey(SurveyError::Link(LinkError::List(_)))) => return Ok(None),
            Err(error) => return Err(Failure::clean(error, self.touched())),
        };
        self.look_at_tables(&prepared);
        let python = Python::wanted(target, &prepared.survey, self.options.python);
        let stop = match held {
            Some(stop) => stop,
            None => self.stop()?,
        };
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).map_err(|_| Failure::clean(AttachError::Maps, true))?;
        refuse_company(target, &maps, self.ground.as_ref().map(|ground| &ground.home))?;
        user_dispatch::check(&stop).map_err(|refusal| Failure::clean(refusal, true))?;
        let mut hooks = prepared.hooks.clone();
        if self.surveyor.is_static() {
            thread_pointer::check(&stop).map_err(|refusal| Failure::clean(refusal, true))?;
        }
        if python.as_ref().is_some_and(|(_, loaded)| !loaded.is_there(&target.memory))
            || !still_there(target, &prepared.survey, &hooks)
            || is_unpatched_meanwhile(target, &maps, &hooks)
        {
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
        let python = python.map(|(python, _)| python);
        let installed = self.install(&stop, &maps, &prepared, hooks, python);
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

    /// Stops the target; for the first time only if that is not foreseen to take too long.
    fn stop(&self) -> Result<Stopped<'t>, Failure> {
        let (target, touched) = (self.target, self.touched());
        if !touched {
            foreseen::check(target, self.options.max_stop)
                .map_err(|refusal| Failure::clean(refusal, false))?;
        }
        Stopped::all(target).map_err(|error| Failure::clean(error, touched))
    }

    /// Makes unwind tables, while the target runs: it takes a while.
    fn look_at_tables(&mut self, prepared: &Prepared) {
        if !self.options.tables {
            return;
        }
        let links: Vec<Link> = prepared.survey.loaded.iter().map(|l| l.link.clone()).collect();
        if self.loads.is_none() {
            self.loads = Loads::find(self.target, self.surveyor.lists(), &links);
            if let Some(biases) = loads::lasting(self.target, &links) {
                self.tables.set_lasting(biases);
            }
        }
        self.seen = self.loads.as_mut().and_then(|loads| loads.now(&self.target.memory));
        let text = self.target.process.read("maps").unwrap_or_default();
        if let Ok(maps) = maps::parse(&text) {
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
        python: Option<Python>,
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
        let session = self.lock.session();
        let mut orders =
            orders(self.target, &self.options, &self.heartbeat, session, first_stack(maps));
        orders.nests = prepared.nests;
        // What is exact is so from the first call on; samples can do without for a moment, and the
        // target is stopped meanwhile.
        if self.options.tables && self.options.interval <= 1 {
            let range = tables_at(self.options.ring_bits)
                ..usize::try_from(home.header().region).unwrap_or(0);
            let published = self.tables.publish(&shared, &self.target.memory, range);
            published.map_err(|e| failed(AttachError::Enable(e)))?;
        }
        if let Some((loads, seen)) = self.loads.as_ref().zip(self.seen) {
            loads
                .prepare(self.target, &home)
                .and_then(|()| loads.tell(seen, &shared, &self.target.memory, home.control()))
                .map_err(|e| failed(AttachError::Enable(e)))?;
        }
        // A program that begins may ask for something at once.
        let mut mailboxes = Mailboxes::new(self.target, self.options.service);
        if self.is_start {
            stand_ins::fill(stop, maps, self.image, &prepared.survey, &mut patches)
                .map_err(|e| failed(AttachError::from(e)))?;
            self.hear_requests(stop, maps, prepared, &mut patches)
                .map_err(|e| failed(AttachError::from(e)))?;
        }
        if let Some(stubs) = patches.stubs.as_ref().filter(|s| s.provides(&self.target.memory)) {
            // They are told when it is over by who leads the stubs home.
            let at = stubs.at().get();
            patches
                .home
                .amend(&self.target.memory, |header| header.stubs = at)
                .map_err(|e| failed(AttachError::from(PatchError::from(e))))?;
            let word = mailboxes.word_for_checks();
            stubs.watch(&self.target.memory, word).map_err(|e| failed(AttachError::Enable(e)))?;
        }
        if patches.heard.hooks.is_some() {
            let word = mailboxes.word_for_checks();
            requests::watch(&self.target.memory, &patches.home, word)
                .map_err(|e| failed(AttachError::Enable(e)))?;
        }
        mailboxes.look(&self.target.memory, maps, &mut patches.home);
        if let Some(python) = &python {
            // Before the first call: a short program is over before it could be told later.
            let (is_exact, is_direct) = (self.options.interval <= 1, patches.sees_pages_go());
            let told = python.tell(self.target, home.control(), maps, is_exact, is_direct);
            told.map_err(|e| failed(AttachError::Enable(e)))?;
        }
        orders::enable(stop, &home, &orders).map_err(|e| failed(AttachError::Enable(e)))?;
        let places = Places::default();
        let first_stack = orders.first_stack;
        Ok(Installed { patches, mailboxes, shared, sorted, places, exposed, first_stack, python })
    }

    /// Has the program's client requests heard, where a check is to know of its pools.
    fn hear_requests(
        &self,
        stop: &Stopped<'_>,
        maps: &[Mapping<'_>],
        prepared: &Prepared,
        patches: &mut Patches,
    ) -> Result<(), PatchError> {
        if self.options.service != Service::Checks {
            return Ok(());
        }
        let why_not = match self.options.mode {
            HookMode::Slots => Some("no code is to be changed (--hooks slots)"),
            _ => prepared.nests.blocks.then_some("functions of its allocator call each other"),
        };
        patches.heard.why_not = why_not.map(str::to_owned);
        if why_not.is_some() {
            return Ok(());
        }
        requests::hear(stop, maps, self.image, &prepared.survey, patches)
    }

    fn into_session(self, prepared: &Prepared, installed: Installed) -> Session<'t> {
        let now = Instant::now();
        let body = installed.patches.body;
        let own_code = body..body.offset(self.image.text().len() as u64);
        let mut session = Session {
            target: self.target,
            image: self.image,
            options: self.options,
            surveyor: self.surveyor,
            links: prepared.survey.loaded.iter().map(|l| l.link.clone()).collect(),
            patches: installed.patches,
            mailboxes: installed.mailboxes,
            stream: Stream::new(
                installed.shared,
                &self.options,
                Arc::clone(self.tables.generations()),
                own_code,
            ),
            nests: prepared.nests,
            loads: self.loads,
            generations: 0,
            seen: self.seen,
            is_confined: self.target.is_confined(),
            tables: self.tables,
            sorted: installed.sorted,
            places: installed.places,
            stops: self.stops,
            exposed: installed.exposed,
            heartbeat: self.heartbeat,
            lock: self.lock,
            clockless: is_clockless(self.target),
            own_start: own_start_time(),
            rechecks: [200, 20].map(|ms| now + Duration::from_millis(ms)).to_vec(),
            static_tls: StaticTls::default(),
            changes: 0,
            first_stack: installed.first_stack,
            python: None,
            missed: if self.options.copies && self.target.is_confined() {
                vec!["its system calls are filtered, so that no stack was copied".to_owned()]
            } else {
                Vec::new()
            },
        };
        session.publish_tables();
        session.take_python(installed.python);
        session
    }
}

/// What the hooks are told with these options.
pub(crate) fn orders(
    target: &Target,
    options: &Options,
    heartbeat: &Heartbeat,
    session: u64,
    first_stack: Range<RemoteAddr>,
) -> Orders {
    let filter = target.process.status().map_or(0, |status| status.seccomp);
    let is_confined = filter != 0;
    Orders {
        deadline: if filter == STRICT { 0 } else { heartbeat.deadline() },
        interval: options.interval,
        ring_bits: options.ring_bits,
        ring_patience: options.ring_patience,
        map_patience: options.map_patience,
        nests: Nests::default(),
        yield_mask: if is_confined { 0 } else { SPINS - 1 },
        salt: u32::try_from(session >> 31).unwrap_or(0),
        most_frames: options.most_frames,
        verify: options.verify,
        may_copy: options.copies && !is_confined,
        first_stack,
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

/// Another process may have attached between our look and our stop.
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

/// Under strict seccomp the kernel makes reading the time-stamp counter a fault.
fn is_clockless(target: &Target) -> bool {
    target.process.status().is_ok_and(|status| status.seccomp == STRICT)
}

/// When this process was started; it is asked for by every session of a family.
pub(crate) fn own_start_time() -> u64 {
    static KNOWN: OnceLock<(u32, u64)> = OnceLock::new();
    let own = std::process::id();
    let read = || {
        let process = Process::open(own.cast_signed());
        process.ok().and_then(|process| process.start_time()).unwrap_or(0)
    };
    let &(process, started) = KNOWN.get_or_init(|| (own, read()));
    // A fork of this process is another one.
    if process == own { started } else { read() }
}
