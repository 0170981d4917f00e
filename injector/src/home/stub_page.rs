//! The one page that may stay in the target: slots are led to it, and a slot's value may have been
//! copied into the program's own data (curl, gnutls and libsystemd keep such pointers), so no one
//! can prove that it is not used. After detach each stub is one jump to the function itself.
//!
//! A session that hooks by entries alone has no stub page and leaves nothing.

use nix::errno::Errno;

use crate::{
    arch,
    home::{Home, find_marked},
};
use heapattach_process::{
    addr::RemoteAddr, little_endian::u64_at, memory::Memory, proc::maps::Mapping,
};

/// The first bytes of the page.
pub const MAGIC: [u8; 16] = *b"HEAPATTACHSTUB01";

const HEAD: usize = 32;
const STUB: usize = 32;
const CELL: u64 = 8;
const ORIGINAL: usize = 16;
/// How many fit.
const ROOM: usize = 127;

/// The page at its place, and which function each stub stands for.
#[derive(Clone, Debug)]
pub struct StubPage {
    at: RemoteAddr,
    originals: Vec<RemoteAddr>,
}

impl StubPage {
    /// A page that was just mapped.
    ///
    /// # Errors
    /// When the target cannot be written.
    pub fn create(memory: &Memory, at: RemoteAddr) -> Result<Self, Errno> {
        memory.write(at, &MAGIC)?;
        Ok(Self { at, originals: Vec::new() })
    }

    /// Reads the page at `at`.
    ///
    /// # Errors
    /// When it is none.
    pub fn open(memory: &Memory, at: RemoteAddr) -> Result<Self, Errno> {
        let page = memory.read_vec(at, 4096)?;
        let stubs = page.get(HEAD..).unwrap_or_default().chunks_exact(STUB);
        let original = |stub: &[u8]| u64_at(stub, ORIGINAL).filter(|&word| word != 0);
        let originals = stubs.map_while(original).map(RemoteAddr::new).collect();
        if page.starts_with(&MAGIC) { Ok(Self { at, originals }) } else { Err(Errno::EINVAL) }
    }

    /// The page that hooks in `home` are to use, if there is one already: of a former session, or
    /// its own.
    pub fn known(memory: &Memory, maps: &[Mapping<'_>], home: &Home) -> Option<Self> {
        let found = Self::find(memory, maps).into_iter().chain([home.stub_page()]);
        found.filter_map(|at| Self::open(memory, at).ok()).next()
    }

    /// Every such page in these mappings.
    pub fn find(memory: &Memory, maps: &[Mapping<'_>]) -> Vec<RemoteAddr> {
        find_marked(memory, maps, MAGIC)
    }

    /// Where it lies.
    pub fn at(&self) -> RemoteAddr {
        self.at
    }

    /// Which function the stub at `word` stands for.
    pub fn original_of(&self, word: u64) -> Option<RemoteAddr> {
        let offset = word.checked_sub(self.at.get() + HEAD as u64)?;
        let offset = usize::try_from(offset).ok()?;
        let index = offset / STUB;
        (offset % STUB == 0).then(|| self.originals.get(index).copied())?
    }

    /// The stub for `original`, made if there is none yet; it leads to the function itself until
    /// [`StubPage::lead`] says otherwise.
    ///
    /// # Errors
    /// `ENOSPC` when the page is full.
    pub fn stub_for(&mut self, memory: &Memory, original: RemoteAddr) -> Result<RemoteAddr, Errno> {
        if let Some(index) = self.originals.iter().position(|&o| o == original) {
            return Ok(self.stub(index));
        }
        if self.originals.len() == ROOM {
            return Err(Errno::ENOSPC);
        }
        let stub = self.stub(self.originals.len());
        let mut bytes = arch::STUB_JUMP.to_vec();
        // The cell, then the original.
        bytes.extend(original.get().to_le_bytes());
        bytes.extend(original.get().to_le_bytes());
        memory.write(stub, &bytes)?;
        self.originals.push(original);
        Ok(stub)
    }

    /// Leads the stub for `original` to `place`.
    ///
    /// # Errors
    /// When the target cannot be written.
    pub fn lead(
        &self,
        memory: &Memory,
        original: RemoteAddr,
        place: RemoteAddr,
    ) -> Result<(), Errno> {
        let index = self.originals.iter().position(|&o| o == original).ok_or(Errno::EINVAL)?;
        memory.write_word(self.stub(index).offset(CELL), place.get())
    }

    /// Leads every stub to its function.
    ///
    /// # Errors
    /// When the target cannot be written.
    pub fn lead_home(&self, memory: &Memory) -> Result<(), Errno> {
        self.originals.iter().try_for_each(|&original| self.lead(memory, original, original))
    }

    fn stub(&self, index: usize) -> RemoteAddr {
        self.at.offset((HEAD + index * STUB) as u64)
    }
}
