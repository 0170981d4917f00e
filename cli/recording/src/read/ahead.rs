//! Two processors for one file: one reads and unpacks what the other adds up.

use std::{sync::mpsc::sync_channel, thread};

/// So many pieces wait at most.
const WAITING: usize = 4;

/// Hands each piece that `read` gives to `take`, in their order, on a thread of its own. `take`
/// answers whether more is wanted, and `read` gets that answer.
pub fn each<T: Send>(
    mut read: impl FnMut(&mut dyn FnMut(T) -> bool) + Send,
    mut take: impl FnMut(T) -> bool,
) {
    let has_reader = thread::scope(|scope| {
        let (sender, receiver) = sync_channel(WAITING);
        let feed = || read(&mut move |piece| sender.send(piece).is_ok());
        let has_reader = thread::Builder::new().spawn_scoped(scope, feed).is_ok();
        // A caller that has enough drops the receiver, which ends the reader.
        let _ = receiver.into_iter().all(&mut take);
        has_reader
    });
    // There may be no room for another thread.
    if !has_reader {
        read(&mut take);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pieces: u32, enough: u32) -> Vec<u32> {
        let mut told = Vec::new();
        let read = |give: &mut dyn FnMut(u32) -> bool| {
            let _ = (1..=pieces).all(give);
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
