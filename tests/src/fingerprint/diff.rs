//! What differs between two fingerprints, in sentences.
//!
//! Allowed differences are few and spelled out here: the one stub page, and lazy slots that were
//! bound to the very function they name.

use std::{collections::BTreeMap, fmt::Debug};

use super::{Fingerprint, Kind, Mapping, STUB_MAGIC, Slot};

/// How much of a process is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of it.
    Exact,
    /// All but private writable memory without a name: the process ran meanwhile.
    Loose,
}

/// One page; the stub is exactly that.
const PAGE: u64 = 4096;
/// How many changed bytes of one mapping are told one by one.
const TOLD: usize = 8;

/// Compares two fingerprints of a process that was paused for both.
pub fn diff(before: &Fingerprint, after: &Fingerprint) -> Vec<String> {
    diff_within(before, after, Scope::Exact)
}

/// Compares as much of two fingerprints as `scope` says. Empty means: no trace.
pub fn diff_within(before: &Fingerprint, after: &Fingerprint, scope: Scope) -> Vec<String> {
    let mut found = Vec::new();
    compare_maps(&mut found, before, after, scope);
    compare_bytes(&mut found, before, after);
    compare_slots(&mut found, before, after);
    compare(&mut found, "descriptor", &before.files, &after.files);
    compare(&mut found, "thread", &before.threads, &after.threads);
    compare(&mut found, "process", &before.process, &after.process);
    for (when, print) in [("before", before), ("after", after)] {
        let tracer = print.process.get("TracerPid").map_or("", String::as_str);
        if tracer != "0" {
            found.push(format!("{when}: traced by {tracer}"));
        }
    }
    found
}

impl Fingerprint {
    /// The pages that call themselves the stub.
    pub fn stub_pages(&self) -> Vec<&Mapping> {
        let is_stub = |mapping: &&Mapping| {
            let nameless = mapping.path.is_empty() || mapping.path.starts_with("[anon:");
            let one_page = mapping.access == "r-xp" && mapping.end - mapping.start == PAGE;
            let bytes = self.bytes.get(&mapping.start).map_or(&[][..], Vec::as_slice);
            nameless && one_page && bytes.starts_with(STUB_MAGIC)
        };
        self.maps.values().filter(is_stub).collect()
    }
}

fn compare_maps(found: &mut Vec<String>, before: &Fingerprint, after: &Fingerprint, scope: Scope) {
    let (old_stubs, new_stubs) = (before.stub_pages(), after.stub_pages());
    if new_stubs.len() > 1 {
        let pages: Vec<_> = new_stubs.iter().map(|m| m.describe()).collect();
        found.push(format!("more than one stub page: {}", pages.join(", ")));
    }
    for stub in &old_stubs {
        if !new_stubs.contains(stub) {
            found.push(format!("the stub page is gone: {}", stub.describe()));
        }
    }
    let told = |mapping: &Mapping, stubs: &[&Mapping]| {
        let passing = scope == Scope::Loose && mapping.is_working_memory();
        !passing && !stubs.contains(&mapping)
    };
    for (start, old) in &before.maps {
        let new = after.maps.get(start);
        // A mapping that is to be reported now is reported, even if it was not before.
        if new == Some(old) || !told(old, &old_stubs) && new.is_none_or(|m| !told(m, &new_stubs)) {
            continue;
        }
        let became = new.map_or("is gone".to_owned(), |m| format!("became {}", m.describe()));
        found.push(format!("mapping {} {became}", old.describe()));
    }
    for (start, new) in &after.maps {
        if !before.maps.contains_key(start) && told(new, &new_stubs) {
            found.push(format!("mapping {} is new", new.describe()));
        }
    }
}

fn compare_bytes(found: &mut Vec<String>, before: &Fingerprint, after: &Fingerprint) {
    let stubs = after.stub_pages();
    for (start, old) in &before.bytes {
        // A mapping that is no longer the same has been told already.
        let Some(new) = after.bytes.get(start).filter(|new| new.len() == old.len()) else {
            continue;
        };
        if stubs.iter().any(|stub| stub.start == *start) {
            continue;
        }
        let path = before.maps.get(start).map_or("", |mapping| mapping.path.as_str());
        let changed = old.iter().zip(new).enumerate().filter(|(_, (a, b))| a != b);
        let changed: Vec<_> = changed.collect();
        for &(offset, (a, b)) in changed.iter().take(TOLD) {
            let address = start + offset as u64;
            found.push(format!("byte {address:x} ({path}) was {a:02x}, is {b:02x}"));
        }
        if changed.len() > TOLD {
            found.push(format!("... and {} more bytes of {path}", changed.len() - TOLD));
        }
    }
}

fn compare_slots(found: &mut Vec<String>, before: &Fingerprint, after: &Fingerprint) {
    for (address, old) in &before.slots {
        // Slots go with their module, and that its mappings are gone has been told.
        let Some(new) = after.slots.get(address).filter(|new| new.module == old.module) else {
            continue;
        };
        if old.value != new.value && !was_bound(before, after, old, new) {
            let Slot { module, symbol, kind, .. } = old;
            let (was, is) = (show(old.value), show(new.value));
            let place = format!("{address:x} ({kind:?} {symbol} of {module})");
            found.push(format!("slot {place} was {was}, is {is}"));
        }
    }
}

/// Whether the dynamic linker did this: the slot led to its own module's PLT and now leads to the
/// function of that name.
fn was_bound(before: &Fingerprint, after: &Fingerprint, old: &Slot, new: &Slot) -> bool {
    let (Some(from), Some(to)) = (old.value, new.value) else { return false };
    let own = before.modules.iter().filter(|m| m.path == old.module);
    let was_lazy = old.kind == Kind::JumpSlot && own.clone().any(|m| m.runs(from));
    was_lazy && after.modules.iter().any(|m| m.runs(to) && m.defines(&old.symbol, to))
}

fn show(value: Option<u64>) -> String {
    value.map_or_else(|| "unreadable".to_owned(), |v| format!("{v:x}"))
}

fn compare<K: Ord + Debug, V: PartialEq + Debug>(
    found: &mut Vec<String>,
    what: &str,
    before: &BTreeMap<K, V>,
    after: &BTreeMap<K, V>,
) {
    for (key, old) in before {
        match after.get(key) {
            Some(new) if new == old => (),
            Some(new) => found.push(format!("{what} {key:?} was {old:?}, is {new:?}")),
            None => found.push(format!("{what} {key:?} is gone; it was {old:?}")),
        }
    }
    for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(key)) {
        found.push(format!("{what} {key:?} is new: {new:?}"));
    }
}
