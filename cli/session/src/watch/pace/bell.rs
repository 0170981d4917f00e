//! By what the reader of the rings wakes the event loop of a session that is quiet. It is ours alone: the target
//! has no part of it.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Rung once for each time that is quiet.
#[derive(Debug)]
pub struct Bell {
    is_quiet: AtomicBool,
    /// Whether a few calls are no reason to ring.
    allows_few: AtomicBool,
    /// Whether something happened since that was asked, in a quiet time or not.
    is_stirred: AtomicBool,
    wire: Option<EventFd>,
}

impl Default for Bell {
    fn default() -> Self {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        // Without a wire no time is quiet.
        Self {
            is_quiet: AtomicBool::new(false),
            allows_few: AtomicBool::new(false),
            is_stirred: AtomicBool::new(false),
            wire: EventFd::from_value_and_flags(0, flags).ok(),
        }
    }
}

impl Bell {
    /// A quiet time begins, unless it has begun; in which a few calls may come.
    pub fn silence(&self, allows_few: bool) {
        self.allows_few.store(allows_few, Relaxed);
        if self.is_quiet() {
            return;
        }
        // Rung at the end of the last one, and not heard.
        self.was_rung();
        self.is_quiet.store(self.wire.is_some(), Relaxed);
    }

    /// Whether the time is quiet.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet.load(Relaxed)
    }

    /// Whether a few calls belong to this quiet time.
    pub fn allows_few(&self) -> bool {
        self.allows_few.load(Relaxed)
    }

    /// Something happens: ends a quiet time.
    pub fn ring(&self) {
        self.is_stirred.store(true, Relaxed);
        if self.is_quiet.swap(false, Relaxed)
            && let Some(wire) = &self.wire
        {
            // A counter that is full rings, too.
            let _ = wire.write(1);
        }
    }

    /// Whether something happened since this was asked.
    pub fn was_stirred(&self) -> bool {
        self.is_stirred.swap(false, Relaxed)
    }

    /// The end of the wire, readable once it was rung.
    pub fn wire(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wire.as_ref()?.as_fd())
    }

    /// Whether it was rung since this was asked.
    pub fn was_rung(&self) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.read().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_once_and_only_in_a_quiet_time() {
        let bell = Bell::default();
        let count = || bell.wire.as_ref().unwrap().read().unwrap_or(0);
        bell.ring();
        assert_eq!(count(), 0);
        bell.silence(false);
        assert!(bell.is_quiet());
        bell.ring();
        bell.ring();
        assert!(!bell.is_quiet());
        assert_eq!((count(), count()), (1, 0));
    }
}
