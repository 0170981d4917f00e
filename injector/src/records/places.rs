//! Which module an address of code belongs to, now or earlier in the session.

use std::{ops::Range, sync::Arc};

use heapattach_process::{addr::RemoteAddr, generations::Generation, proc::maps::Mapping};

/// No honest session sees more.
const PLACES_LIMIT: usize = 1 << 16;

/// The name of an address that no code was seen at.
pub const UNKNOWN: &str = "[unknown]";

/// Every piece of code seen, the latest first at each address.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Forked children see what their parent saw: they share it until they see more.
    seen: Arc<Vec<(Range<RemoteAddr>, String)>>,
}

impl Places {
    /// Notes what is mapped now.
    pub fn note(&mut self, maps: &[Mapping<'_>]) {
        for mapping in maps.iter().filter(|m| m.executable) {
            let label = mapping.label().to_string_lossy();
            let name = if label.is_empty() { "[anonymous]".into() } else { label };
            let known = self.seen.iter().any(|(range, n)| *range == mapping.range && *n == name);
            if !known && self.seen.len() < PLACES_LIMIT {
                let name = name.escape_debug().to_string();
                Arc::make_mut(&mut self.seen).push((mapping.range.clone(), name));
            }
        }
    }

    /// Notes code that comes and goes, where stacks have it.
    pub fn note_generation(&mut self, known: &Generation) {
        let name = known.path.escape_debug().to_string();
        let is_known = self.seen.iter().any(|(range, n)| *range == known.range() && *n == name);
        if !is_known && self.seen.len() < PLACES_LIMIT {
            Arc::make_mut(&mut self.seen).push((known.range(), name));
        }
    }

    /// Whose code is at `address`.
    pub fn name(&self, address: RemoteAddr) -> &str {
        let found = self.seen.iter().rev().find(|(range, _)| range.contains(&address));
        found.map_or(UNKNOWN, |(_, name)| name)
    }
}
