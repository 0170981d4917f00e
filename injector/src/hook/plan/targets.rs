//! The functions that come into question.

use super::{PlannedHook, Sizes, Way};
use crate::module::{find_symbol, sizer};
use crate::{hook::survey::Survey, trace::target::Target};
use heapattach_entry::{
    Family,
    functions::{self, FunctionRef},
    user_hooks::UserHooks,
};
use heapattach_process::{addr::RemoteAddr, linker::Link};

/// Every distinct function that something is bound to, or would be, or that only a file names.
pub(super) fn targets(target: &Target, survey: &Survey, asked: UserHooks) -> Vec<PlannedHook> {
    let mut wanted: Vec<(RemoteAddr, FunctionRef)> = Vec::new();
    // What the user says of a function counts.
    for function in asked.functions().iter().chain(functions::all()) {
        let firsts = survey.namespaces().filter_map(|n| survey.first_definition(function, n));
        let of_files = survey.definitions(function).filter(|(_, d)| !d.is_dynamic);
        wanted.extend(firsts.map(|at| (at, function)));
        wanted.extend(of_files.map(|(_, d)| (d.at, function)));
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
        let Some((index, definition)) = survey.definitions(function).find(|(_, d)| d.at == at)
        else {
            continue;
        };
        // C++'s own library has them too, and asks malloc.
        if function.is_operator && !is_allocator(survey, index) {
            continue;
        }
        if let Some(hook) = hooks.iter_mut().find(|h| h.at == at) {
            hook.is_dynamic |= definition.is_dynamic;
            if !hook.names.contains(&function) {
                hook.names.push(function);
            }
            continue;
        }
        let why = "the loader chooses it at run time (IFUNC)".to_owned();
        let way =
            if definition.indirect { Way::Not { why } } else { Way::Slots { why: String::new() } };
        hooks.push(PlannedHook {
            at,
            names: vec![function],
            definer: survey.loaded[index].link.clone(),
            size: definition.size,
            nothrow: nothrow_of(survey, index, function),
            is_dynamic: definition.is_dynamic,
            sizes: Sizes::Unknown,
            is_called_past: false,
            keeps_flags: false,
            way,
            patched: None,
        });
    }
    for hook in &mut hooks {
        hook.sizes = sizes(target, survey, hook);
    }
    hooks
}

fn sizes(target: &Target, survey: &Survey, hook: &PlannedHook) -> Sizes {
    if is_glibc(target, &hook.definer, hook.function()) {
        return Sizes::Head;
    }
    let loaded = survey.loaded.iter().find(|loaded| loaded.link == hook.definer);
    let sizer = loaded.and_then(|loaded| sizer::of(&loaded.module, &hook.names));
    sizer.map_or(Sizes::Unknown, Sizes::Asked)
}

/// Whether a function that the user has not named is the allocator of glibc: in a file of that name that
/// says so itself, as no other C library does.
fn is_glibc(target: &Target, link: &Link, function: FunctionRef) -> bool {
    let own = |name: &[u8]| find_symbol(&target.memory, link, name).is_ok_and(|at| at.is_some());
    !function.is_asked && link.name.ends_with(b"/libc.so.6") && own(b"gnu_get_libc_version")
}

/// The function of the same module that does as `function` does, but for throwing.
fn nothrow_of(survey: &Survey, module: usize, function: FunctionRef) -> Option<RemoteAddr> {
    let nothrow = functions::by_name(function.nothrow.as_ref()?.as_bytes())?;
    survey.definitions(nothrow).find(|(index, _)| *index == module).map(|(_, d)| d.at)
}

/// Whether the module defines a function of an allocator, and not only C++'s operators.
fn is_allocator(survey: &Survey, module: usize) -> bool {
    let defined = &survey.loaded[module].module.definitions;
    defined.iter().any(|d| d.function.family == Family::Heap && !d.function.is_operator)
}
