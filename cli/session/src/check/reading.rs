//! The thread that takes the records in, and lends what it made of them while the target stands
//! still: all that was recorded until then is in it.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{Builder, Scope},
};

use heapattach_process::memory::Memory;

use crate::watch::{intake::Recorder, notes::SharedNotes};

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    is_over: &'a AtomicBool,
    give: Sender<Recorder>,
    take: Receiver<Recorder>,
}

impl<'a> Reading<'a> {
    /// Begins to read; `None` if there can be no thread.
    pub(super) fn begin<'scope>(
        scope: &'scope Scope<'scope, 'a>,
        recorder: Recorder,
        memory: &'a Memory,
        shared_notes: &'a SharedNotes,
        is_over: &'a AtomicBool,
    ) -> Option<Self> {
        let (give, taken) = channel();
        let (given, take) = channel();
        let read = move || {
            let mut recorder = recorder;
            loop {
                recorder = recorder.follow_to_moment(memory, shared_notes, is_over);
                if given.send(recorder).is_err() {
                    return;
                }
                let Ok(again) = taken.recv() else { return };
                recorder = again;
            }
        };
        Builder::new().spawn_scoped(scope, read).ok()?;
        Some(Self { is_over, give, take })
    }

    /// Everything up to now; nothing is read until it is given back. `None` if the thread failed.
    pub(super) fn pause(&self) -> Option<Recorder> {
        self.is_over.store(true, Relaxed);
        let recorder = self.take.recv().ok();
        self.is_over.store(false, Relaxed);
        recorder
    }

    /// Gives it back.
    pub(super) fn resume(&self, recorder: Recorder) {
        // A thread that failed is noticed when it is asked for the next time.
        let _ = self.give.send(recorder);
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}
