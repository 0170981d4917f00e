//! Whether a module calls a function of its own without a slot: then slots do not see those calls.

use crate::{arch, hook::survey::mapping_of};
use heapattach_process::{addr::RemoteAddr, linker::Link, memory::Memory, proc::maps::Mapping};

/// No module has more code than this, all mappings together.
const SEARCHED: u64 = 256 << 20;
const PIECE: usize = 1 << 20;

/// Whether code of the module of `link` leads to `function`, one of its own: by a call, a jump, or by
/// taking its address. Bytes that only look like it may say so, too; they do once in very many modules,
/// and then a doubt is told for nothing.
pub(super) fn leads_to(
    memory: &Memory,
    maps: &[Mapping<'_>],
    link: &Link,
    function: RemoteAddr,
) -> bool {
    let Some(own) = mapping_of(maps, link) else { return false };
    let is_code = |m: &&Mapping<'_>| (m.inode, m.device) == (own.inode, own.device) && m.executable;
    let mut left = SEARCHED;
    let mut bytes = vec![0; PIECE + arch::LONGEST_LEAD];
    for mapping in maps.iter().filter(is_code) {
        let length = mapping.range.end.offset_from(mapping.range.start).unwrap_or(0).min(left);
        left -= length;
        let mut at = 0;
        while at < length {
            let most = usize::try_from(length - at).unwrap_or(PIECE).min(bytes.len());
            let start = mapping.range.start.offset(at);
            let Ok(read) = memory.read_some(start, &mut bytes[..most]) else { break };
            if arch::leads_to(&bytes[..read], start.get(), function.get()) {
                return true;
            }
            at += PIECE as u64;
        }
    }
    false
}
