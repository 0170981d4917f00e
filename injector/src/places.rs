//! Which module an address of code belongs to, now or earlier in the session.

use std::ops::Range;

use crate::{addr::RemoteAddr, proc::maps::Mapping};

/// No honest session sees more.
const PLACES_LIMIT: usize = 1 << 16;

/// The name of an address that no code was seen at.
pub const UNKNOWN: &str = "[unknown]";

/// Every piece of code seen, the latest first at each address.
#[derive(Debug, Default)]
pub struct Places {
    seen: Vec<(Range<RemoteAddr>, String)>,
}

impl Places {
    /// Notes what is mapped now.
    pub fn note(&mut self, maps: &[Mapping<'_>]) {
        for mapping in maps.iter().filter(|m| m.executable) {
            let label = mapping.label().to_string_lossy();
            let name = if label.is_empty() { "[anonymous]".into() } else { label };
            let known = self.seen.iter().any(|(range, n)| *range == mapping.range && *n == name);
            if !known && self.seen.len() < PLACES_LIMIT {
                self.seen.push((mapping.range.clone(), name.escape_debug().to_string()));
            }
        }
    }

    /// Whose code is at `address`.
    pub fn name(&self, address: RemoteAddr) -> &str {
        let found = self.seen.iter().rev().find(|(range, _)| range.contains(&address));
        found.map_or(UNKNOWN, |(_, name)| name)
    }
}
