//! What is remembered of a target's threads between stops, for all who stop, keep and meet them.
//!
//! A thread that runs untraced is in no state, nor is one that a stop takes and lets go:
//!
//! | a thread is | since | until |
//! |---|---|---|
//! | late | it was told to stop and did not come: the kernel holds it (a vfork), or the stop was given up | it is seen to come, or to end; the next stop tells it again |
//! | held | it came late, and stands for the next stop | that takes it, or it is let go |
//! | at its end | it came there, and an exit watch wants to meet it | it is let go to its end |
//! | kept | an exit watch ([`crate::trace::exit_watch`]) has it stay traced | it is let go to its end, or kept no more |
//!
//! Late and held exclude each other. One that is kept may be each of the others, too; and one at its
//! end is late as well when a stop was given up that had told it to stop once more.

use std::{cell::RefCell, collections::HashSet};

/// The threads of a target that are in a state. Stops, keepers and sessions share a target, so each
/// answer is of the moment: the caller borrows nothing.
#[derive(Debug, Default)]
pub(crate) struct Threads(RefCell<State>);

#[derive(Debug, Default)]
struct State {
    late: HashSet<i32>,
    /// In the order in which they came.
    held: Vec<i32>,
    /// In the order in which they came.
    at_end: Vec<i32>,
    kept: HashSet<i32>,
    /// Whether the threads are met at their ends without keeping them
    /// ([`crate::trace::member_exit_watch`]).
    are_met: bool,
    /// Whether the process became another program in a stop of ours: it stands before its first
    /// instruction, for the exit watch.
    has_execed: bool,
}

impl Threads {
    /// They were told to stop, and are let go when they do.
    pub(crate) fn add_late(&self, tids: impl IntoIterator<Item = i32>) {
        self.0.borrow_mut().late.extend(tids);
    }

    /// They were told to stop again, and are waited for.
    pub(crate) fn remove_late(&self, tids: &[i32]) {
        let late = &mut self.0.borrow_mut().late;
        for tid in tids {
            late.remove(tid);
        }
    }

    pub(crate) fn is_late(&self, tid: i32) -> bool {
        self.0.borrow().late.contains(&tid)
    }

    pub(crate) fn has_late(&self) -> bool {
        !self.0.borrow().late.is_empty()
    }

    /// Has each thread looked at that is late; those stay late of which `is_late` says so.
    pub(crate) fn look_at_late(&self, mut is_late: impl FnMut(i32) -> bool) {
        let mut late = std::mem::take(&mut self.0.borrow_mut().late);
        late.retain(|&tid| is_late(tid));
        self.add_late(late);
    }

    /// They were late, and stand for the next stop.
    pub(crate) fn hold(&self, tids: impl IntoIterator<Item = i32>) {
        self.0.borrow_mut().held.extend(tids);
    }

    /// Those that are held, for a stop, or to be let go.
    pub(crate) fn take_held(&self) -> Vec<i32> {
        std::mem::take(&mut self.0.borrow_mut().held)
    }

    /// It stays traced from now on.
    pub(crate) fn keep(&self, tid: i32) {
        self.0.borrow_mut().kept.insert(tid);
    }

    pub(crate) fn is_kept(&self, tid: i32) -> bool {
        self.0.borrow().kept.contains(&tid)
    }

    /// Whether one is kept of which `is_it` is true.
    pub(crate) fn any_kept(&self, is_it: impl Fn(i32) -> bool) -> bool {
        self.0.borrow().kept.iter().any(|&tid| is_it(tid))
    }

    /// Whether the target is kept: without a thread that is, it is not.
    pub(crate) fn has_kept(&self) -> bool {
        !self.0.borrow().kept.is_empty()
    }

    /// None is kept any more; answers those that were.
    pub(crate) fn take_kept(&self) -> HashSet<i32> {
        std::mem::take(&mut self.0.borrow_mut().kept)
    }

    /// They are met at their ends, or are not any more.
    pub(crate) fn meet_ends(&self, are_met: bool) {
        self.0.borrow_mut().are_met = are_met;
    }

    /// Whether a thread that comes to its end stands there until it is let go.
    pub(crate) fn stands_at_end(&self) -> bool {
        let state = self.0.borrow();
        state.are_met || !state.kept.is_empty()
    }

    /// It came to its end, and stands there.
    pub(crate) fn add_at_end(&self, tid: i32) {
        self.0.borrow_mut().at_end.push(tid);
    }

    pub(crate) fn is_at_end(&self, tid: i32) -> bool {
        self.0.borrow().at_end.contains(&tid)
    }

    /// Those at their ends, some of them twice.
    pub(crate) fn at_end(&self) -> Vec<i32> {
        self.0.borrow().at_end.clone()
    }

    /// Those at their ends, of which nothing is remembered any more.
    pub(crate) fn take_at_end(&self) -> Vec<i32> {
        std::mem::take(&mut self.0.borrow_mut().at_end)
    }

    /// It goes to its end, kept no more.
    pub(crate) fn forget(&self, tid: i32) {
        let mut state = self.0.borrow_mut();
        state.at_end.retain(|&other| other != tid);
        state.kept.remove(&tid);
    }

    /// The process became another program; its threads are gone.
    pub(crate) fn set_execed(&self) {
        self.0.borrow_mut().has_execed = true;
    }

    pub(crate) fn has_execed(&self) -> bool {
        self.0.borrow().has_execed
    }

    /// The same, for the one who sees to it.
    pub(crate) fn take_execed(&self) -> bool {
        std::mem::take(&mut self.0.borrow_mut().has_execed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_looks_at_the_late_ones_may_ask_and_tell_of_the_others() {
        let threads = Threads::default();
        threads.add_late([1, 2, 3]);
        threads.look_at_late(|tid| {
            assert!(!threads.is_kept(tid));
            match tid {
                1 => threads.hold([tid]),
                2 => threads.add_at_end(tid),
                _ => threads.add_late([4]),
            }
            tid == 3
        });
        let late: Vec<i32> = (0..5).filter(|&tid| threads.is_late(tid)).collect();
        assert_eq!((late, threads.take_held(), threads.at_end()), (vec![3, 4], vec![1], vec![2]));
    }

    #[test]
    fn threads_stand_at_their_ends_while_they_are_kept_or_met() {
        let threads = Threads::default();
        assert!(!threads.stands_at_end());
        threads.keep(1);
        assert!(threads.has_kept() && threads.stands_at_end());
        threads.add_at_end(1);
        threads.forget(1);
        assert!(!threads.has_kept() && !threads.stands_at_end() && !threads.is_at_end(1));
        threads.meet_ends(true);
        assert!(!threads.has_kept() && threads.stands_at_end());
    }
}
