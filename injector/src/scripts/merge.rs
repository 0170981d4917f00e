//! One stack of native frames and Python frames.

use heapattach_process::addr::RemoteAddr;

/// Puts Python frames where the interpreter's loop runs them: each native frame of the loop stands
/// for the frames up to the next one that is the outermost of its loop. Both lists begin with the
/// innermost frame. Python frames whose loop was not reached come last.
pub fn merge(
    native: &[RemoteAddr],
    python: &[(RemoteAddr, bool)],
    is_loop: impl Fn(RemoteAddr) -> bool,
) -> Vec<RemoteAddr> {
    let mut merged = Vec::with_capacity(native.len() + python.len());
    let mut left = python.iter();
    for &frame in native {
        if !is_loop(frame) || left.len() == 0 {
            merged.push(frame);
            continue;
        }
        for &(address, is_outermost) in left.by_ref() {
            merged.push(address);
            if is_outermost {
                break;
            }
        }
    }
    merged.extend(left.map(|(address, _)| *address));
    merged
}

/// Puts frames of scripts in the place of native frames that they are themselves, or that run them; both lists begin
/// with the innermost frame.
pub fn placed(native: &[RemoteAddr], frames: &[(u64, RemoteAddr)]) -> Vec<RemoteAddr> {
    let mut placed = Vec::with_capacity(native.len() + frames.len());
    let mut left = frames.iter().peekable();
    for (number, &at) in (0_u64..).zip(native) {
        let before = placed.len();
        while let Some((_, frame)) = left.next_if(|(place, _)| *place == number) {
            placed.push(*frame);
        }
        if placed.len() == before {
            placed.push(at);
        }
    }
    placed.extend(left.map(|(_, frame)| *frame));
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOP: u64 = 100;

    fn merged(native: &[u64], python: &[(u64, bool)]) -> Vec<u64> {
        let native: Vec<_> = native.iter().map(|&at| RemoteAddr::new(at)).collect();
        let python: Vec<_> =
            python.iter().map(|&(at, outermost)| (RemoteAddr::new(at), outermost)).collect();
        let merged = merge(&native, &python, |at| at.get() == LOOP);
        merged.into_iter().map(RemoteAddr::get).collect()
    }

    #[test]
    fn python_frames_take_the_place_of_the_loop_that_runs_them() {
        let python = [(1, false), (2, true), (3, true), (4, false), (5, true)];
        let native = [10, LOOP, 11, 12, LOOP, LOOP, 13];
        assert_eq!(merged(&native, &python), [10, 1, 2, 11, 12, 3, 4, 5, 13]);
    }

    #[test]
    fn frames_take_the_place_of_the_native_ones_that_they_are() {
        let at = RemoteAddr::new;
        let native = [1, 2, 3].map(at);
        assert_eq!(placed(&native, &[(1, at(7)), (9, at(8))]), [1, 7, 3, 8].map(at));
        assert_eq!(placed(&[], &[(0, at(7))]), [at(7)]);
        let several = [(1, at(7)), (1, at(8)), (2, at(9))];
        assert_eq!(placed(&native, &several), [1, 7, 8, 9].map(at));
        assert_eq!(placed(&native, &[(2, at(7)), (1, at(8))]), [1, 2, 7, 8].map(at));
    }

    #[test]
    fn a_loop_without_python_frames_stays() {
        assert_eq!(merged(&[10, LOOP, 11, LOOP], &[(1, true)]), [10, 1, 11, LOOP]);
        assert_eq!(merged(&[10, LOOP], &[]), [10, LOOP]);
    }

    #[test]
    fn frames_whose_loop_was_not_reached_come_last() {
        assert_eq!(merged(&[10, LOOP], &[(1, true), (2, true)]), [10, 1, 2]);
        assert_eq!(merged(&[10], &[(1, true)]), [10, 1]);
    }
}
