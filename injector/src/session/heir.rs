//! The session of a forked child, begun with what its parent's session has.
//!
//! A child is born with its parent's modules, with our home and the journal in it, and with every
//! word that leads to our hooks; nothing of that is looked for or changed again. What it must not
//! have in common with its parent is what is written to: it gets a region of its own, mapped over
//! the inherited one while its hooks are still switched off, so that two producers never share a
//! ring. Only unwind tables that will never change stay as they are mapped.
//!
//! ```text
//! region of the parent   | rings, samples, stacks | tables, settled | room for more |
//! region of the child    |   a file of its own    | as inherited    | its own file  |
//! ```
//!
//! Every call is made at the place of rescue that the inherited home has, so that the child survives
//! the end of this process at every step: with its hooks switched off, as children that no session
//! follows.

use std::{ops::Range, sync::Arc};

use heapattach_abi::{control::ENABLED, region::tables_at};

use crate::snapshot::StaticTls;
use crate::{
    arch,
    home::{Home, HomeError},
    options::Options,
    scripts::Python,
    session::Session,
    unwind::Tables,
};
use crate::{
    home::{payload_image::PayloadImage, session_lock::SessionLock},
    hook::{nests::Nests, patch::Patches, quiet, slots::Sorted, survey::Surveyor},
    installation::{
        install::{InstallError, share_over},
        orders,
        remote_call::Carrier,
        shelter::Exposure,
    },
    records::{
        heartbeat::Heartbeat, loads::Loads, mailbox::Mailboxes, places::Places, stream::Stream,
    },
    session::{
        attach::{orders, own_start_time},
        failure::{AttachError, Failure},
        stop_record::{StopReason, StopRecord},
    },
    trace::{
        stopped::{StopError, Stopped, user_dispatch},
        target::Target,
    },
};
use heapattach_process::{addr::RemoteAddr, linker::Link, proc::maps, shared::Shared};

/// What a session leaves to the children of its process: as it was when it was last told.
#[derive(Clone, Debug)]
pub struct Heritage {
    patches: Patches,
    surveyor: Surveyor,
    links: Vec<Link>,
    tables: Tables,
    sorted: Sorted,
    places: Places,
    python: Option<Python>,
    first_stack: Range<RemoteAddr>,
    options: Options,
    nests: Nests,
    loads: Option<Loads>,
    /// What the loader said when the tables were made.
    seen: Option<u64>,
}

impl Heritage {
    /// What this session has to leave; nothing if children need all of it made anew: where the
    /// region is no file, where the program is told that it is watched, and where the hooks were
    /// loaded by the target.
    pub fn of(session: &Session<'_>) -> Option<Self> {
        let home = &session.patches.home;
        let is_ordinary = home.header().is_private == 0
            && home.header().descriptor == 0
            && session.patches.body == home.body()
            && session.mailboxes.is_empty()
            && !session.provides();
        let tables = tables_at(session.options.ring_bits);
        let is_settled = !session.options.tables || session.tables.settled(tables).is_some();
        (is_ordinary && is_settled).then(|| Self {
            patches: session.patches.clone(),
            surveyor: session.surveyor.clone(),
            links: session.links.clone(),
            tables: session.tables.clone(),
            sorted: session.sorted.clone(),
            places: session.places.clone(),
            python: session.python.clone(),
            first_stack: session.first_stack.clone(),
            options: session.options,
            nests: session.nests,
            loads: session.loads.clone(),
            seen: session.seen,
        })
    }

    /// Whether `target` has what this describes, word for word: it was forked since, and no module
    /// came in between.
    fn is_of(&self, target: &Target) -> bool {
        let home = &self.patches.home;
        Home::open(&target.memory, home.at()).is_ok_and(|found| found.header() == home.header())
    }

    /// Whether hooks are switched on in a process that was just born: then its memory is that of its
    /// parent. `None` if it does not have our home.
    pub fn is_borrowed(&self, target: &Target) -> Option<bool> {
        let home = Home::open(&target.memory, self.patches.home.at()).ok()?;
        let mut enabled = [0; 4];
        let at = home.control().offset(ENABLED as u64);
        target.memory.read(at, &mut enabled).ok().map(|()| enabled != [0; 4])
    }

    /// The part of the region that the child shares with its parent.
    fn shared_part(&self) -> Range<usize> {
        let from = tables_at(self.options.ring_bits);
        self.tables.settled(from).unwrap_or(from..from)
    }
}

