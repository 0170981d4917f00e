//! The modules of the target, as its dynamic loader lists them: found by `DT_DEBUG`, never by a
//! symbol, and read while the target runs. Lists are walked with a bound; what they hold is
//! hostile until checked.

use std::collections::HashSet;

use nix::errno::Errno;

use crate::{
    addr::{Bias, ImageAddr, RemoteAddr},
    little_endian::{u32_at, u64_at},
    memory::Memory,
    proc::{
        auxv::Auxv,
        maps::{self, Mapping},
    },
};

/// No honest process has more.
const MODULE_LIMIT: usize = 1 << 14;
const NAMESPACE_LIMIT: usize = 64;
const HEADER_LIMIT: u64 = 512;
const NAME_LIMIT: usize = 4096;

pub(crate) const PT_DYNAMIC: u32 = goblin::elf::program_header::PT_DYNAMIC;
const PT_LOAD: u32 = goblin::elf::program_header::PT_LOAD;
pub(crate) const PT_INTERP: u32 = goblin::elf::program_header::PT_INTERP;
const PT_PHDR: u32 = goblin::elf::program_header::PT_PHDR;
const DT_DEBUG: u64 = goblin::elf::dynamic::DT_DEBUG;

/// One loaded module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// What the loader added to the file's addresses (`l_addr`).
    pub base: u64,
    /// Its dynamic section (`l_ld`).
    pub dynamic: RemoteAddr,
    /// The path the loader opened; empty for the executable.
    pub name: Vec<u8>,
    /// Which link namespace it is in; 0 is the program's own.
    pub namespace: usize,
    /// First in the list of its namespace.
    pub first: bool,
}

impl Link {
    /// The bias of its addresses.
    pub fn bias(&self) -> Bias {
        Bias::new(self.base)
    }

    /// Whether this is the executable.
    pub fn is_executable(&self) -> bool {
        self.first && self.namespace == 0
    }
}

/// Why there is no list of modules.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No interpreter: nothing is linked at run time.
    #[error("the program is statically linked")]
    Static,
    /// The kernel's words do not fit the memory.
    #[error("the program headers at {0} cannot be read")]
    Headers(RemoteAddr),
    /// The loader has not come so far.
    #[error("the dynamic loader has not published its list of modules yet")]
    TooEarly,
    /// The list leads outside of memory.
    #[error("the loader's list of modules cannot be read")]
    List(#[source] Errno),
}

/// Where the loader keeps its lists (`struct r_debug`).
#[derive(Clone, Copy, Debug)]
pub struct Rendezvous(RemoteAddr);

impl Rendezvous {
    /// The address of the record, found by the starter of the program.
    pub fn at(address: RemoteAddr) -> Self {
        Self(address)
    }

