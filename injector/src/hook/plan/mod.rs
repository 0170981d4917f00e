//! Which functions are hooked, and how: decided while the target runs, carried out while it is
//! stopped. `doctor` prints what is decided here, so that attach does what doctor said.

use std::{cell::LazyCell, collections::HashMap, ops::Range, sync::Arc};

use heapattach_abi::{
    form::{Asks, Form},
    kind::HookKind,
};

use crate::module::{build::Build, sizer::Sizer};
use crate::{
    hook::survey::{Survey, mapping_of},
    trace::target::Target,
};
use heapattach_entry::{
    Analysis, Entry, EntryPlan, Family, Hooked, Refusal, Role, functions::FunctionRef,
    user_hooks::UserHooks,
};
use heapattach_process::{
    addr::{Bias, RemoteAddr},
    linker::Link,
    proc::{
        file,
        maps::{self, Mapping},
    },
};

mod analysed;
mod direct;
mod left_out;
mod targets;
mod unseen;
mod wrapping;

use analysed::analysed;
use left_out::left_out;
use targets::targets;
pub use unseen::{Unseen, unseen};
pub use wrapping::wraps;

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookMode {
    /// Entries where it can be proved safe, slots elsewhere.
    #[default]
    Auto,
    /// Slots only: no text is changed.
    Slots,
    /// Entries only: what cannot be patched is not hooked.
    Entry,
}

/// What is to be hooked, and how.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// How.
    pub mode: HookMode,
    /// mmap and its family too.
    pub pages: bool,
    /// mprotect too, if it can be at its entry.
    pub rights: bool,
    /// Functions that the user named.
    pub asked: UserHooks,
}

/// How to hook one function.
#[derive(Clone, Debug)]
pub enum Way {
    /// At its first instructions, with every caller.
    Entry(Box<EntryParts>),
    /// In every module's word for it; and why not at its entry.
    Slots {
        /// The reason; empty if slots were asked for.
        why: String,
    },
    /// Where it calls another one, which is all it does.
    Within {
        /// That one's name.
        callee: &'static str,
    },
    /// Not at all, and why.
    Not {
        /// The reason.
        why: String,
    },
}

/// What patching an entry takes.
#[derive(Clone, Debug)]
pub struct EntryParts {
    /// The entry.
    pub plan: EntryPlan,
    /// What was found out about its whole module: which branches must lead past the hook depends
    /// on which entries are patched in the end.
    pub analysis: Arc<Analysis>,
    /// Where the loader put the module.
    pub bias: Bias,
}

/// How the size of a block is known when it comes, and when it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// It is not.
    #[default]
    Unknown,
    /// Glibc's allocator writes it before the block.
    Head,
    /// The allocator tells.
    Asked(Sizer),
}

/// One distinct function.
#[derive(Clone, Debug)]
pub struct PlannedHook {
    /// Where it begins.
    pub at: RemoteAddr,
    /// The names it goes by.
    pub names: Vec<FunctionRef>,
    /// The module it is in.
    pub definer: Link,
    /// How long it is, or 0.
    pub size: u64,
    /// Other modules can be bound to it, by slots.
    pub is_dynamic: bool,
    /// What is called in its place when it might throw.
    pub nothrow: Option<RemoteAddr>,
    /// How the size of its blocks is known.
    pub sizes: Sizes,
    /// It takes blocks back, its entry is not hooked, and its own module calls it without a slot.
    pub is_called_past: bool,
    /// Its hook must keep the arithmetic flags.
    pub keeps_flags: bool,
    /// How it is hooked.
    pub way: Way,
    /// What patching its entry would take, were it not patched by another already.
    pub patched: Option<Box<EntryParts>>,
}

impl PlannedHook {
    /// What its hook has to do, and where it finds the arguments if that is left open.
    pub fn kind(&self) -> (HookKind, Form) {
        let function = self.function();
        let same =
            |block, size, times| (HookKind::Chosen, Form { block, size, times, ..Form::default() });
        match function.kind {
            kind if !self.keeps_flags => (kind, function.form),
            HookKind::Free => same(1, 0, 0),
            HookKind::Malloc => same(0, 1, 0),
            HookKind::Calloc => same(0, 1, 2),
            HookKind::Realloc => same(1, 2, 0),
            HookKind::Memalign => same(0, 2, 0),
            kind => (kind, function.form),
        }
    }

    /// Whether there is a hook for it that keeps the arithmetic flags. It is slower: so only where
    /// there is no other way, where slots would count what it calls a second time, or where they would
    /// miss blocks that are freed, as a program calls its own functions without slots.
    fn may_keep_flags(&self, is_wrapper: bool) -> bool {
        let kinds = [HookKind::PosixMemalign, HookKind::New];
        let function = self.function();
        function.family == Family::Heap
            && !kinds.contains(&function.kind)
            && (!self.is_dynamic
                || is_wrapper && function.is_extra
                || function.frees && self.definer.is_executable()
                || self.names.iter().any(|name| name.is_asked))
    }

