//! Giving words back, and unmapping: from what is written in a home alone, of this session or
//! another. What the target's own loader has loaded is unloaded by [`crate::session::undo`], which is the way out for all.

mod unmap;

use std::{
    iter,
    time::{Duration, Instant},
};

use heapattach_abi::{
    copies::COPIES,
    python::{ORDERS_AT, Order},
    region, row,
};
use nix::errno::Errno;

use crate::{
    arch::{SKIP_REQUEST, errand_words::State},
    home::{stub_page::StubPage, vdso},
    hook::{
        quiet::{self, Evidence},
        requests,
    },
    installation::{
        remote_call::CarrierError,
        shared_object::{self, Block},
        shelter::{self, Exposure},
    },
    trace::{
        insist::insist,
        stopped::{StopCost, StopError, Stopped, StoppedThread},
        target::Target,
    },
};
use crate::{
    home::{Change, ChangeKind, Home, HomeError},
    module,
};
use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    proc::maps::{self, Mapping},
};

use unmap::unmap;

/// How long threads may take to leave our code, or a vfork child to leave the memory; and how often
/// we look at least, for on a busy machine it may be us who are kept waiting.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOKS: usize = 30;

/// However slow the machine: a hostile home can make every look a long one.
const ENOUGH: Duration = Duration::from_secs(60);

/// How long a thread that came back from its vfork may be held while others are still in theirs.
const VFORK_PATIENCE: Duration = Duration::from_secs(1);

/// How long threads may take to end a look of some hundred nanoseconds, which may have no processor.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);

/// Between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A step that fails for a reason of the moment is repeated so often.
const ATTEMPTS: usize = 8;

/// Why something of ours is still there.
#[derive(Debug, thiserror::Error)]
pub enum GiveBackError {
    /// The target cannot be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// No thread can be borrowed.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// Our home cannot be read.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The memory map cannot be read.
    #[error("the memory map of the target cannot be read")]
    Maps,
    /// A word cannot be given back.
    #[error("the word at {at} cannot be written")]
    Write {
        /// Where.
        at: RemoteAddr,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// A thread does not leave our code.
    #[error("thread {tid} did not leave our code within {waited:?}")]
    Busy {
        /// The thread.
        tid: i32,
        /// How long we waited.
        waited: Duration,
    },
    /// A vfork child does not end.
    #[error(
        "a vfork child has run in the same memory for {waited:?}; no text may change meanwhile"
    )]
    VforkChild {
        /// How long we waited.
        waited: Duration,
    },
}

/// What was given back.
#[derive(Debug, Default)]
pub struct Undone {
    /// What the stops cost.
    pub stops: Vec<StopCost>,
    /// How long the borrowed thread would not have survived our death.
    pub exposed: Exposure,
    /// Words that others have changed since, which were left alone.
    pub foreign: Vec<RemoteAddr>,
    /// The stub page stays at this address.
    pub stub_page: Option<RemoteAddr>,
}

/// Gives back every word that `home` knows of, and waits until no thread is in our code any more.
///
/// # Errors
/// What stands in the way, after every step was tried several times.
pub(crate) fn words(
    target: &Target,
    home: &Home,
    undone: &mut Undone,
) -> Result<(), GiveBackError> {
    insist_on(target, home, undone, Goal::GiveBack)
}

/// Gives every word back and unmaps the home.
///
/// # Errors
/// As [`words`].
pub(crate) fn everything(
    target: &Target,
    home: &Home,
    undone: &mut Undone,
) -> Result<(), GiveBackError> {
    insist_on(target, home, undone, Goal::Unmap)
}

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    GiveBack,
    Unmap,
}

