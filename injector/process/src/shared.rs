//! The memory that the target's hooks write and we read ([`heapattach_abi::region`]): a file
//! without a name that both map.
//!
//! The target can write it at any time: a word is loaded once, and nothing in it is believed.
//!
//! # Safety
//! Our mapping is as long as the file, which cannot shrink: it is mapped only after its seals were
//! seen ([`MemoryFile::fix_size`]). It is only accessed by atomic operations on aligned words inside
//! it.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    fs::File,
    num::NonZeroUsize,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use heapattach_abi::protocol::Words;
use nix::{
    errno::Errno,
    sys::mman::{MapFlags, ProtFlags, mmap, munmap},
};

use crate::{
    addr::RemoteAddr,
    memory::Memory,
    memory_file::{MemoryFile, TakeError},
};

/// The shared region.
#[derive(Debug)]
pub enum Shared {
    /// In a file that both map; it outlives the target.
    Mapped {
        /// The file.
        file: File,
        /// Our mapping of it.
        view: View,
    },
    /// In memory of the target alone, where it could not make a file (no descriptor free, say);
    /// it is gone when the target ends.
    Private(RemoteAddr),
}

/// Our mapping.
#[derive(Debug)]
pub struct View {
    start: NonNull<u64>,
    words: usize,
}

impl View {
    #[inline]
    fn word(&self, index: usize) -> Option<&AtomicU64> {
        if index >= self.words {
            return None;
        }
        // SAFETY: inside of the mapping, as just checked.
        let word = unsafe { self.start.add(index) };
        // SAFETY: aligned, mapped for as long as this view, and only accessed atomically.
        Some(unsafe { AtomicU64::from_ptr(word.as_ptr()) })
    }
}

// SAFETY: every access to it is atomic.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: what `mmap` gave us; no reference into it outlives the view.
        let _ = unsafe { munmap(self.start.cast(), self.words * 8) };
    }
}

impl Shared {
    /// Gives the target's new memory file its size, forbids to take it away again, and maps it.
    ///
    /// # Errors
    /// When there is no memory, or the file does not stay as it was made.
    pub fn take(file: MemoryFile, bytes: usize) -> Result<Self, TakeError> {
        let refused = |source| TakeError::Refused { call: "mmap", source };
        let length = NonZeroUsize::new(bytes).ok_or(refused(Errno::EINVAL))?;
        let file = file.fix_size(bytes as u64)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &file, 0) };
        let start = start.map_err(refused)?;
        let view = View { start: start.cast(), words: bytes / 8 };
        Ok(Self::Mapped { file, view })
    }

    /// The word at `offset`. Whatever was written before it by a release is seen after it.
    ///
    /// # Errors
    /// When the target is gone, or the offset is outside.
    #[inline]
    pub fn word(&self, memory: &Memory, offset: usize) -> Result<u64, Errno> {
        match self {
            Self::Mapped { view, .. } => {
                let word = view.word(offset / 8).ok_or(Errno::EFAULT)?;
                Ok(word.load(Ordering::Acquire))
            }
            Self::Private(at) => memory.word(at.offset(offset as u64)),
        }
    }

    /// Copies words from `offset` on.
    ///
    /// # Errors
    /// When the target is gone, or the range is outside.
    pub fn words(&self, memory: &Memory, offset: usize, out: &mut [u64]) -> Result<(), Errno> {
        match self {
            Self::Mapped { view, .. } => {
                for (index, out) in out.iter_mut().enumerate() {
                    let word = view.word(offset / 8 + index).ok_or(Errno::EFAULT)?;
                    *out = word.load(Ordering::Relaxed);
                }
                Ok(())
            }
            Self::Private(at) => {
                let mut bytes = vec![0; out.len() * 8];
                memory.read(at.offset(offset as u64), &mut bytes)?;
                let (words, _) = bytes.as_chunks::<8>();
                for (out, word) in out.iter_mut().zip(words) {
                    *out = u64::from_le_bytes(*word);
                }
                Ok(())
            }
        }
    }

    /// Writes words from `offset` on, which no thread reads yet.
    ///
    /// # Errors
    /// When the target is gone, or the range is outside.
    pub fn fill(&self, memory: &Memory, offset: usize, words: &[u64]) -> Result<(), Errno> {
        match self {
            Self::Mapped { view, .. } => {
                for (index, &value) in words.iter().enumerate() {
                    let word = view.word(offset / 8 + index).ok_or(Errno::EFAULT)?;
                    word.store(value, Ordering::Relaxed);
                }
                Ok(())
            }
            Self::Private(at) => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                memory.write(at.offset(offset as u64), &bytes)
            }
        }
    }

    /// Writes a word; a thread that reads it by an acquire sees all that we did before.
    ///
    /// # Errors
    /// When the target is gone, or the offset is outside.
    pub fn store(&self, memory: &Memory, offset: usize, value: u64) -> Result<(), Errno> {
        match self {
            Self::Mapped { view, .. } => {
                let word = view.word(offset / 8).ok_or(Errno::EFAULT)?;
                word.store(value, Ordering::Release);
                Ok(())
            }
            Self::Private(at) => memory.write_word(at.offset(offset as u64), value),
        }
    }

    /// Bytes of memory that it takes by now, if that can be known.
    pub fn memory(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;
        match self {
            Self::Mapped { file, .. } => file.metadata().ok().map(|m| m.blocks() * 512),
            Self::Private(_) => None,
        }
    }
}

/// The region through one target's memory, for the steps of the ring. What cannot be read is 0, and
/// noted.
#[derive(Debug)]
pub struct Reach<'a> {
    /// The region.
    pub shared: &'a Shared,
    /// The target's memory.
    pub memory: &'a Memory,
    /// The last error.
    pub error: Cell<Option<Errno>>,
}

impl<'a> Reach<'a> {
    /// Nothing failed yet.
    pub fn new(shared: &'a Shared, memory: &'a Memory) -> Self {
        Self { shared, memory, error: Cell::new(None) }
    }

    /// What went wrong, if anything did.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<(), Errno> {
        self.error.get().map_or(Ok(()), Err)
    }

    #[inline]
    fn note<T: Default>(&self, result: Result<T, Errno>) -> T {
        match result {
            Ok(value) => value,
            Err(errno) => {
                self.error.set(Some(errno));
                T::default()
            }
        }
    }
}

impl Words for Reach<'_> {
    #[inline]
    fn get(&self, at: usize) -> u64 {
        self.note(self.shared.word(self.memory, at))
    }

    fn set(&self, at: usize, value: u64) {
        self.note(self.shared.store(self.memory, at, value));
    }

    #[inline]
    fn acquire(&self, at: usize) -> u64 {
        self.get(at)
    }

    fn release(&self, at: usize, value: u64) {
        self.set(at, value);
    }

    /// A reader takes no positions.
    fn exchange(&self, _at: usize, _old: u64, _new: u64) -> bool {
        false
    }
}
