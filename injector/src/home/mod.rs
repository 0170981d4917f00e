//! Our home in the target: one reserved range that holds the payload's code and everything needed
//! to undo the session, so that the next heapattach after a killed one finds it by its first bytes
//! and cleans up. It is made by one call and unmapped by one, so nothing of it can be forgotten.
//!
//! ```text
//! +0       header: magic, session, who owns it, counts                       readable, executable,
//! +0x200   the instruction that injected calls are made at                   never writable: we
//! +0x1000  rescue frame: the borrowed thread as it was                       write it from outside
//! +0x5000  trampolines: the first instructions of patched functions
//! ...      what hears client requests
//! ...      the payload
//! ...      journal: modules, then changes, each noted before it is made
//! ...      the stub page, which may stay
//! ...      control page and index of threads                                 private, zero in forks
//! ...      rows, samples, stacks, rings                                      shared with us
//! ```

pub mod free_range;
pub mod payload_image;
pub mod session_lock;
pub mod stub_page;
pub mod vdso;

use std::ops::Range;

use heapattach_abi::{control::CONTROL_BYTES, index::PRIVATE_BYTES, row};
use nix::errno::Errno;

use crate::arch;
use heapattach_entry::TRAMPOLINE_MAX;
use heapattach_process::{
    addr::RemoteAddr, little_endian::u64_at, memory::Memory, proc::maps::Mapping,
};

mod journal;

pub use journal::{Change, ChangeKind, ModuleRecord};

/// The first bytes of a home.
pub const MAGIC: [u8; 16] = *b"HEAPATTACHHOME01";
/// Raised whenever the layout, or what tells that a session lives, changes: another heapattach must
/// not undo what it misreads.
const VERSION: u64 = 7;
/// The undo reads in the rows whether a thread is in our code.
const _: () = assert!(row::ROW_BYTES == 1920, "rows of another size are another version");

/// The page of the target; all offsets below are multiples of it.
pub const PAGE: u64 = 4096;

const GADGET: u64 = 0x200;
const WAY_BACK: u64 = 0x220;
const CLONE_GADGET: u64 = 0x240;
const NAME: u64 = 0x300;
/// What the shared memory is called in the target's map.
pub const SHARED_NAME: &[u8] = b"heapattach\0";
const FRAME: u64 = PAGE;
const TRAMPOLINES: u64 = FRAME + arch::RESCUE_FRAME_LIMIT;
const TRAMPOLINE_COUNT: u64 = heapattach_abi::kind::MAX_HOOKS as u64;
const REQUESTS: u64 = TRAMPOLINES + TRAMPOLINE_COUNT * TRAMPOLINE_MAX as u64;
/// Room for what hears client requests: common code, and a part for each.
pub const REQUEST_ROOM: u64 = 4 * PAGE;
const BODY: u64 = REQUESTS + REQUEST_ROOM;

const MODULE_BYTES: u64 = 24;
const CHANGE_BYTES: u64 = 40;

/// A home is never larger; the header of a hostile target may say otherwise.
const SIZE_LIMIT: u64 = 1 << 30;

/// A journal never has room for more modules, nor for more changes: each is looked at while the target
/// is stopped, and a hostile target may have written as many as it likes.
pub const MOST_MODULES: u64 = 1 << 16;
/// Nor for more changes than so many.
pub const MOST_CHANGES: u64 = 1 << 18;

/// More homes were never left in one process: each is undone in stops of its own.
pub const MOST_HOMES: usize = 8;

/// Pages that are looked at for marks in one process, at most; and so many are told of.
const PAGES_LIMIT: u64 = 1 << 18;
const MARKS_LIMIT: usize = 1 << 10;

/// What the header says, word by word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Random; children forked from the target bear it too.
    pub session: u64,
    /// The tracing process that made it.
    pub owner: u64,
    /// When that was started.
    pub owner_started: u64,
    /// Length of the home.
    pub length: u64,
    /// Address of the stub page that the session uses: its own, or one found; 0 for none.
    pub stubs: u64,
    /// 1 while a descriptor of ours may be open in the target.
    pub descriptor: u64,
    /// Length of the payload.
    pub body_length: u64,
    /// Room for modules.
    pub module_room: u64,
    /// How many modules there are.
    pub modules: u64,
    /// Room for changes.
    pub change_room: u64,
    /// How many changes there are.
    pub changes: u64,
    /// Length of the shared region.
    pub region: u64,
    /// 1 where that is no file, but memory of the target alone.
    pub is_private: u64,
}

/// A home at its place in the target.
#[derive(Clone, Debug)]
pub struct Home {
    at: RemoteAddr,
    header: Header,
}