    /// Finds it through the executable's program headers and `DT_DEBUG`.
    ///
    /// # Errors
    /// For static programs, and too early in the life of a dynamic one.
    pub fn find(memory: &Memory, auxv: &Auxv, maps: &[Mapping<'_>]) -> Result<Self, LinkError> {
        let headers = Headers::read(memory, auxv, maps)?;
        let dynamic = headers.address(PT_DYNAMIC).ok_or(LinkError::Static)?;
        let at = headers.bias.place(dynamic);
        let entries = dynamic_entries(memory, at).map_err(LinkError::List)?;
        let debug = entries.iter().find(|(tag, _)| *tag == DT_DEBUG).map(|(_, value)| *value);
        match debug {
            // One that moves itself makes its list on its own, when it has done so.
            Some(0) if headers.address(PT_INTERP).is_none() => Err(LinkError::Static),
            Some(0) => Err(LinkError::TooEarly),
            Some(address) => Ok(Self(RemoteAddr::new(address))),
            // A loader that was told to run a program, and has not loaded it yet.
            None if headers.address(PT_INTERP).is_none() && auxv.interpreter.is_some() => {
                Err(LinkError::TooEarly)
            }
            None => Err(LinkError::Static),
        }
    }

    /// Whether no list is being changed just now. It says nothing of relocation.
    pub fn is_consistent(self, memory: &Memory) -> bool {
        const STATE: u64 = 24;
        memory.word(self.0.offset(STATE)).is_ok_and(|word| word & 0xffff_ffff == 0)
    }

    /// Every module of every namespace.
    ///
    /// # Errors
    /// When a list leads outside of memory (it may be changing; ask again).
    pub fn modules(self, memory: &Memory) -> Result<Vec<Link>, LinkError> {
        self.modules_given(memory, None)
    }

    /// The same, without reading again what the program's file calls its loader.
    ///
    /// # Errors
    /// As [`Rendezvous::modules`].
    pub fn modules_given(
        self,
        memory: &Memory,
        loader: Option<&LoaderName>,
    ) -> Result<Vec<Link>, LinkError> {
        let mut links = Vec::new();
        let mut record = self.0;
        for namespace in 0..NAMESPACE_LIMIT {
            // r_version, r_map, r_brk, r_state, r_ldbase, and from version 2 on r_next.
            let version = memory.word(record).map_err(LinkError::List)? & 0xffff_ffff;
            let head = memory.word(record.offset(8)).map_err(LinkError::List)?;
            walk(memory, loader, RemoteAddr::new(head), namespace, &mut links)?;
            if version < 2 {
                break;
            }
            match memory.word(record.offset(40)) {
                Ok(next) if next != 0 => record = RemoteAddr::new(next),
                _ => break,
            }
        }
        if links.is_empty() { Err(LinkError::TooEarly) } else { Ok(links) }
    }

    /// The address.
    pub fn address(self) -> RemoteAddr {
        self.0
    }

    /// The word of the program's own list that will lead to what is loaded next; 0 for now.
    pub fn end(self, memory: &Memory) -> Option<RemoteAddr> {
        let mut at = memory.word(self.0.offset(8)).ok()?;
        for _ in 0..MODULE_LIMIT {
            let next = RemoteAddr::new(at).checked_add(24)?;
            at = memory.word(next).ok()?;
            if at == 0 {
                return Some(next);
            }
        }
        None
    }

    /// Where the loader keeps what it knows of the module at `base`, in the program's own list:
    /// what `dlopen` answers, with glibc and musl.
    pub fn entry_at(self, memory: &Memory, base: RemoteAddr) -> Option<RemoteAddr> {
        let mut at = memory.word(self.0.offset(8)).ok()?;
        for _ in 0..MODULE_LIMIT {
            let entry = RemoteAddr::new(at);
            if at == 0 || memory.word(entry).ok()? == base.get() {
                return (at != 0).then_some(entry);
            }
            at = memory.word(entry.checked_add(24)?).ok()?;
        }
        None
    }
}

/// What the program's file calls its loader (`PT_INTERP`). glibc's loader lists itself by these bytes,
/// which lie in a page of the file: the kernel may drop such a page from memory at any time, and to read
/// it again takes as long as the disk takes. They never change, so they are read once.
#[derive(Clone, Debug)]
pub struct LoaderName {
    at: RemoteAddr,
    name: Vec<u8>,
}

impl LoaderName {
    /// Reads it; `None` if the program names no loader.
    pub fn read(memory: &Memory, auxv: &Auxv, maps: &[Mapping<'_>]) -> Option<Self> {
        let headers = Headers::read(memory, auxv, maps).ok()?;
        let at = headers.bias.place(headers.address(PT_INTERP)?);
        Some(Self { at, name: memory.string(at, NAME_LIMIT).ok()? })
    }
}

/// The program headers of the executable.
pub(crate) struct Headers {
    at: RemoteAddr,
    bytes: Vec<u8>,
    pub(crate) bias: Bias,
}

impl Headers {
    pub(crate) fn read(
        memory: &Memory,
        auxv: &Auxv,
        maps: &[Mapping<'_>],
    ) -> Result<Self, LinkError> {
        let at = auxv.phdr.ok_or(LinkError::Static)?;
        let length = auxv.phnum.min(HEADER_LIMIT) * 56;
        let length = usize::try_from(length).unwrap_or(0);
        let bytes = memory.read_vec(at, length).map_err(|_| LinkError::Headers(at))?;
        let mut headers = Self { at, bytes, bias: Bias::default() };
        let base = match headers.address(PT_PHDR) {
            Some(stated) => at.get().wrapping_sub(stated.get()),
            // Without PT_PHDR: the headers lie in the first page of the file.
            None => {
                let start = maps::covering(maps, at).map_or(0, |m| m.range.start.get());
                let first = headers.address(PT_LOAD).map_or(0, ImageAddr::get);
                start.wrapping_sub(first & !0xfff)
            }
        };
        headers.bias = Bias::new(base);
        Ok(headers)
    }

    /// What the first header of this kind says where its part lies.
    pub(crate) fn address(&self, kind: u32) -> Option<ImageAddr> {
        let header = self.bytes.chunks_exact(56).find(|h| u32_at(h, 0) == Some(kind))?;
        u64_at(header, 16).map(ImageAddr::new)
    }
}

/// A program that no loader has to do with, as if one had listed it. In place of a dynamic section
/// stand its program headers: they tell it from another at the same place just as well.
///
/// # Errors
/// When the kernel's words do not fit the memory.
pub fn static_program(
    memory: &Memory,
    auxv: &Auxv,
    maps: &[Mapping<'_>],
) -> Result<Link, LinkError> {
    let headers = Headers::read(memory, auxv, maps)?;
    let base = headers.bias.get();
    Ok(Link { base, dynamic: headers.at, name: Vec::new(), namespace: 0, first: true })
}

/// The dynamic loader itself, before it has listed anything: found where the kernel put it.
pub fn interpreter(memory: &Memory, base: RemoteAddr) -> Option<Link> {
    let header = memory.read_vec(base, 64).ok()?;
    let headers_at = base.checked_add(u64_at(&header, 32)?)?;
    let count =
        u64::from(u16::from_le_bytes([*header.get(56)?, *header.get(57)?])).min(HEADER_LIMIT);
    let headers = memory.read_vec(headers_at, usize::try_from(count * 56).ok()?).ok()?;
    let dynamic = headers.chunks_exact(56).find(|h| u32_at(h, 0) == Some(PT_DYNAMIC))?;
    let dynamic = base.checked_add(u64_at(dynamic, 16)?)?;
    Some(Link { base: base.get(), dynamic, name: Vec::new(), namespace: 0, first: false })
}

fn walk(
    memory: &Memory,
    loader: Option<&LoaderName>,
    head: RemoteAddr,
    namespace: usize,
    links: &mut Vec<Link>,
) -> Result<(), LinkError> {
    let (mut at, mut first) = (head, true);
    let (mut visited, mut listed) = (HashSet::new(), HashSet::new());
    while at.get() != 0 && links.len() < MODULE_LIMIT {
        // It bites its tail: it is being changed, or it is a lie.
        if !visited.insert(at) {
            return Err(LinkError::List(Errno::ELOOP));
        }
        // l_addr, l_name, l_ld, l_next.
        let mut entry = [0; 32];
        memory.read(at, &mut entry).map_err(LinkError::List)?;
        let field = |i| u64_at(&entry, i).unwrap_or(0);
        let name = RemoteAddr::new(field(8));
        let name = match loader.filter(|loader| loader.at == name) {
            Some(loader) => loader.name.clone(),
            None => memory.string(name, NAME_LIMIT).unwrap_or_default(),
        };
        let dynamic = RemoteAddr::new(field(16));
        // A module is in a list once: to look at the same one thousands of times would take hours.
        if dynamic.get() != 0 && !listed.insert(dynamic) {
            return Err(LinkError::List(Errno::ELOOP));
        }
        links.push(Link { base: field(0), dynamic, name, namespace, first });
        at = RemoteAddr::new(field(24));
        first = false;
    }
    Ok(())
}

/// The entries of a dynamic section: tag and value.
///
/// # Errors
/// When its first page cannot be read.
pub fn dynamic_entries(memory: &Memory, at: RemoteAddr) -> Result<Vec<(u64, u64)>, Errno> {
    let mut bytes = vec![0; 16 * 512];
    let read = memory.read_some(at, &mut bytes)?;
    let pairs = bytes[..read].chunks_exact(16).map(|pair| (u64_at(pair, 0), u64_at(pair, 8)));
    Ok(pairs.map_while(|(tag, value)| Some((tag.filter(|t| *t != 0)?, value?))).collect())
}
