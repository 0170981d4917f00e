//! What was read of modules' files, for all processes of one command: a suite that runs one program many
//! times reads its symbols and debug information once.
//!
//! A file is known by what it is, not by its name alone: a program that is built again, even in its place,
//! is another file. What was used last is kept, within bounds.

use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use heapattach_process::proc::build_id::BuildId;

use crate::{files::root::Root, module::Shared};

/// So many files are kept.
const MOST_FILES: usize = 128;
/// So much of what was read of them.
const MOST_BYTES: u64 = 256 << 20;

/// The files that were read, for all who hold this.
#[derive(Clone, Debug, Default)]
pub struct FileCache(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    files: HashMap<Key, Entry>,
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    shared: Arc<Shared>,
    used: u64,
}

/// What makes a file the same for two processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    device: u64,
    inode: u64,
    size: u64,
    /// When it was written to, and when anything of it was changed.
    times: [(i64, i64); 2],
    /// The build that is mapped.
    build_id: Option<BuildId>,
    /// Where debug information is looked for: beside it, and in the tree that the process sees.
    path: Box<Path>,
    root: Option<(u64, u64)>,
    has_variables: bool,
}

impl Key {
    /// Of an open file, if it can be told.
    pub fn of(
        file: &File,
        build_id: Option<&BuildId>,
        path: &Path,
        root: Option<&Root>,
        has_variables: bool,
    ) -> Option<Self> {
        let found = file.metadata().ok()?;
        let times = [(found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec())];
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            times,
            build_id: build_id.cloned(),
            path: path.into(),
            root: root.and_then(Root::identity),
            has_variables,
        })
    }
}

impl FileCache {
    /// What is known of this file; nothing yet if it is new.
    pub fn of(&self, key: Key, file: File) -> Arc<Shared> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let used = kept.uses;
        if let Some(entry) = kept.files.get_mut(&key) {
            entry.used = used;
            return Arc::clone(&entry.shared);
        }
        kept.make_room();
        let shared = Arc::new(Shared::for_several(file));
        kept.files.insert(key, Entry { shared: Arc::clone(&shared), used });
        shared
    }
}

impl Kept {
    /// Forgets what was not used for longest. Who uses it now keeps it.
    fn make_room(&mut self) {
        let taken = |kept: &Self| {
            kept.files.values().map(|entry| entry.shared.taken()).fold(0, u64::saturating_add)
        };
        while self.files.len() >= MOST_FILES || taken(self) > MOST_BYTES {
            let oldest = self.files.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            self.files.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::folder::Folder;

    fn key(file: &File, path: &Path) -> Key {
        Key::of(file, None, path, None, false).unwrap()
    }

    #[test]
    fn a_file_is_the_same_until_it_is_written_to() {
        let folder = Folder::new("file-cache");
        let path = folder.0.join("a");
        std::fs::write(&path, "one").unwrap();
        let open = || File::open(&path).unwrap();
        let cache = FileCache::default();
        let first = cache.of(key(&open(), &path), open());
        assert!(Arc::ptr_eq(&first, &cache.clone().of(key(&open(), &path), open())));
        std::fs::write(&path, "other").unwrap();
        assert!(!Arc::ptr_eq(&first, &cache.of(key(&open(), &path), open())));
    }

    #[test]
    fn what_was_not_used_for_longest_is_forgotten_first() {
        let folder = Folder::new("file-cache-full");
        let path = folder.0.join("a");
        std::fs::write(&path, "one").unwrap();
        let open = || File::open(&path).unwrap();
        let cache = FileCache::default();
        let numbered = |number: usize| key(&open(), Path::new(&number.to_string()));
        let first = cache.of(numbered(0), open());
        let second = cache.of(numbered(1), open());
        for number in 2..=MOST_FILES {
            cache.of(numbered(number), open());
            assert!(Arc::ptr_eq(&first, &cache.of(numbered(0), open())), "it is in use");
        }
        assert!(!Arc::ptr_eq(&second, &cache.of(numbered(1), open())));
        assert_eq!(cache.0.lock().unwrap().files.len(), MOST_FILES);
    }
}
