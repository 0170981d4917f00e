//! Several threads that name the addresses of several modules: each module is with one of them.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use crate::files::surroundings::Surroundings;
use crate::{Frame, module::Module};

/// What is to be done in one module.
#[derive(Debug)]
pub struct Task<'m> {
    /// The module.
    pub module: &'m mut Module,
    /// Addresses in the target, and where they lie in the module's file.
    pub wanted: Vec<(u64, u64)>,
}

/// Addresses, and the calls there.
pub type Named = Vec<(u64, Arc<[Frame]>)>;

/// Does all tasks, until there are `limit` frames; what is left then is not among the answers.
pub fn work(mut tasks: Vec<Task<'_>>, around: &Surroundings, limit: usize) -> Named {
    // To find out how many there are takes longer than to name what one module has.
    let processors = match tasks.len() {
        few @ 0..2 => few,
        many => thread::available_parallelism().map_or(1, usize::from).min(many),
    };
    // The longest first, from the end.
    tasks.sort_by_key(|task| task.wanted.len());
    let (tasks, room) = (Mutex::new(tasks), AtomicUsize::new(limit));
    let worker = || {
        let mut named = Named::new();
        let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(task) = next() {
            name(task, around, &room, &mut named);
        }
        named
    };
    if processors < 2 {
        return worker();
    }
    thread::scope(|scope| {
        // Where no thread can be had this one does all.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, worker).ok();
        let others: Vec<_> = (1..processors).filter_map(spawn).collect();
        let own = worker();
        // A worker that failed costs names, not the report.
        let others = others.into_iter().flat_map(|other| other.join().unwrap_or_default());
        own.into_iter().chain(others).collect()
    })
}

fn name(task: Task<'_>, around: &Surroundings, room: &AtomicUsize, named: &mut Named) {
    let offsets: Vec<u64> = task.wanted.iter().map(|wanted| wanted.1).collect();
    task.module.load(around, &offsets);
    task.module.extend(&offsets);
    for (address, at) in task.wanted {
        let frames = task.module.frames(at);
        let take = |left: usize| left.checked_sub(frames.len());
        if room.fetch_update(Relaxed, Relaxed, take).is_err() {
            return;
        }
        named.push((address, frames.into()));
    }
}
