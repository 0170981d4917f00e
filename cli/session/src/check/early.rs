//! The memory of a process is copied while it runs, and the hooks hear of us meanwhile.

use std::thread;

use heapattach_injector::{
    moment::{EarlyCopy, unseen_writes, watch_writes_in},
    watch::Session,
};
use heapattach_text::error_chain::with_causes;

use super::{Inspection, rounds::wait, snapshot_choice::Load};

impl Inspection<'_> {
    /// Why it is not done in this session, if it is not.
    pub(super) fn why_not_early(&self, session: &Session<'_>) -> Option<String> {
        let target = session.target();
        if self.options.follow_forks {
            return Some("with --follow-forks there are several processes".to_owned());
        }
        // Threads that are traced all the time wait for us at each signal.
        if target.is_traced() {
            return Some("it is for processes that are attached to: -p PID".to_owned());
        }
        if !session.sees_all_frees() {
            let why = "a module that is loaded meanwhile could free unseen: hooks are in slots";
            return Some(why.to_owned());
        }
        unseen_writes(&target.process)
    }

    /// Watches what is written, and copies.
    pub(super) fn copy_early(&self, session: &Session<'_>) -> Result<EarlyCopy, String> {
        let process = &session.target().process;
        let (writes, stopped) = watch_writes_in(session).map_err(|error| with_causes(&error))?;
        let mut early = EarlyCopy::new(process, writes, stopped);
        let room = Load::of(process).own_room();
        let copied = thread::scope(|scope| {
            let copying = scope.spawn(|| early.copy(process, room, &|| true));
            wait(session, || copying.is_finished());
            copying.join()
        });
        match copied {
            Ok(copied) => copied.map(|()| early).map_err(|error| with_causes(&error)),
            Err(_) => Err("the thread that copies failed".to_owned()),
        }
    }
}