/// Why a record could not be made.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The journal is full.
    #[error("the journal in the target has no room for more changes ({0})")]
    Full(u64),
    /// The target cannot be written.
    #[error("the home at {at} in the target cannot be written")]
    Write {
        /// Where it lies.
        at: RemoteAddr,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// It is another's, with another layout.
    #[error("the home at {at} in the target was made by another version of heapattach ({version})")]
    Version {
        /// Where it lies.
        at: RemoteAddr,
        /// Of the layout.
        version: u64,
    },
    /// The bytes do not make sense.
    #[error("the home at {at} in the target says {what}")]
    Nonsense {
        /// Where it lies.
        at: RemoteAddr,
        /// What cannot be.
        what: &'static str,
    },
}

impl Home {
    /// How long a home must be for this payload, so many modules and changes, and this region.
    pub fn length_for(body: u64, modules: u64, changes: u64, region: u64) -> u64 {
        let journal = modules * MODULE_BYTES + changes * CHANGE_BYTES;
        let kept_from_writing = BODY + body.next_multiple_of(PAGE) + journal.next_multiple_of(PAGE);
        kept_from_writing + PAGE + PRIVATE_BYTES as u64 + region
    }

    /// How much of a home is really in use with this payload and so many changes.
    pub fn used_by(body: u64, changes: u64) -> u64 {
        BODY - REQUEST_ROOM
            + body.next_multiple_of(PAGE)
            + (changes * CHANGE_BYTES).next_multiple_of(PAGE)
            + 2 * PAGE
            + PRIVATE_BYTES as u64
    }

    /// How much of this home is in use, but for the region.
    pub fn used(&self) -> u64 {
        Self::used_by(self.header.body_length, self.header.changes)
    }

    /// A home to be written at `at`, where its mapping just came to be.
    pub fn new(at: RemoteAddr, header: Header) -> Self {
        Self { at, header }
    }

    /// Reads the home at `at`.
    ///
    /// # Errors
    /// When the header is none of ours.
    pub fn open(memory: &Memory, at: RemoteAddr) -> Result<Self, HomeError> {
        let nonsense = |what| HomeError::Nonsense { at, what };
        let bytes = memory.read_vec(at, 16 + 8 * 15).map_err(|_| nonsense("nothing"))?;
        if bytes[..16] != MAGIC {
            return Err(nonsense("that it is none"));
        }
        let word = |i: usize| u64_at(&bytes, 16 + 8 * i).unwrap_or(0);
        if word(0) != VERSION {
            return Err(HomeError::Version { at, version: word(0) });
        }
        let header = Header {
            session: word(1),
            owner: word(2),
            owner_started: word(3),
            length: word(4),
            stubs: word(5),
            descriptor: word(6),
            body_length: word(7),
            module_room: word(8),
            modules: word(9),
            change_room: word(10),
            changes: word(11),
            region: word(12),
            is_private: word(13),
        };
        let home = Self { at, header };
        let rooms = [
            header.length,
            header.body_length,
            header.module_room,
            header.change_room,
            header.region,
        ];
        if rooms.iter().any(|&n| n > SIZE_LIMIT)
            || header.module_room > MOST_MODULES
            || header.change_room > MOST_CHANGES
        {
            return Err(nonsense("that it is larger than any home"));
        }
        let wanted = Self::length_for(
            header.body_length,
            header.module_room,
            header.change_room,
            header.region,
        );
        if header.length != wanted {
            return Err(nonsense("a length that does not fit its parts"));
        }
        if header.modules > header.module_room || header.changes > header.change_room {
            return Err(nonsense("that it holds more than it has room for"));
        }
        Ok(home)
    }