/// Begins a session in a forked child that stands before its first instruction; `None` if that must
/// be done as for any other process.
///
/// # Errors
/// When the child was changed and could not be given back what it was born with.
pub fn inherit<'t>(
    target: &'t Target,
    image: &'t PayloadImage,
    heritage: &Heritage,
) -> Result<Option<Session<'t>>, Failure> {
    let heartbeat = Heartbeat::new();
    // Filters may forbid the calls that are made in it; that is weighed where everything is.
    let is_filtered = target.process.status().is_ok_and(|status| status.seccomp != 0);
    if is_filtered || !heritage.is_of(target) {
        return Ok(None);
    }
    if !target.permit.is_granted() {
        return Err(Failure::clean(StopError::Unwanted, false));
    }
    // It has one thread, which stands: there is nothing to seize, to interrupt or to wait for.
    let stop = Stopped::adopt(target, target.process.pid());
    let stop = stop.map_err(|error| Failure::clean(error, false))?;
    let is_gone = stop.threads().is_empty();
    if is_gone || user_dispatch::check(&stop).is_err() || may_be_in_hook(&stop, heritage) {
        return Ok(None);
    }
    let mut patches = heritage.patches.clone();
    let Ok(lock) = SessionLock::take() else { return Ok(None) };
    let shared_part = heritage.shared_part();
    let taken = take_over(&stop, &mut patches.home, &shared_part, lock.session());
    // What was begun is undone with the rest, where it is done in the ordinary way.
    let Ok((shared, exposed)) = taken else { return Ok(None) };
    if switch_on(&stop, &patches, heritage, (&heartbeat, lock.session()), &shared).is_err() {
        return Ok(None);
    }
    let own_code = patches.body..patches.body.offset(image.text().len() as u64);
    let mut session = Session {
        target,
        image,
        options: heritage.options,
        surveyor: heritage.surveyor.clone(),
        links: heritage.links.clone(),
        patches,
        mailboxes: Mailboxes::new(target, heritage.options.service),
        stream: Stream::new(
            shared,
            &heritage.options,
            Arc::clone(heritage.tables.generations()),
            own_code,
        ),
        nests: heritage.nests,
        loads: heritage.loads.clone(),
        generations: 0,
        seen: heritage.seen,
        is_confined: false,
        tables: heritage.tables.clone(),
        sorted: heritage.sorted.clone(),
        places: heritage.places.clone(),
        stops: vec![StopRecord::end(StopReason::Attach, stop)],
        exposed,
        heartbeat,
        lock,
        clockless: false,
        own_start: own_start_time(),
        rechecks: Vec::new(),
        static_tls: StaticTls::default(),
        changes: 0,
        missed: Vec::new(),
        first_stack: heritage.first_stack.clone(),
        python: None,
    };
    session.take_python(heritage.python.clone());
    Ok(Some(session))
}

/// A region of its own, over the inherited one.
fn take_over(
    stop: &Stopped<'_>,
    home: &mut Home,
    shared_part: &Range<usize>,
    session: u64,
) -> Result<(Shared, Exposure), InstallError> {
    let memory = &stop.target().memory;
    let thread = stop.threads().first().ok_or(InstallError::NoCarrier)?;
    let mut carrier = Carrier::borrow(stop, thread, home.gadget())?;
    let frame = carrier.rescue_frame(home.frame())?;
    // From here on it is a session of its own, that the end of its parent's does not concern.
    home.amend(memory, |header| {
        header.session = session;
        header.owner = std::process::id().into();
        header.owner_started = own_start_time();
    })?;
    let at = home.frame();
    memory.write(at, &frame).map_err(|source| HomeError::Write { at, source })?;
    carrier.rescue(home.gadget(), home)?;
    let length = usize::try_from(home.header().region).unwrap_or(0);
    let own = [0..shared_part.start, shared_part.end..length];
    let shared = share_over(stop, &mut carrier, home, &own)?;
    let exposed = carrier.finish()?;
    Ok((shared, exposed))
}

/// Tells the hooks everything, and that they are on at last.
fn switch_on(
    stop: &Stopped<'_>,
    patches: &Patches,
    heritage: &Heritage,
    (heartbeat, session): (&Heartbeat, u64),
    shared: &Shared,
) -> Result<(), AttachError> {
    let (target, options) = (stop.target(), &heritage.options);
    if options.tables {
        heritage.tables.point(shared, &target.memory).map_err(AttachError::Enable)?;
    }
    if let Some((loads, seen)) = heritage.loads.as_ref().zip(heritage.seen) {
        let (home, memory) = (&patches.home, &target.memory);
        loads.prepare(target, home).map_err(AttachError::Enable)?;
        loads.tell(seen, shared, memory, home.control()).map_err(AttachError::Enable)?;
    }
    if let Some(python) = &heritage.python {
        // The child only bears another number.
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).unwrap_or_default();
        let (is_exact, is_direct) = (options.interval <= 1, patches.sees_pages_go());
        let told = python.tell(target, patches.home.control(), &maps, is_exact, is_direct);
        told.map_err(AttachError::Enable)?;
    }
    let first_stack = heritage.first_stack.clone();
    let mut orders = orders(target, options, heartbeat, session, first_stack);
    orders.nests = heritage.nests;
    orders::enable(stop, &patches.home, &orders).map_err(AttachError::Enable)
}

/// Whether the thread that forked may have been in our code, or called from it: only a handler of a
/// signal can fork there. It goes on in that code with what it remembers of its parent's region.
fn may_be_in_hook(stop: &Stopped<'_>, heritage: &Heritage) -> bool {
    let code = heritage.patches.home.code();
    let in_code = |word: u64| code.contains(&RemoteAddr::new(word));
    stop.threads().iter().any(|thread| {
        let pointer = arch::stack_pointer(&thread.registers);
        let known = heritage.first_stack.contains(&pointer).then_some(heritage.first_stack.end);
        let found = || {
            let text = stop.target().process.read("maps").unwrap_or_default();
            maps::covering(&maps::parse(&text).unwrap_or_default(), pointer).map(|m| m.range.end)
        };
        let Some(end) = known.or_else(found) else { return true };
        let (mut leads, mut is_in_handler) = (false, false);
        let is_both = quiet::has_word(&stop.target().memory, pointer..end, |word, after| {
            leads |= in_code(word);
            is_in_handler |= arch::is_saved_by_signal(after);
            leads && is_in_handler
        });
        is_both || in_code(arch::program_counter(&thread.registers).get())
    })
}
