//! A recording as `serve` has it of a service that has run for hours: samples all the time, of many stacks, in a file
//! that may not grow beyond a limit.

use std::path::Path;

use heapattach_process::{
    addr::RemoteAddr,
    event::{StackId, What},
};

use super::{
    random_stacks::{Draw, code, stacks},
    session::{Session, second},
};
use heapattach_ledger::Moment;
use heapattach_profile::Flow;

/// Mean bytes between samples.
const EVERY: u64 = 512 << 10;
/// Moments are so many seconds apart.
const MOMENTS: u64 = 30;

/// So many hours in which so many blocks a second are sampled, of so many stacks; most are freed soon, and each hundredth
/// stays. The file has so many bytes at most.
///
/// # Panics
/// If it cannot be written.
pub fn long_session(path: &Path, hours: u64, a_second: u64, of_stacks: u32, limit: u64) {
    let mut draw = Draw(5);
    let mut session = Session::new(path, limit);
    session.every = EVERY;
    session.stacks = stacks(&mut draw, of_stacks);
    for time in 0..hours * 3600 {
        session.now = time * second();
        for block in 0..a_second {
            let number = time * a_second + block + 1;
            let at = RemoteAddr::new(number * 16);
            let (size, stack) =
                (u64::from(16 + draw.below(4080)), StackId(draw.below(of_stacks) + 1));
            session.event(0, What::Allocated { at, size, stack, interval: EVERY });
            let earlier = number.saturating_sub(a_second * 20);
            if !earlier.is_multiple_of(100) {
                session.free(earlier);
            }
        }
        if time % MOMENTS == 0 {
            let live = session.profile.sheet().heap().bytes(Flow::Live);
            let (at_ms, rss) = (time * 1000, Some(1 << 30));
            session.session_writer.moment(Moment { at_ms, live, rss, ..Moment::default() });
        }
        session.keep_up();
    }
    session.finish_with(&code());
}
