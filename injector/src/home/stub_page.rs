//! The one page that may stay in the target: slots are led to it, and a slot's value may have been
//! copied into the program's own data (curl, gnutls and libsystemd keep such pointers), so no one
//! can prove that it is not used. After detach each stub is one jump to the function itself.
//!
//! A session that hooks by entries alone has no stub page and leaves nothing, unless the program refers to
//! functions of LeakSanitizer that nothing defines: what stands in for them is in this page, too
//! (`hook::stand_ins`).

use nix::errno::Errno;

use crate::{
    arch::{self, LsanWord},
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
/// Behind the stubs: what stands in for functions of LeakSanitizer.
const FUNCTIONS: usize = 4096 - 640;
const ORIGINAL: usize = 16;
/// How many fit.
const ROOM: usize = (FUNCTIONS - HEAD) / STUB;

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
        let stubs = page.get(HEAD..FUNCTIONS).unwrap_or_default().chunks_exact(STUB);
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

    /// Leads every stub to its function; what stands in for others returns at once.
    ///
    /// # Errors
    /// When the target cannot be written.
    pub fn lead_home(&self, memory: &Memory) -> Result<(), Errno> {
        if self.provides(memory) {
            self.watch(memory, 0)?;
        }
        self.originals.iter().try_for_each(|&original| self.lead(memory, original, original))
    }

    /// Puts what stands in for functions of LeakSanitizer behind the stubs, unless it is there already; `called`
    /// are the functions that it calls.
    ///
    /// # Errors
    /// When the target cannot be written; `EEXIST` when something else is there.
    pub fn provide(&self, memory: &Memory, called: [RemoteAddr; 2]) -> Result<(), Errno> {
        if self.provides(memory) {
            return Ok(());
        }
        let at = self.at.offset(FUNCTIONS as u64);
        if memory.read_vec(at, 4096 - FUNCTIONS)?.iter().any(|&byte| byte != 0) {
            return Err(Errno::EEXIST);
        }
        let mut bytes = arch::lsan_code().to_vec();
        for (word, function) in [LsanWord::Unmap, LsanWord::Errno].into_iter().zip(called) {
            let word = word as usize;
            let cell = bytes.get_mut(word..word + 8).ok_or(Errno::EINVAL)?;
            cell.copy_from_slice(&function.get().to_le_bytes());
        }
        memory.write(at, &bytes)
    }

    /// Whether it has them.
    pub fn provides(&self, memory: &Memory) -> bool {
        let code = arch::lsan_code();
        let first = arch::lsan_function_at(0);
        let there = memory.read_vec(self.at.offset(FUNCTIONS as u64), code.len());
        there.is_ok_and(|there| there.get(first..) == code.get(first..))
    }

    /// Where the function of this number is.
    pub fn function(&self, number: usize) -> RemoteAddr {
        self.at.offset((FUNCTIONS + arch::lsan_function_at(number)) as u64)
    }

    /// Tells them whether a session watches.
    ///
    /// # Errors
    /// When the target cannot be written.
    pub fn watch(&self, memory: &Memory, word: u64) -> Result<(), Errno> {
        memory.write_word(self.at.offset((FUNCTIONS + LsanWord::Watch as usize) as u64), word)
    }

    /// Lets the threads go on that wait for a check.
    ///
    /// # Errors
    /// When the target cannot be written.
    pub fn answer(&self, memory: &Memory, number: u32, is_leaked: bool) -> Result<(), Errno> {
        let at = |word: LsanWord| self.at.offset((FUNCTIONS + word as usize) as u64);
        memory.write(at(LsanWord::Leaked), &u32::from(is_leaked).to_le_bytes())?;
        memory.write(at(LsanWord::Answered), &number.to_le_bytes())
    }

    fn stub(&self, index: usize) -> RemoteAddr {
        self.at.offset((HEAD + index * STUB) as u64)
    }
}
