//! Before the stop: what a dead heapattach left is undone, modules are looked at, hooks are planned.

use std::ops::Range;

use crate::{
    home::{Home, MOST_CHANGES, MOST_MODULES},
    options::Options,
    preflight::{self},
    refusal::Refusal,
};
use crate::{
    hook::{
        nests::Nests,
        plan::{HookMode, PlannedHook, Way, differs_from_file, out_of_reach, plan, settle, wraps},
        survey::{Survey, Surveyor},
    },
    installation::shelter,
    session::{
        failure::{AttachError, Failure},
        undo::undo_orphaned,
    },
    trace::{stopped::StopError, target::Target},
};
use heapattach_entry::{Family, functions::Function};
use heapattach_process::cache::Cache;
use heapattach_process::{
    addr::RemoteAddr,
    proc::maps::{self, Mapping},
};

/// What was found out before the stop.
pub(crate) struct Prepared {
    /// The modules.
    pub survey: Survey,
    /// What is to be hooked, and how.
    pub hooks: Vec<PlannedHook>,
    /// The code that our home must be near to.
    pub code: Range<RemoteAddr>,
    /// Hooked functions call hooked functions.
    pub nests: Nests,
}

/// Undoes what a dead heapattach left, before a new session begins.
pub(crate) fn clean_up_before(target: &Target) -> Result<(), Failure> {
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).map_err(|_| Failure::clean(AttachError::Maps, false))?;
    for home in Home::all(&target.memory, &maps) {
        // Another heapattach may have come since the preflight: what it works on is its own.
        if let Some(refusal) = preflight::busy(target.process.pid(), &home) {
            return Err(Failure::clean(refusal, false));
        }
        if !target.permit.is_granted() {
            return Err(Failure::clean(StopError::Unwanted, false));
        }
        undo_orphaned(target, &home)
            .map_err(|left| Failure::left(AttachError::Leftovers, Some(left)))?;
        // Where this fails, it is done when the place is needed.
        let _ = shelter::undo_frames(target);
    }
    Ok(())
}

pub(crate) fn surveyor(target: &Target, options: &Options) -> Result<Surveyor, Failure> {
    let surveyor = Surveyor::new(target, options.asked);
    let surveyor = surveyor.map_err(|error| Failure::clean(error, false))?;
    Ok(surveyor.kept_in(options.cache.then(Cache::of_environment).flatten()))
}

pub(crate) fn prepare(
    target: &Target,
    surveyor: &mut Surveyor,
    options: &Options,
) -> Result<Prepared, AttachError> {
    let mode = options.mode;
    let survey = surveyor.look(target)?;
    let text = target.process.read("maps").map_err(|_| AttachError::Maps)?;
    let maps = maps::parse(&text).map_err(|_| AttachError::Maps)?;
    let wishes = options.wishes(&survey, target, &maps);
    let mut hooks = plan(target, &survey, &maps, wishes, |_| false);
    let code = reachable_code(&mut hooks, mode);
    settle(&mut hooks);
    for function in options.asked.functions() {
        check_asked(target, surveyor, &survey, &hooks, function)?;
    }
    // What only asks the kernel for memory says nothing about who has it.
    let tells = |hook: &PlannedHook| hook.is_hooked() && hook.function().family != Family::Kernel;
    if !hooks.iter().any(tells) {
        return Err(nothing_to_hook(target, surveyor, &hooks).into());
    }
    let nests = wraps(target, &survey, &maps, &hooks);
    Ok(Prepared { survey, hooks, code, nests })
}

