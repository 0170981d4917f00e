//! Whether a module is still the one that it was: a number that another file at its place would not have.

use nix::errno::Errno;

use heapattach_process::{addr::RemoteAddr, linker::dynamic_entries, memory::Memory};

/// A hash of the dynamic section but for the word the loader keeps changing (FNV-1a).
pub(super) fn identity(entries: &[(u64, u64)]) -> u64 {
    const DT_DEBUG: u64 = goblin::elf::dynamic::DT_DEBUG;
    let words = entries.iter().filter(|(tag, _)| *tag != DT_DEBUG).flat_map(|e| [e.0, e.1]);
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x100_0000_01b3))
}

/// The identity of the module at `link`, as [`Module::identity`](super::Module::identity), without reading its tables.
///
/// # Errors
/// When it is gone.
pub fn identity_at(memory: &Memory, dynamic: RemoteAddr) -> Result<u64, Errno> {
    dynamic_entries(memory, dynamic).map(|entries| identity(&entries))
}
