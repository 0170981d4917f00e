//! A `syscall` instruction that every process has, in code that no tool patches.

use nix::errno::Errno;

use crate::arch;
use crate::trace::target::Target;
use heapattach_process::{
    addr::RemoteAddr,
    proc::maps::{self, Mapping},
};

const TEXT_LIMIT: u64 = 64 << 10;

/// Where the target's vDSO has one.
///
/// # Errors
/// `ENOSYS` if there is no vDSO.
pub fn syscall_gadget(target: &Target) -> Result<RemoteAddr, Errno> {
    let text = target.process.read("maps")?;
    let maps = maps::parse(&text).map_err(|_| Errno::ENOSYS)?;
    gadget_in(target, &maps)
}

fn gadget_in(target: &Target, maps: &[Mapping<'_>]) -> Result<RemoteAddr, Errno> {
    let vdso = maps.iter().find(|m| m.label() == "[vdso]" && m.executable).ok_or(Errno::ENOSYS)?;
    let length = vdso.range.end.offset_from(vdso.range.start).unwrap_or(0).min(TEXT_LIMIT);
    let text = target.memory.read_vec(vdso.range.start, usize::try_from(length).unwrap_or(0))?;
    let at = arch::find_syscall(&text).ok_or(Errno::ENOSYS)?;
    Ok(vdso.range.start.offset(at as u64))
}