/// Refuses where a function that the user named is not hooked: without it numbers would mean nothing.
fn check_asked(
    target: &Target,
    surveyor: &Surveyor,
    survey: &Survey,
    hooks: &[PlannedHook],
    function: &Function,
) -> Result<(), Refusal> {
    let mut named = hooks.iter().filter(|hook| hook.names.contains(&function));
    let (name, pid) = (&function.name, target.process.pid());
    let refusal = |value, need: &str, cure| {
        Err(Refusal { value, need: need.to_owned(), cure, unsupported: false })
    };
    let Some(first) = named.next() else {
        let near = surveyor.near(target, survey, name);
        let cure = match near.as_slice() {
            [] => format!("see `nm -C /proc/{pid}/exe`"),
            near => format!("did you mean {}?", near.join(", ")),
        };
        let value = format!("no symbol of process {pid} names a function `{name}`");
        return refusal(value, "its name, or its address in the program's file (0x...)", cure);
    };
    match &first.way {
        Way::Not { why } if !named.any(PlannedHook::is_hooked) => {
            let cure = "name the function that it calls, or those that call it".to_owned();
            refusal(format!("`{name}` cannot be hooked: {why}"), "another function", cure)
        }
        _ => Ok(()),
    }
}

/// Why there is nothing that could be hooked.
pub(crate) fn nothing_to_hook(
    target: &Target,
    surveyor: &Surveyor,
    hooks: &[PlannedHook],
) -> Refusal {
    let pid = target.process.pid();
    if let Some((hook, why)) = hooks.iter().find_map(|hook| match &hook.way {
        Way::Not { why } => Some((hook, why)),
        _ => None,
    }) {
        return Refusal::unsupported(
            format!("no function of process {pid} can be hooked: {}: {why}", hook.name()),
            "an allocator whose functions can be hooked",
            "see `heapattach doctor -p PID`",
        );
    }
    if surveyor.is_static() {
        return Refusal::unsupported(
            format!("process {pid} is statically linked, and no symbol names its allocator"),
            "its symbol table, or the addresses of its functions",
            "install its debug file (/usr/lib/debug/.build-id), or name them: \
             `--hook 0x401234=malloc --hook 0x401300=free` (0x401234+0x40 tells the size too)",
        );
    }
    Refusal::unsupported(
        "no allocation function was found in any module",
        "a program that uses malloc or mmap through its libraries",
        "see `heapattach doctor -p PID`",
    )
}

/// The code that our home must be near to. Entries too far from it are left to the slots.
pub(crate) fn reachable_code(hooks: &mut [PlannedHook], mode: HookMode) -> Range<RemoteAddr> {
    let is_entry = |h: &&PlannedHook| matches!(h.way, Way::Entry(_));
    // What no slot leads to comes first: the program's own allocator may lie far from libc's.
    let is_own = |h: &&PlannedHook| is_entry(h) && !h.is_dynamic;
    let centre = hooks.iter().find(is_own).or_else(|| hooks.iter().find(is_entry));
    let centre = centre.or(hooks.first()).map_or_else(Default::default, |h| h.at);
    let mut range = centre..centre.offset(1);
    for hook in hooks.iter_mut().filter(|h| matches!(h.way, Way::Entry(_))) {
        if out_of_reach(hook, &range, mode) {
            continue;
        }
        range = range.start.min(hook.at)..range.end.max(hook.at.offset(1));
    }
    range
}

/// Whether a function was left to the slots, or alone, for a patch of its entry that is there no more:
/// that of a heapattach that has just detached, say.
pub(crate) fn is_unpatched_meanwhile(
    target: &Target,
    maps: &[Mapping<'_>],
    hooks: &[PlannedHook],
) -> bool {
    let patched = hooks.iter().filter_map(|hook| hook.patched.as_ref());
    patched.into_iter().any(|parts| differs_from_file(target, maps, parts).is_none())
}

/// Room in the journal for what is loaded now and what may come: modules, and changes.
pub(crate) fn journal_room(survey: &Survey) -> (u64, u64) {
    let modules = 2 * survey.loaded.len() as u64 + 1024;
    let changes = 2 * slot_count(survey) + 8192;
    (modules.min(MOST_MODULES), changes.min(MOST_CHANGES))
}

pub(crate) fn slot_count(survey: &Survey) -> u64 {
    survey.loaded.iter().map(|l| l.module.slots.len() as u64).sum()
}