    /// Whether a caller may count on registers that the calling convention lets every call change: one that was
    /// compiled with the function, or knows that a function which the user names has a convention of its own.
    pub fn keeps_registers(&self) -> bool {
        let is_called_directly = match &self.way {
            Way::Entry(parts) => parts.plan.is_called_directly(),
            _ => false,
        };
        is_called_directly || self.names.iter().any(|name| name.is_asked)
    }

    /// Its best-known function.
    pub fn function(&self) -> FunctionRef {
        self.names[0]
    }

    /// Its best-known name.
    pub fn name(&self) -> &'static str {
        &self.function().name
    }

    /// What is left if the entry cannot be patched.
    pub fn leave_entry(&mut self, why: String, mode: HookMode) {
        self.way = if mode == HookMode::Entry || !self.is_dynamic {
            Way::Not { why }
        } else {
            Way::Slots { why }
        };
    }

    /// Whether it changes who may read pages, and nothing else that is told.
    fn is_of_rights(&self) -> bool {
        self.function().form.asks == Asks::Rights
    }

    /// Whether it has a hook of its own.
    pub fn is_hooked(&self) -> bool {
        matches!(self.way, Way::Entry(_) | Way::Slots { .. })
    }

    /// Blocks of the same allocator may be allocated by one and freed by the other.
    fn is_kin(&self, other: &Self) -> bool {
        let (own, others) = (self.function(), other.function());
        self.definer == other.definer
            && (own.allocator, own.family) == (others.allocator, others.family)
    }
}