/// Tries until it works, or there is no hope.
fn insist_on(
    target: &Target,
    home: &Home,
    undone: &mut Undone,
    goal: Goal,
) -> Result<(), GiveBackError> {
    let since = Instant::now();
    let (mut failures, mut looks, mut pause) = (0, 0, Duration::from_millis(1));
    loop {
        let error = match attempt(target, home, undone, since, goal) {
            Ok(()) => return Ok(()),
            // Nothing of ours is left in a process that is gone.
            Err(GiveBackError::Stop(StopError::Gone)) => return Ok(()),
            Err(error) => error,
        };
        match error {
            GiveBackError::VforkChild { .. } => target.hold_late(VFORK_PATIENCE),
            _ => target.release_late(),
        }
        let waits = matches!(error, GiveBackError::Busy { .. } | GiveBackError::VforkChild { .. });
        failures += usize::from(!waits);
        looks += 1;
        let is_enough = since.elapsed() > PATIENCE && looks >= LOOKS;
        if failures >= ATTEMPTS || is_enough || since.elapsed() > ENOUGH {
            return Err(error);
        }
        if !target.process.is_alive() {
            return Ok(());
        }
        // Every stop lengthens what the target waits for; it must not spend its time in them.
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// One stop.
fn attempt(
    target: &Target,
    home: &Home,
    undone: &mut Undone,
    since: Instant,
    goal: Goal,
) -> Result<(), GiveBackError> {
    let gadget = vdso::syscall_gadget(target).map_err(|_| GiveBackError::Maps)?;
    shelter::look_ahead(target);
    end_looks(target, home);
    let stop = Stopped::all(target)?;
    let result = attempt_stopped(&stop, home, undone, since, gadget, goal);
    undone.stops.push(stop.finish());
    result
}

/// Has the hooks read none of the target's pages directly any more, and waits for those that do: without hooks nothing
/// says that a page goes.
fn end_looks(target: &Target, home: &Home) {
    let (memory, since) = (&target.memory, Instant::now());
    let at = |offset: usize| home.region().offset(offset as u64);
    // What a fork copied of a home reads zero there: the region is that of the parent.
    let may_be_direct = home.control().offset((ORDERS_AT + Order::Direct as usize) as u64);
    if !memory.word(may_be_direct).is_ok_and(|may| may != 0) {
        return;
    }
    if memory.write_word(at(region::NOTHING_DIRECT), region::AT_END).is_err() {
        return;
    }
    let looks = || -> Vec<u64> {
        let bytes = memory.read_vec(at(region::LOOKS_AT), COPIES * 8).unwrap_or_default();
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().map(|word| u64::from_le_bytes(*word)).collect()
    };
    // Who looks later reads nothing directly.
    let first = looks();
    let goes_on = |(first, now): (&u64, u64)| region::looker(*first) != 0 && *first == now;
    while first.iter().zip(looks()).any(goes_on) && since.elapsed() < LOOK_PATIENCE {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// The same within a stop that the caller made.
fn attempt_stopped(
    stop: &Stopped<'_>,
    home: &Home,
    undone: &mut Undone,
    since: Instant,
    gadget: RemoteAddr,
    goal: Goal,
) -> Result<(), GiveBackError> {
    let target = stop.target();
    let text = target.process.read("maps").map_err(|_| GiveBackError::Maps)?;
    let maps = maps::parse(&text).map_err(|_| GiveBackError::Maps)?;
    // What the journal says now: the session may have added to it.
    let home = match Home::open(&target.memory, home.at()) {
        Ok(home) => home,
        Err(_) if !is_our_mapping(&maps, home.at()) => return Ok(()),
        // It was mapped but never written: nothing but the mapping is to be undone.
        Err(_) => home.clone(),
    };
    disable(target, &home, &maps)?;
    revert(stop, &home, undone)?;
    let stub_page = lead_stubs_home(target, &home)?;
    if stop.has_vfork_child() {
        return Err(GiveBackError::VforkChild { waited: since.elapsed() });
    }
    if let Some(tid) = thread_in_code(stop, &home, &maps) {
        return Err(GiveBackError::Busy { tid, waited: since.elapsed() });
    }
    if goal == Goal::Unmap {
        let keep = stub_page.filter(|&at| at == home.stub_page());
        unmap(stop, &home, &maps, keep, gadget, undone)?;
    }
    undone.stub_page = stub_page;
    Ok(())
}

/// A thread that is in our code, or was called from it.
fn thread_in_code(stop: &Stopped<'_>, home: &Home, maps: &[Mapping<'_>]) -> Option<i32> {
    threads_in_code(stop, home, maps).next().map(|(thread, _)| thread.tid)
}

/// All of them, and where that was seen ([`quiet::threads_in`]).
pub(crate) fn threads_in_code<'s>(
    stop: &'s Stopped<'_>,
    home: &Home,
    maps: &'s [Mapping<'_>],
) -> impl Iterator<Item = (&'s StoppedThread, RemoteAddr)> + 's {
    let target = stop.target();
    let ranges: Vec<_> = iter::once(home.code()).chain(shared_object::ranges(maps)).collect();
    let in_code = move |word: u64| ranges.iter().any(|code| code.contains(&RemoteAddr::new(word)));
    quiet::threads_in(stop, maps, evidence(&target.memory, home), in_code)
}

/// What a thread's stack tells of our code. Nothing of it is ever on the stack of a thread that is
/// not in a slow path, or on an errand; but stacks keep words that mean nothing any more, so they
/// are believed only if some thread is.
fn evidence(memory: &Memory, home: &Home) -> Evidence {
    let word = |offset: usize| memory.word(home.region().offset(offset as u64)).unwrap_or(0);
    let rows = usize::try_from(word(region::ROWS_TAKEN)).unwrap_or(usize::MAX).min(row::ROWS - 1);
    let is_busy = || busy_rows(memory, home, rows);
    let is_on_errand = Block::of(memory, home).state().is_some_and(State::is_busy);
    if is_on_errand || is_busy() { Evidence::AnyWord } else { Evidence::SavedBySignal }
}

/// Whether one of the rows up to this one belongs to a thread in a slow path. What cannot be read tells nothing.
fn busy_rows(memory: &Memory, home: &Home, last: usize) -> bool {
    /// Read at once: a call for each would take longer than all else for thousands of threads.
    const PIECE: usize = 64;
    let mut rows = vec![0; PIECE * row::ROW_BYTES];
    (0..=last).step_by(PIECE).any(|first| {
        let at = home.region().offset((region::ROWS_AT + first * row::ROW_BYTES) as u64);
        let wanted = &mut rows[..PIECE.min(last + 1 - first) * row::ROW_BYTES];
        let read = memory.read_some(at, wanted).unwrap_or(0);
        let busy = |row: &[u8]| row[row::BUSY..].first_chunk().is_some_and(|word| *word != [0; 8]);
        wanted[..read].chunks_exact(row::ROW_BYTES).any(busy)
    })
}

fn is_our_mapping(maps: &[Mapping<'_>], at: RemoteAddr) -> bool {
    maps::covering(maps, at).is_some_and(|m| m.executable && !m.writable && m.is_anonymous())
}

/// The hooks pass every call through from here on.
fn disable(target: &Target, home: &Home, maps: &[Mapping<'_>]) -> Result<(), GiveBackError> {
    let at = home.control();
    // An attach that failed early has not come to the control page.
    if maps::covering(maps, at).is_none_or(|m| !m.writable) {
        return Ok(());
    }
    let zero = 0_u32.to_le_bytes();
    let write = |source| GiveBackError::Write { at, source };
    insist(|| target.memory.write(at, &zero)).map_err(write)?;
    // No thread is to begin an errand either; one that waits for an answer goes on.
    let block = Block::of(&target.memory, home);
    if matches!(block.state(), Some(State::Wanted | State::Parked)) {
        insist(|| block.set_state(State::Idle)).map_err(write)?;
    }
    Ok(())
}

/// Gives each word back that still holds ours, if its module is still the same.
fn revert(stop: &Stopped<'_>, home: &Home, undone: &mut Undone) -> Result<(), GiveBackError> {
    let memory = &stop.target().memory;
    let modules = home.modules(memory)?;
    let same: Vec<bool> =
        modules.iter().map(|m| module::identity_at(memory, m.dynamic) == Ok(m.identity)).collect();
    undone.foreign.clear();
    // Entries before the branches that lead past them.
    let mut changes = home.changes(memory)?;
    changes.sort_by_key(|c| c.kind != ChangeKind::Entry);
    for change in &changes {
        let index = usize::try_from(change.module).unwrap_or(usize::MAX);
        if !same.get(index).copied().unwrap_or(false) {
            continue;
        }
        let is_text =
            matches!(change.kind, ChangeKind::Entry | ChangeKind::Bypass | ChangeKind::Request);
        if is_text && stop.has_vfork_child() {
            continue;
        }
        revert_one(stop.target(), change, undone)?;
    }
    Ok(())
}

fn revert_one(target: &Target, change: &Change, undone: &mut Undone) -> Result<(), GiveBackError> {
    let old = &change.old[..change.length];
    let Ok(now) = target.memory.read_vec(change.at, change.length) else {
        return Ok(());
    };
    if change.is_made(&now) {
        let write = || target.memory.write(change.at, old);
        return insist(write).map_err(|source| GiveBackError::Write { at: change.at, source });
    }
    // A slot that the loader bound meanwhile is as it would be without us.
    // Of a request only the last change to be undone leads to what was there.
    let is_part = change.kind == ChangeKind::Request && change.length != SKIP_REQUEST.len();
    if now != old && change.kind != ChangeKind::Slot && !is_part {
        undone.foreign.push(change.at);
    }
    Ok(())
}

/// Every stub is one jump to its function from here on; answers where the page is, if one is used.
fn lead_stubs_home(target: &Target, home: &Home) -> Result<Option<RemoteAddr>, GiveBackError> {
    // Who waits for a check in the code of requests leaves it.
    insist(|| requests::leave(&target.memory, home))
        .map_err(|source| GiveBackError::Write { at: home.requests(), source })?;
    let at = RemoteAddr::new(home.header().stubs);
    if at.get() == 0 {
        return Ok(None);
    }
    let Ok(stubs) = StubPage::open(&target.memory, at) else { return Ok(None) };
    insist(|| stubs.lead_home(&target.memory))
        .map_err(|source| GiveBackError::Write { at, source })?;
    Ok(Some(at))
}
