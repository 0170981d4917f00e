//! A recording that is worth a look at its parts.

use std::path::Path;

use heapattach_process::{
    addr::RemoteAddr,
    event::{StackId, What},
};

use super::session::{Session, second};
use heapattach_ledger::Moment;

/// A minute in which blocks of many sizes come and go, most of them soon; `interval` is that of
/// sampling.
pub fn waves(path: &Path, interval: u64) {
    let mut session = Session::new(path, 1 << 30);
    let mut random = 5_u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (random >> 33) % below
    };
    let mut held: Vec<u64> = Vec::new();
    for step in 0..6000_u64 {
        session.now = step * second() / 100 + draw(20);
        let at = 100 + step;
        let what = What::Allocated {
            at: RemoteAddr::new(at * 16),
            size: 1 << draw(14),
            stack: StackId(u32::try_from(draw(3)).unwrap() + 1),
            interval,
        };
        session.event(if draw(4) == 0 { 5 } else { 0 }, what);
        held.push(at);
        while held.len() > 1 && draw(10) < 6 {
            let victim = if draw(3) == 0 { draw(held.len() as u64) } else { held.len() as u64 - 1 };
            session.free(held.swap_remove(usize::try_from(victim).unwrap()));
        }
        if step % 100 == 0 {
            let at_ms = step * 10;
            let live = session.profile.sheet().heap().bytes(heapattach_profile::Flow::Live);
            session.session_writer.moment(Moment { at_ms, live, ..Moment::default() });
            session.keep_up();
        }
    }
    session.now = 60 * second();
    session.every = interval;
    session.finish();
}
