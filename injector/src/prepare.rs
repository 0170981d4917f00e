//! Before the stop: what a dead heapattach left is undone, modules are looked at, hooks are planned.

use std::ops::Range;

use crate::{
    addr::RemoteAddr,
    attach::Options,
    failure::{AttachError, Failure},
    functions::Function,
    home::Home,
    linker::Link,
    module,
    obstacle::NotNow,
    plan::{HookMode, PlannedHook, Way, plan, settle},
    preflight::Refusal,
    proc::maps,
    survey::{Survey, Surveyor},
    target::Target,
    undo::undo,
};

/// What was found out before the stop.
pub(crate) struct Prepared {
    /// The modules.
    pub survey: Survey,
    /// What is to be hooked, and how.
    pub hooks: Vec<PlannedHook>,
    /// The code that our home must be near to.
    pub code: Range<RemoteAddr>,
}

/// Undoes what a dead heapattach left, before a new session begins.
pub(crate) fn clean_up_before(target: &Target) -> Result<(), Failure> {
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).map_err(|_| Failure::clean(AttachError::Maps, false))?;
    for at in Home::find(&target.memory, &maps) {
        let Ok(home) = Home::open(&target.memory, at) else { continue };
        undo(target, &home).map_err(|left| Failure::left(AttachError::Leftovers, Some(left)))?;
    }
    Ok(())
}

pub(crate) fn surveyor(target: &Target, options: &Options) -> Result<Surveyor, Failure> {
    Surveyor::new(target, options.asked).map_err(|error| Failure::clean(error, false))
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
    let mut hooks = plan(target, &survey, &maps, options.wishes(), |_| false);
    let code = reachable_code(&mut hooks, mode);
    settle(&mut hooks);
    for function in options.asked.functions() {
        check_asked(target, surveyor, &survey, &hooks, function)?;
    }
    if !hooks.iter().any(PlannedHook::is_hooked) {
        return Err(nothing_to_hook(target, surveyor, &hooks).into());
    }
    Ok(Prepared { survey, hooks, code })
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

/// Leaves `hook` to the slots if it and `range` do not lie within one branch's reach.
pub(crate) fn out_of_reach(
    hook: &mut PlannedHook,
    range: &Range<RemoteAddr>,
    mode: HookMode,
) -> bool {
    const REACH: u64 = 1 << 30;
    let far = hook.at.distance(range.start).max(hook.at.distance(range.end)) > REACH;
    if far {
        let why = "it lies too far from the other allocation functions".to_owned();
        hook.leave_entry(why, mode);
    }
    far
}

pub(crate) fn fall_back(hooks: &mut [PlannedHook], reason: NotNow, mode: HookMode) {
    let why = match reason {
        NotNow::VforkChild => "a vfork child ran in the same memory at every try".to_owned(),
        NotNow::ThreadInWindow(tid) => {
            format!("thread {tid} stood in the first instructions at every try")
        }
    };
    for hook in hooks.iter_mut().filter(|h| matches!(h.way, Way::Entry(_))) {
        hook.leave_entry(why.clone(), mode);
    }
}

/// Whether the modules that define the hooked functions are still the ones looked at.
pub(crate) fn still_there(target: &Target, survey: &Survey, hooks: &[PlannedHook]) -> bool {
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

/// Room in the journal for what is loaded now and what may come: modules, and changes.
pub(crate) fn journal_room(survey: &Survey) -> (u64, u64) {
    (2 * survey.loaded.len() as u64 + 1024, 2 * slot_count(survey) + 8192)
}

pub(crate) fn slot_count(survey: &Survey) -> u64 {
    survey.loaded.iter().map(|l| l.module.slots.len() as u64).sum()
}
