//! Slots: the words through which modules reach allocation functions. What a word may be changed
//! to follows from what it holds: compare first, write after.

use std::collections::HashMap;

use crate::module::{Slot, SlotKind};
use crate::{
    home::stub_page::StubPage,
    hook::survey::{Loaded, Survey},
    trace::target::Target,
};
use heapattach_entry::functions::FunctionRef;
use heapattach_process::{
    addr::RemoteAddr,
    proc::maps::{self, Mapping},
};

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The function at this address.
    To(RemoteAddr),
    /// Its PLT stub: the loader binds it at the first call, to this function.
    Lazy(RemoteAddr),
    /// The executable's PLT entry, which leads through the executable's own slot.
    Canonical,
    /// One of our stubs, for this function.
    Ours(RemoteAddr),
    /// Nothing yet: the loader has not come to it.
    Pending,
    /// Something else, which is left alone.
    Foreign(u64),
}

/// What `slot` of `loaded` holds just now.
pub fn binding(
    target: &Target,
    survey: &Survey,
    maps: &[Mapping<'_>],
    stubs: Option<&StubPage>,
    loaded: &Loaded,
    slot: &Slot,
) -> Binding {
    let Ok(word) = target.memory.word(slot.at) else { return Binding::Pending };
    let value = RemoteAddr::new(word);
    if let Some(original) = stubs.and_then(|stubs| stubs.original_of(word)) {
        return Binding::Ours(original);
    }
    if survey.definitions(slot.function).any(|(_, d)| d.at == value) {
        return Binding::To(value);
    }
    if survey.is_canonical(slot.function, value) {
        return Binding::Canonical;
    }
    if slot.kind == SlotKind::Plt && in_text_of(maps, loaded, value) {
        let namespace = loaded.link.namespace;
        return match survey.first_definition(slot.function, namespace) {
            Some(at) => Binding::Lazy(at),
            None => Binding::Foreign(word),
        };
    }
    let leads_nowhere = maps::covering(maps, value).is_none_or(|m| !m.executable);
    if leads_nowhere { Binding::Pending } else { Binding::Foreign(word) }
}

/// Whether `value` lies in code of the module's own file: its PLT.
fn in_text_of(maps: &[Mapping<'_>], loaded: &Loaded, value: RemoteAddr) -> bool {
    let own = maps::covering(maps, loaded.link.dynamic);
    let there = maps::covering(maps, value);
    own.zip(there).is_some_and(|(own, there)| {
        there.executable
            && there.inode != 0
            && there.inode == own.inode
            && there.label() == own.label()
    })
}

/// A slot that should lead to a stub and does not yet.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Index of its module in the survey.
    pub module: usize,
    /// The slot.
    pub slot: Slot,
    /// The function it leads to.
    pub function: RemoteAddr,
}

/// All slots of the survey, by what is to be done about them.
#[derive(Clone, Debug, Default)]
pub struct Sorted {
    /// To be led to a stub.
    pub wanted: Vec<Wanted>,
    /// Of modules that the loader is still working on.
    pub pending: usize,
    /// Slots left alone, counted by module and function.
    pub foreign: HashMap<(usize, FunctionRef), usize>,
}

/// Sorts the slots of every module; `by_slots` tells which functions are hooked that way.
pub fn sort(
    target: &Target,
    survey: &Survey,
    maps: &[Mapping<'_>],
    stubs: Option<&StubPage>,
    by_slots: impl Fn(RemoteAddr) -> bool,
) -> Sorted {
    let mut sorted = Sorted::default();
    for (module, loaded) in survey.loaded.iter().enumerate() {
        for &slot in &loaded.module.slots {
            match binding(target, survey, maps, stubs, loaded, &slot) {
                Binding::To(function) | Binding::Lazy(function) if by_slots(function) => {
                    sorted.wanted.push(Wanted { module, slot, function });
                }
                Binding::To(_) | Binding::Lazy(_) | Binding::Canonical | Binding::Ours(_) => {}
                Binding::Pending => sorted.pending += 1,
                Binding::Foreign(_) => {
                    *sorted.foreign.entry((module, slot.function)).or_default() += 1;
                }
            }
        }
    }
    sorted
}
