//! The page a test shares with its fixture; `fixtures/fixture.h` is the other side.
//!
//! # Safety
//!
//! The page is memory another process writes at any time, so it is only ever seen as atomics.
#![allow(unsafe_code)]

use std::{
    fs::{self, File, OpenOptions},
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

const WORDS: usize = 512;
const BYTES: usize = WORDS * size_of::<AtomicU64>();

/// The words of the page, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Word {
    /// 1 once the fixture is set up.
    Ready = 0,
    /// Ours: finish, check yourself, exit.
    Stop = 1,
    /// Ever increasing while workers work.
    Progress = 2,
    /// Wrong results the fixture saw.
    Errors = 3,
    /// Ours: park all workers.
    Pause = 4,
    /// 1 while all workers are parked.
    Paused = 5,
    /// Ours: do step number N.
    Command = 6,
    /// 1 when the step is done.
    Done = 7,
    /// Ours: argument of the step.
    Argument = 8,
    /// Result of the step.
    Answer = 9,
    /// The process to attach to, if it is not the one started.
    Target = 10,
    /// Fixture-specific: things received.
    Seen = 11,
    /// Truth: explicit calls of each function.
    Malloc = 16,
    /// See [`Word::Malloc`].
    Calloc = 17,
    /// See [`Word::Malloc`].
    Realloc = 18,
    /// See [`Word::Malloc`].
    Free = 19,
    /// See [`Word::Malloc`].
    PosixMemalign = 20,
    /// See [`Word::Malloc`].
    AlignedAlloc = 21,
    /// See [`Word::Malloc`].
    Memalign = 22,
    /// See [`Word::Malloc`].
    Valloc = 23,
    /// See [`Word::Malloc`].
    Pvalloc = 24,
    /// See [`Word::Malloc`].
    Reallocarray = 25,
    /// See [`Word::Malloc`].
    Cfree = 26,
    /// See [`Word::Malloc`].
    Mmap = 27,
    /// See [`Word::Malloc`].
    Munmap = 28,
    /// See [`Word::Malloc`].
    Mremap = 29,
}

/// First of the words that say how many bytes were asked for, in the order of the calls.
const FIRST_BYTES: usize = 48;

/// One fixture's page; its file lives as long as this value.
#[derive(Debug)]
pub struct Page {
    words: NonNull<AtomicU64>,
    path: PathBuf,
}

// SAFETY: the pointer is to a mapping this value owns, and only atomics are made of it.
unsafe impl Send for Page {}
// SAFETY: as above; every access is atomic.
unsafe impl Sync for Page {}

impl Page {
    /// Makes a fresh page of zeros in the directory for temporary files.
    ///
    /// # Errors
    /// The error of making or mapping the file.
    pub fn create() -> io::Result<Self> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, SeqCst);
        let name = format!("heapattach-fixture-{}-{serial}", process::id());
        let path = std::env::temp_dir().join(name);
        // Left behind only if an earlier process of this number was killed.
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        file.set_len(BYTES as u64)?;
        let words = map(&file)?;
        Ok(Self { words, path })
    }

    /// The file to name in `FIXTURE_PAGE`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a word.
    pub fn get(&self, word: Word) -> u64 {
        self.word(word as usize).load(SeqCst)
    }

    /// Writes a word.
    pub fn set(&self, word: Word, value: u64) {
        self.word(word as usize).store(value, SeqCst);
    }

    /// The bytes requested by the explicit calls of `function` ([`Word::Malloc`] and below).
    ///
    /// # Panics
    /// If `function` is not a truth word.
    pub fn bytes(&self, function: Word) -> u64 {
        let index = (function as usize).checked_sub(Word::Malloc as usize);
        self.word(FIRST_BYTES + index.expect("a truth word")).load(SeqCst)
    }

    /// A word that only one fixture gives a meaning, by its index.
    pub fn raw(&self, index: usize) -> u64 {
        self.word(index).load(SeqCst)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < WORDS, "word {index} is outside the page");
        // SAFETY: the mapping holds WORDS words, and `index` was checked.
        let word = unsafe { self.words.add(index) };
        // SAFETY: the mapping lives as long as `self`, is aligned to a page, and a u64 that others
        // write is exactly what AtomicU64 is for.
        unsafe { word.as_ref() }
    }
}

fn map(file: &File) -> io::Result<NonNull<AtomicU64>> {
    let length = NonZeroUsize::new(BYTES).expect("a page is not empty");
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new shared mapping at an address the kernel chooses cannot alias Rust memory.
    let memory = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, file, 0) }?;
    Ok(memory.cast())
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and no reference outlives `self`.
        let unmapped = unsafe { munmap(self.words.cast(), BYTES) };
        debug_assert!(unmapped.is_ok());
        let _ = fs::remove_file(&self.path);
    }
}
