//! Two processors for one file: one reads and unpacks what the other adds up.

use std::{
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

/// So many pieces wait at most.
const WAITING: usize = 4;

/// Hands each piece that `read` comes upon to `take`, in their order, until one of them has enough:
/// `read` when it answers `None`, `take` when it answers false.
pub fn each<T: Send>(
    mut read: impl FnMut() -> Option<T> + Send,
    mut take: impl FnMut(T) -> bool,
) {
    let mut feed =
        |sender: SyncSender<T>| while read().is_some_and(|piece| sender.send(piece).is_ok()) {};
    let is_read = thread::scope(|scope| {
        let (sender, receiver) = sync_channel(WAITING);
        let reader = thread::Builder::new().spawn_scoped(scope, || feed(sender));
        let is_there = reader.is_ok();
        // Whoever has enough drops the receiver, which ends the reader.
        let _ = receiver.into_iter().all(&mut take);
        is_there
    });
    // There may be no room for another thread.
    if !is_read {
        while read().is_some_and(&mut take) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pieces: u32, enough: u32) -> Vec<u32> {
        let (mut next, mut told) = (0, Vec::new());
        let read = || {
            next += 1;
            (next <= pieces).then_some(next)
        };
        each(read, |piece| {
            told.push(piece);
            piece < enough
        });
        told
    }

    #[test]
    fn all_pieces_come_in_their_order() {
        assert_eq!(told(1000, u32::MAX), (1..=1000).collect::<Vec<_>>());
        assert!(told(0, u32::MAX).is_empty());
    }

    #[test]
    fn whoever_has_enough_ends_it() {
        assert_eq!(told(u32::MAX, 3), [1, 2, 3]);
    }
}
