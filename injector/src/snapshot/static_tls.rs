//! How much memory below each thread pointer is thread-local variables of the modules: what their program
//! headers say. Those are read once, when a module has just come. Later their pages may have been dropped,
//! and a disk that gives nothing would keep a target that is stopped.

use std::collections::HashMap;

use heapattach_process::{
    addr::RemoteAddr,
    linker::Link,
    little_endian::{u32_at, u64_at},
    memory::Memory,
    proc::Process,
    told_loader,
};

const PT_TLS: u32 = goblin::elf::program_header::PT_TLS;
const HEADER_BYTES: u64 = 56;
const HEADER_LIMIT: u64 = 512;
/// Thread-local variables of all modules together, at most.
const LIMIT: u64 = 1 << 20;

/// By module; the executable is the one that lies where the kernel says.
#[derive(Clone, Debug, Default)]
pub struct StaticTls {
    own: Option<u64>,
    of: HashMap<u64, u64>,
}

impl StaticTls {
    /// Reads the headers of modules that were not there before.
    pub fn follow(&mut self, process: &Process, memory: &Memory, links: &[Link]) {
        if self.own.is_none() {
            let auxv = told_loader::auxv(process).ok();
            let headers = auxv.and_then(|auxv| Some((auxv.phdr?, auxv.phnum)));
            self.own = Some(headers.and_then(|headers| bytes(memory, headers)).unwrap_or(0));
        }
        let libraries = || links.iter().filter(|link| !link.is_executable());
        self.of.retain(|base, _| libraries().any(|link| link.base == *base));
        for link in libraries() {
            self.of.entry(link.base).or_insert_with(|| {
                let headers = headers(memory, RemoteAddr::new(link.base));
                headers.and_then(|headers| bytes(memory, headers)).unwrap_or(0)
            });
        }
    }

    /// The most that they take: all modules have theirs there, but for those that came too late.
    pub fn bytes(&self) -> u64 {
        let all = self.of.values().copied().chain(self.own);
        let sum = all.fold(0, u64::saturating_add);
        sum.min(LIMIT).next_multiple_of(64)
    }
}

/// Where the program headers of a module are, and how many.
fn headers(memory: &Memory, base: RemoteAddr) -> Option<(RemoteAddr, u64)> {
    let header = memory.read_vec(base, 64).ok().filter(|h| h.starts_with(b"\x7fELF"))?;
    let count = u64::from(u16::from_le_bytes(*header.get(56..)?.first_chunk()?));
    Some((base.checked_add(u64_at(&header, 32)?)?, count))
}

/// What they say of thread-local variables.
fn bytes(memory: &Memory, (at, count): (RemoteAddr, u64)) -> Option<u64> {
    let length = usize::try_from(count.min(HEADER_LIMIT) * HEADER_BYTES).ok()?;
    let headers = memory.read_vec(at, length).ok()?;
    let (headers, _) = headers.as_chunks::<56>();
    let header = headers.iter().find(|header| u32_at(*header, 0) == Some(PT_TLS))?;
    let align = u64_at(header, 48)?.clamp(1, 1 << 16);
    u64_at(header, 40)?.min(LIMIT).checked_next_multiple_of(align)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_this_process_have_thread_local_variables() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let memory = Memory::open(&process).unwrap();
        let mut tls = StaticTls::default();
        tls.follow(&process, &memory, &[]);
        let own = tls.bytes();
        assert!(own > 0 && own <= LIMIT && own.is_multiple_of(64), "{own}");
        // A module that is none has none.
        let nothing = Link {
            base: 0x1000,
            dynamic: RemoteAddr::new(0),
            name: Vec::new(),
            namespace: 1,
            first: false,
        };
        tls.follow(&process, &memory, &[nothing]);
        assert_eq!(tls.bytes(), own);
    }
}