/// Decides about every function that the modules of `survey` are bound to, or would be, and about
/// those that only their files name, but for those that are `known`.
pub fn plan(
    target: &Target,
    survey: &Survey,
    maps: &[Mapping<'_>],
    Wishes { mode, pages, rights, asked }: Wishes,
    known: impl Fn(RemoteAddr) -> bool,
) -> Vec<PlannedHook> {
    let mut hooks = targets(target, survey, asked);
    hooks.retain(|hook| !known(hook.at));
    hooks.retain(|hook| pages || hook.names.iter().any(|f| f.family == Family::Heap));
    let watches_rights = rights && mode != HookMode::Slots;
    hooks.retain(|hook| watches_rights || !hook.is_of_rights());
    if mode == HookMode::Slots {
        // Operators may call malloc and free by slots of their own: which do, only their code tells.
        for hook in hooks.iter_mut() {
            if !hook.is_dynamic || hook.function().is_operator {
                let why = "only its code leads to it, which is not to be changed (--hooks slots)";
                hook.way = Way::Not { why: why.to_owned() };
            }
        }
        look_past(target, maps, &mut hooks);
        return hooks;
    }
    let mut by_module: HashMap<Link, Vec<usize>> = HashMap::new();
    for (index, hook) in hooks.iter().enumerate() {
        if matches!(hook.way, Way::Slots { .. }) {
            by_module.entry(hook.definer.clone()).or_default().push(index);
        }
    }
    for (link, indices) in by_module {
        consider_entries(target, maps, &link, indices, &mut hooks, mode);
    }
    settle(&mut hooks);
    look_past(target, maps, &mut hooks);
    // All calls of it, or none.
    hooks.retain(|hook| !hook.is_of_rights() || matches!(hook.way, Way::Entry(_)));
    hooks
}

/// Finds functions that slots see only a part of the calls of. What is the C library's has no others:
/// it calls its own by the slots it has for itself.
fn look_past(target: &Target, maps: &[Mapping<'_>], hooks: &mut [PlannedHook]) {
    let is_past = |hook: &PlannedHook| {
        let function = hook.function();
        function.frees
            && function.family == Family::Heap
            && matches!(hook.way, Way::Slots { .. })
            && hook.sizes != Sizes::Head
            && direct::leads_to(&target.memory, maps, &hook.definer, hook.at)
    };
    for hook in hooks {
        hook.is_called_past = is_past(hook);
    }
}

/// Where what frees blocks cannot be hooked, what allocates them must not be: all its blocks
/// would look like leaks.
pub fn settle(hooks: &mut [PlannedHook]) {
    let is_missed = |hook: &&PlannedHook| {
        hook.function().frees && !hook.is_dynamic && matches!(hook.way, Way::Not { .. })
    };
    let missed: Vec<PlannedHook> = hooks.iter().filter(is_missed).cloned().collect();
    for hook in hooks.iter_mut().filter(|hook| matches!(hook.way, Way::Entry(_))) {
        if let Some(kin) = missed.iter().find(|missed| missed.is_kin(hook)) {
            let Way::Not { why } = &kin.way else { continue };
            let why = format!("{}, which may free its blocks, is not hooked: {why}", kin.name());
            hook.leave_entry(why, HookMode::Entry);
        }
    }
}

/// Turns the hooks `indices`, all in `link`, from slots to entries where that is proved safe.
fn consider_entries(
    target: &Target,
    maps: &[Mapping<'_>],
    link: &Link,
    mut indices: Vec<usize>,
    hooks: &mut [PlannedHook],
    mode: HookMode,
) {
    let mapping = mapping_of(maps, link);
    let build =
        mapping.and_then(|mapping| Build::of((&target.process, &target.memory), maps, mapping));
    let file = LazyCell::new(|| {
        let mapping = mapping.ok_or_else(|| "its module is not mapped from a file".to_owned())?;
        file::read_module(&target.process, mapping)
            .map_err(|e| format!("its module's file cannot be read ({})", e.desc()))
    });
    let read = || file.as_ref().map(Vec::as_slice).map_err(Clone::clone);
    // What is left out may be called by others after all: then it is they who are judged anew.
    let analysis = loop {
        let analysis = match analyse(build.as_ref(), link, &indices, hooks, read) {
            Ok(analysis) => analysis,
            Err(why) => {
                for &i in &indices {
                    hooks[i].leave_entry(why.clone(), mode);
                }
                return;
            }
        };
        let judged = |&i: &usize| analysis.entry(link.bias().unplace(hooks[i].at));
        let keeps = |i: &usize| {
            let refused = judged(i).filter(|e| matches!(e.plan, Err(Refusal::KeepsFlags(_))));
            let is_possible = |entry: &Entry| hooks[*i].may_keep_flags(entry.calls.is_some());
            !hooks[*i].keeps_flags && refused.is_some_and(is_possible)
        };
        let keeping: Vec<usize> = indices.iter().copied().filter(keeps).collect();
        if !keeping.is_empty() {
            keeping.iter().for_each(|&i| hooks[i].keeps_flags = true);
            continue;
        }
        let before = indices.len();
        let way = |&i: &usize| Some((i, left_out(&analysis, link.bias(), i, hooks)?));
        let left: HashMap<usize, Way> = indices.iter().filter_map(way).collect();
        indices.retain(|i| !left.contains_key(i));
        for (i, way) in left {
            hooks[i].way = way;
        }
        if indices.len() == before {
            break analysis;
        }
    };
    for i in indices {
        match entry_parts(link, &analysis, hooks[i].at).map(Box::new) {
            Ok(parts) => match differs_from_file(target, maps, &parts) {
                None => hooks[i].way = Way::Entry(parts),
                Some(why) => {
                    hooks[i].leave_entry(why, mode);
                    hooks[i].patched = Some(parts);
                }
            },
            Err(why) => hooks[i].leave_entry(why, mode),
        }
    }
}

fn analyse<'f>(
    build: Option<&Build>,
    link: &Link,
    indices: &[usize],
    hooks: &[PlannedHook],
    read: impl FnOnce() -> Result<&'f [u8], String>,
) -> Result<Arc<Analysis>, String> {
    let hooked = |&i: &usize| Hooked {
        name: hooks[i].name(),
        address: link.bias().unplace(hooks[i].at),
        size: hooks[i].size,
        family: hooks[i].function().family,
        keeps_flags: hooks[i].keeps_flags || hooks[i].kind().0 == HookKind::Chosen,
    };
    let hooked: Vec<Hooked<'_>> = indices.iter().map(hooked).collect();
    let role = if link.is_executable() { Role::Executable } else { Role::Library };
    analysed(build, role, &hooked, read)
}

/// What it takes to patch the entry of the function at `at`, or why that cannot be.
fn entry_parts(
    link: &Link,
    analysis: &Arc<Analysis>,
    at: RemoteAddr,
) -> Result<EntryParts, String> {
    let bias = link.bias();
    let entry = analysis.entry(bias.unplace(at)).ok_or("it is not in its module's file")?;
    let plan = entry.plan.clone().map_err(|refusal| refusal.to_string())?;
    Ok(EntryParts { plan, analysis: Arc::clone(analysis), bias })
}

/// Another tool's patch must be left alone.
pub fn differs_from_file(
    target: &Target,
    maps: &[Mapping<'_>],
    parts: &EntryParts,
) -> Option<String> {
    let window = parts.plan.window_at(parts.bias).start;
    let text = |at| maps::covering(maps, at).is_some_and(|m| m.executable && m.inode != 0);
    let is = |at, bytes: &[u8]| {
        target.memory.read_vec(at, bytes.len()).is_ok_and(|found| found == bytes)
    };
    if !text(window) || !is(window, parts.plan.window_bytes()) {
        let why = "its first bytes differ from its file's: a uprobe, a debugger or another tool \
                   is there";
        return Some(why.to_owned());
    }
    let mut bypasses = parts.analysis.bypasses(|a| a == parts.plan.entry());
    let changed = bypasses.find(|b| !is(b.field(parts.bias), &b.old))?;
    Some(format!("a branch to it at {} differs from its file's", parts.bias.place(changed.site)))
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

/// Whether the modules that define the hooked functions are still the ones looked at.
pub(crate) fn still_there(target: &Target, survey: &Survey, hooks: &[PlannedHook]) -> bool {
    let same = |link: &Link| {
        let loaded = survey.loaded.iter().find(|loaded| loaded.link == *link);
        loaded.is_some_and(|loaded| loaded.is_there(&target.memory))
    };
    let mut checked: Vec<&Link> = Vec::new();
    hooks.iter().all(|hook| {
        checked.contains(&&hook.definer) || {
            checked.push(&hook.definer);
            same(&hook.definer)
        }
    })
}
