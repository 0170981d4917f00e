//! Puts blocks on the disk, and sees to it that they do not become too many.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use crate::{
    format::{
        block::{self, Content, Effort, Place},
        coded_events,
        disk::Disk,
        snapshot,
    },
    store,
    write::{compaction::compact, write_queue::State},
};

/// From so many waiting blocks on, speed is more important than the size of the blocks.
const BEHIND: usize = 2;

/// The thread's side of a write_queue.
#[derive(Debug)]
pub struct Writer {
    disk: Box<dyn Disk>,
    /// `None` for a file without a name.
    path: Option<PathBuf>,
    limit: u64,
    end: u64,
    /// Where it ended when it had last been made smaller.
    compacted: u64,
    /// All blocks, those with changes too.
    places: Vec<Place>,
    state: Arc<State>,
    began: Instant,
}

impl Writer {
    /// On a file that has its first line.
    pub fn new(disk: Box<dyn Disk>, path: Option<PathBuf>, limit: u64, state: Arc<State>) -> Self {
        let end = block::title().len() as u64;
        let (places, began) = (Vec::new(), Instant::now());
        Self { disk, path, limit, end, compacted: 0, places, state, began }
    }

    /// Writes what comes until nothing more does, or cannot be written.
    pub fn work(&mut self) {
        while let Some((content, bytes, behind)) = self.state.next() {
            if let Err(error) = self.put(content, &bytes, behind) {
                // Half a block is of no use, and takes room that others may need.
                let _ = self.disk.cut(self.end);
                // There is no room any more: no further snapshots are to be made for it.
                self.state.is_crowded.store(true, Relaxed);
                self.state.is_full.store(false, Relaxed);
                return self.state.end(Some(error), self.began.elapsed());
            }
            self.state.tell();
        }
        self.state.end(None, self.began.elapsed());
    }

    fn put(&mut self, content: Content, bytes: &[u8], behind: usize) -> io::Result<()> {
        let too_long = || io::Error::other("a block is too long");
        let effort = match content {
            // The model has left nothing to be found in it.
            Content::Changes if !coded_events::is_plain(bytes) => Effort::None,
            Content::Changes if behind >= BEHIND => Effort::None,
            Content::Changes => Effort::Little,
            // A file without a path: it is read once, by us. What is told in words is little.
            _ if self.path.is_none() => Effort::None,
            _ if behind >= BEHIND => Effort::Little,
            _ => Effort::Usual,
        };
        let block = block::encode(content, bytes, effort).ok_or_else(too_long)?;
        self.disk.write(&block, self.end)?;
        let place = block::place_of(self.end, &block).ok_or_else(too_long)?;
        self.end = place.end();
        self.places.push(place);
        let ends_snapshot = content == Content::Snapshot
            && snapshot::head(bytes).is_some_and(|(_, is_last)| is_last);
        let (state, limit) = (self.state.clone(), self.limit);
        if ends_snapshot && state.is_full.load(Relaxed) {
            self.make_smaller()?;
            state.is_crowded.store(self.end > limit / 4 * 3, Relaxed);
            state.is_full.store(false, Relaxed);
        } else if self.end > limit && !state.is_crowded.load(Relaxed) {
            state.is_full.store(true, Relaxed);
        } else if ends_snapshot && self.end > limit.max(self.compacted / 4 * 5) {
            self.make_smaller()?;
        }
        state.bytes.store(self.end, Relaxed);
        Ok(())
    }

    /// Leaves out what happened before the last snapshot, and more: a new file takes the place of
    /// this one.
    fn make_smaller(&mut self) -> io::Result<()> {
        // No other process can look at a file without a name before the end; it cannot be replaced.
        let Some(path) = self.path.clone() else { return Ok(()) };
        let (name, file) = store::create_spare(&path)?;
        let copied = compact(&*self.disk, &self.places, &file, self.limit).and_then(|done| {
            std::fs::rename(&name, &path)?;
            Ok(done)
        });
        match copied {
            Ok((end, places)) => {
                (self.disk, self.end, self.places) = (Box::new(file), end, places);
                self.compacted = end;
                Ok(())
            }
            Err(error) => {
                let _ = std::fs::remove_file(&name);
                Err(error)
            }
        }
    }
}