    /// Every home in these mappings. It may have merged with a neighbour, so a few pages of every
    /// mapping of its kind are looked at.
    pub fn find(memory: &Memory, maps: &[Mapping<'_>]) -> Vec<RemoteAddr> {
        find_marked(memory, maps, MAGIC)
    }

    /// Every home in these mappings that we can read, as many as were ever left in one process.
    pub fn all(memory: &Memory, maps: &[Mapping<'_>]) -> Vec<Self> {
        let found = Self::find(memory, maps).into_iter();
        found.filter_map(|at| Self::open(memory, at).ok()).take(MOST_HOMES).collect()
    }

    /// Where it lies.
    pub fn at(&self) -> RemoteAddr {
        self.at
    }

    /// What its header says.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its end.
    pub fn end(&self) -> RemoteAddr {
        self.at.offset(self.header.length)
    }

    /// The stub page reserved for this session; it stays if a slot was ever led to it.
    pub fn stub_page(&self) -> RemoteAddr {
        self.end_less(PAGE + PRIVATE_BYTES as u64 + self.header.region)
    }

    /// The switch of all hooks.
    pub fn control(&self) -> RemoteAddr {
        self.end_less(PRIVATE_BYTES as u64 + self.header.region)
    }

    /// Which row belongs to which thread.
    pub fn index(&self) -> RemoteAddr {
        self.control().offset(CONTROL_BYTES as u64)
    }

    /// The shared region.
    pub fn region(&self) -> RemoteAddr {
        self.end_less(self.header.region)
    }

    /// A place for the name of the shared memory.
    pub fn name(&self) -> RemoteAddr {
        self.at.offset(NAME)
    }

    /// The part of our code that a thread may be in, or on its way back to.
    pub fn code(&self) -> Range<RemoteAddr> {
        self.at..self.stub_page()
    }

    fn end_less(&self, bytes: u64) -> RemoteAddr {
        self.at.offset(self.header.length.saturating_sub(bytes))
    }

    /// Where calls are made that survive our death.
    pub fn gadget(&self) -> RemoteAddr {
        self.at.offset(GADGET)
    }

    /// Where a thread stands that is about to be borrowed, or to be given back (`arch::aside`).
    pub fn way_back(&self) -> RemoteAddr {
        self.at.offset(WAY_BACK)
    }

    /// Room for the instructions that a clone is made at.
    pub fn clone_gadget(&self) -> RemoteAddr {
        self.at.offset(CLONE_GADGET)
    }

    /// Where the rescue frame lies.
    pub fn frame(&self) -> RemoteAddr {
        self.at.offset(FRAME)
    }

    /// Where the payload lies.
    pub fn body(&self) -> RemoteAddr {
        self.at.offset(BODY)
    }

    /// Room for the first instructions of the function behind hook `hook`.
    pub fn trampoline(&self, hook: usize) -> RemoteAddr {
        self.at.offset(TRAMPOLINES + hook as u64 * TRAMPOLINE_MAX as u64)
    }

    /// Room for what hears client requests, `REQUEST_ROOM` bytes.
    pub fn requests(&self) -> RemoteAddr {
        self.at.offset(REQUESTS)
    }

    /// Writes the header, the gadget and the carrier's rescue frame, all at once: until they are
    /// there, the carrier would not survive our death.
    ///
    /// # Errors
    /// When the target cannot be written.
    pub fn write(&self, memory: &Memory, frame: &[u8]) -> Result<(), HomeError> {
        let mut bytes = self.header_bytes();
        let mut put = |offset: u64, part: &[u8]| {
            bytes.resize(usize::try_from(offset).unwrap_or(0), 0);
            bytes.extend_from_slice(part);
        };
        put(GADGET, &arch::RESCUED_CALL);
        put(WAY_BACK, &arch::WAY_BACK);
        put(NAME, SHARED_NAME);
        put(FRAME, frame);
        memory.write(self.at, &bytes).map_err(|source| self.failed(source))
    }

    /// Changes the header.
    ///
    /// # Errors
    /// When the target cannot be written.
    pub fn amend(
        &mut self,
        memory: &Memory,
        change: impl FnOnce(&mut Header),
    ) -> Result<(), HomeError> {
        change(&mut self.header);
        self.write_header(memory)
    }

    fn modules_at(&self) -> RemoteAddr {
        self.body().offset(self.header.body_length.next_multiple_of(PAGE))
    }

    fn changes_at(&self) -> RemoteAddr {
        self.modules_at().offset(self.header.module_room * MODULE_BYTES)
    }

    fn read(&self, memory: &Memory, at: RemoteAddr, length: u64) -> Result<Vec<u8>, HomeError> {
        let length = usize::try_from(length).unwrap_or(0);
        memory
            .read_vec(at, length)
            .map_err(|_| HomeError::Nonsense { at: self.at, what: "more than is mapped" })
    }

    fn header_bytes(&self) -> Vec<u8> {
        let h = &self.header;
        let words = [
            VERSION,
            h.session,
            h.owner,
            h.owner_started,
            h.length,
            h.stubs,
            h.descriptor,
            h.body_length,
            h.module_room,
            h.modules,
            h.change_room,
            h.changes,
            h.region,
            h.is_private,
        ];
        let mut bytes = MAGIC.to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    fn write_header(&self, memory: &Memory) -> Result<(), HomeError> {
        memory.write(self.at, &self.header_bytes()).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: Errno) -> HomeError {
        HomeError::Write { at: self.at, source }
    }
}

/// Pages that begin with `magic`, in mappings of the kind we make.
pub(crate) fn find_marked(
    memory: &Memory,
    maps: &[Mapping<'_>],
    magic: [u8; 16],
) -> Vec<RemoteAddr> {
    const PAGES_LOOKED_AT: u64 = 64;
    let ours = |m: &&Mapping<'_>| m.executable && !m.writable && m.is_anonymous();
    let (mut found, mut left) = (Vec::new(), PAGES_LIMIT);
    for mapping in maps.iter().filter(ours) {
        let length = mapping.range.end.offset_from(mapping.range.start).unwrap_or(0);
        let pages = (length / PAGE).min(PAGES_LOOKED_AT).min(left);
        left -= pages;
        for page in 0..pages {
            if found.len() == MARKS_LIMIT {
                return found;
            }
            let at = mapping.range.start.offset(page * PAGE);
            let mut head = [0; 16];
            if memory.read(at, &mut head).is_ok() && head == magic {
                found.push(at);
            }
        }
    }
    found
}
