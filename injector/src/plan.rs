//! Which functions are hooked, and how: decided while the target runs, carried out while it is
//! stopped. `doctor` prints what is decided here, so that attach does what doctor said.

use std::{collections::HashMap, rc::Rc};

use crate::{
    addr::{Bias, RemoteAddr},
    entry::{self, Analysis, EntryPlan, Family, Hooked, Role},
    functions::{FUNCTIONS, FunctionId},
    linker::Link,
    proc::{
        file,
        maps::{self, Mapping},
    },
    survey::{Survey, mapping_of},
    target::Target,
};

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
    /// Not at all, and why.
    Not {
        /// The reason.
        why: String,
    },
}

impl Way {
    /// What is left if the entry cannot be patched.
    pub fn without_entry(why: String, mode: HookMode) -> Self {
        if mode == HookMode::Entry { Self::Not { why } } else { Self::Slots { why } }
    }
}

/// What patching an entry takes.
#[derive(Clone, Debug)]
pub struct EntryParts {
    /// The entry.
    pub plan: EntryPlan,
    /// What was found out about its whole module: which branches must lead past the hook depends
    /// on which entries are patched in the end.
    pub analysis: Rc<Analysis>,
    /// Where the loader put the module.
    pub bias: Bias,
}

/// One distinct function.
#[derive(Clone, Debug)]
pub struct PlannedHook {
    /// Where it begins.
    pub at: RemoteAddr,
    /// The names it goes by.
    pub names: Vec<FunctionId>,
    /// The module it is in.
    pub definer: Link,
    /// How it is hooked.
    pub way: Way,
}

impl PlannedHook {
    /// Its best-known name.
    pub fn name(&self) -> &'static str {
        self.names.first().map_or("?", |&id| FUNCTIONS[id].name)
    }
}

/// Decides about every function that the modules of `survey` are bound to, or would be, but for
/// those that are `known`.
pub fn plan(
    target: &Target,
    survey: &Survey,
    maps: &[Mapping<'_>],
    Wishes { mode, pages }: Wishes,
    known: impl Fn(RemoteAddr) -> bool,
) -> Vec<PlannedHook> {
    let mut hooks = targets(target, survey);
    hooks.retain(|hook| !known(hook.at));
    hooks.retain(|hook| pages || hook.names.iter().any(|&id| FUNCTIONS[id].family == Family::Heap));
    if mode == HookMode::Slots {
        return hooks;
    }
    let mut by_module: HashMap<Link, Vec<usize>> = HashMap::new();
    for (index, hook) in hooks.iter().enumerate() {
        if matches!(hook.way, Way::Slots { .. }) {
            by_module.entry(hook.definer.clone()).or_default().push(index);
        }
    }
    for (link, indices) in by_module {
        consider_entries(target, maps, &link, &indices, &mut hooks);
    }
    if mode == HookMode::Entry {
        for hook in &mut hooks {
            if let Way::Slots { why } = &hook.way {
                hook.way = Way::Not { why: why.clone() };
            }
        }
    }
    hooks
}

/// Every distinct function that something is bound to, or would be.
fn targets(target: &Target, survey: &Survey) -> Vec<PlannedHook> {
    let mut wanted: Vec<(RemoteAddr, FunctionId)> = Vec::new();
    for function in 0..FUNCTIONS.len() {
        let firsts = survey.namespaces().filter_map(|n| survey.first_definition(function, n));
        wanted.extend(firsts.map(|at| (at, function)));
    }
    for loaded in &survey.loaded {
        for slot in &loaded.module.slots {
            let Ok(value) = target.memory.word(slot.at) else { continue };
            let value = RemoteAddr::new(value);
            if survey.definitions(slot.function).any(|(_, d)| d.at == value) {
                wanted.push((value, slot.function));
            }
        }
    }
    let mut hooks: Vec<PlannedHook> = Vec::new();
    for (at, function) in wanted {
        if let Some(hook) = hooks.iter_mut().find(|h| h.at == at) {
            if !hook.names.contains(&function) {
                hook.names.push(function);
            }
            continue;
        }
        let Some((index, definition)) = survey.definitions(function).find(|(_, d)| d.at == at)
        else {
            continue;
        };
        let why = "the loader chooses it at run time (IFUNC)".to_owned();
        let way =
            if definition.indirect { Way::Not { why } } else { Way::Slots { why: String::new() } };
        let definer = survey.loaded[index].link.clone();
        hooks.push(PlannedHook { at, names: vec![function], definer, way });
    }
    hooks
}

/// Turns the hooks `indices`, all in `link`, from slots to entries where that is proved safe.
fn consider_entries(
    target: &Target,
    maps: &[Mapping<'_>],
    link: &Link,
    indices: &[usize],
    hooks: &mut [PlannedHook],
) {
    let bias = link.bias();
    let hooked: Vec<Hooked<'_>> = indices
        .iter()
        .map(|&i| Hooked {
            name: hooks[i].name(),
            address: bias.unplace(hooks[i].at),
            family: FUNCTIONS[hooks[i].names[0]].family,
        })
        .collect();
    let role = if link.is_executable() { Role::Executable } else { Role::Library };
    let mapping = mapping_of(maps, link);
    let analysis = mapping
        .ok_or_else(|| "its module is not mapped from a file".to_owned())
        .and_then(|m| {
            file::read_module(&target.process, m)
                .map_err(|e| format!("its module's file cannot be read ({})", e.desc()))
        })
        .and_then(|bytes| entry::analyse(&bytes, &hooked, role).map_err(|e| e.to_string()));
    let analysis = match analysis {
        Ok(analysis) => Rc::new(analysis),
        Err(why) => {
            for &i in indices {
                hooks[i].way = Way::Slots { why: why.clone() };
            }
            return;
        }
    };
    for &i in indices {
        let address = bias.unplace(hooks[i].at);
        let way = match analysis.entry(address).map(|entry| &entry.plan) {
            None => Err("it is not in its module's file".to_owned()),
            Some(Err(refusal)) => Err(refusal.to_string()),
            Some(Ok(plan)) => {
                let parts = EntryParts { plan: plan.clone(), analysis: Rc::clone(&analysis), bias };
                differs_from_file(target, maps, &parts).map_or_else(|| Ok(parts), Err)
            }
        };
        hooks[i].way = match way {
            Ok(parts) => Way::Entry(Box::new(parts)),
            Err(why) => Way::Slots { why },
        };
    }
}

/// Somebody else's patch must be left alone.
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
