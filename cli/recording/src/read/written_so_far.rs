//! Reading the file of a session that is still being written.

use std::sync::{Arc, atomic::AtomicU64};

use crate::{Recording, Store};

impl Store {
    /// What was written until now.
    pub fn read(&self) -> Option<Recording> {
        self.read_counting(&Arc::default())
    }

    /// The same; the bytes that were read so far are counted, for a thread that waits.
    pub(crate) fn read_counting(&self, bytes_read: &Arc<AtomicU64>) -> Option<Recording> {
        match &self.path {
            // The file may have been replaced by a smaller one.
            Some(path) => Recording::open_counting(path, bytes_read).ok(),
            None => Recording::of(self.file.try_clone().ok()?, bytes_read),
        }
    }
}
