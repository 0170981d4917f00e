//! Where pages are watched.

use std::ops::Range;

use nix::errno::Errno;

use crate::proc::{
    Process,
    maps::{self, Mapping},
};

/// All of it, by a map that may change while it is read.
///
/// # Errors
/// When the map cannot be read.
pub fn watchable(process: &Process) -> Result<Vec<Range<u64>>, Errno> {
    let text = process.read("maps")?;
    let maps = maps::parse(&text).map_err(|_| Errno::EPROTO)?;
    let watched = maps.iter().filter(|mapping| is_watched(mapping));
    Ok(watched.map(|mapping| mapping.range.start.get()..mapping.range.end.get()).collect())
}

/// Private memory without a file, as blocks of an allocator lie in: stacks grow, and are no blocks.
fn is_watched(mapping: &Mapping<'_>) -> bool {
    let label = mapping.label();
    let is_private = !mapping.shared && mapping.inode == 0 && mapping.writable;
    is_private && (mapping.is_anonymous() || label == "[heap]")
}
