//! Being early in line for a processor while a target stands still: whatever runs instead of us
//! makes its stop longer.
//!
//! By a nice value and short turns, not by a real-time class. That would be first everywhere, where
//! these count only within our scheduling group (of a session, of a cgroup); but on a busy machine
//! of two processors with Linux 6.18, tracers that took themselves in and out of that class have
//! left other programs without a processor for up to a minute, all of the kernel's own threads
//! among them. Nobody is to be harmed by being near to a target.
//!
//! # Safety
//! The scheduler calls read or write one local record.
#![allow(unsafe_code)]

/// The most that the ordinary class has to give.
const FIRST: i32 = -20;
/// Nanoseconds of a turn; the shorter, the earlier it comes, with Linux from 6.12 on.
const SHORT: u64 = 100_000;

/// Holds this thread early in line.
#[derive(Debug)]
pub(crate) struct Urgency {
    before: Option<libc::sched_attr>,
}

impl Urgency {
    /// Takes this thread there, unless it is in another class or there already: because somebody
    /// chose that for us, or because stops can be nested.
    pub(crate) fn raise() -> Self {
        let is_ordinary = |now: &libc::sched_attr| {
            now.sched_policy == libc::SCHED_OTHER.cast_unsigned() && now.sched_nice > FIRST
        };
        let before = current().filter(is_ordinary).filter(|now| {
            let turns = without_heirs(&libc::sched_attr { sched_runtime: SHORT, ..*now });
            // Not everybody may have a better nice value; short turns take no right.
            set(&libc::sched_attr { sched_nice: FIRST, ..turns }) || set(&turns)
        });
        Self { before }
    }
}

impl Drop for Urgency {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && !set(before)
        {
            // To let what we fork be as we are again takes a right.
            set(&without_heirs(before));
        }
    }
}

/// What is forked meanwhile begins as if nothing had been asked for.
fn without_heirs(wanted: &libc::sched_attr) -> libc::sched_attr {
    let flag = u64::from(libc::SCHED_FLAG_RESET_ON_FORK.cast_unsigned());
    libc::sched_attr { sched_flags: wanted.sched_flags | flag, ..*wanted }
}

fn current() -> Option<libc::sched_attr> {
    // SAFETY: a record of numbers.
    let mut now: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of_val(&now);
    // SAFETY: the record outlives the call, which writes no more than its size.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, size, 0) };
    (result == 0).then_some(now)
}

fn set(wanted: &libc::sched_attr) -> bool {
    // SAFETY: the record outlives the call, which reads as much as its size field says.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *wanted, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_as_it_was_when_nothing_is_urgent_any_more() {
        let told = || {
            current().map(|now| {
                [
                    now.sched_nice.into(),
                    now.sched_runtime.cast_signed(),
                    now.sched_flags.cast_signed(),
                ]
            })
        };
        let before = told();
        {
            let (outer, _inner) = (Urgency::raise(), Urgency::raise());
            assert!(outer.before.is_some(), "it is an ordinary thread");
            let policy = current().map(|now| now.sched_policy);
            assert_eq!(policy, Some(libc::SCHED_OTHER.cast_unsigned()), "and stays one");
            assert_ne!(told(), before);
        }
        assert_eq!(told(), before);
    }
}
