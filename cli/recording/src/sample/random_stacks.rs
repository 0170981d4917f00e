//! A recording of very many stacks, each of calls drawn by chance: what reports and exports have most to do
//! with.

use std::path::Path;

use heapattach_process::{
    addr::RemoteAddr,
    event::{StackId, What},
    stack::{Stack, StackEnd},
};

use super::session::{Known, Session, second};
use crate::names::Code;
use heapattach_ledger::{Function, Line, Location, Module, Moment};

/// Calls of each stack.
const DEPTH: u32 = 16;
/// Different calls; each is in a function of its own.
const PLACES: u32 = 4096;
/// The first of them.
const CODE: u64 = 0x40_0000;

/// Numbers that look random and are always the same.
pub(super) struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        u32::try_from(self.0 >> 33).unwrap_or_default() % limit
    }
}

/// A minute in which each of so many stacks allocates one block; every third block is freed at the end.
///
/// # Panics
/// If it cannot be written.
pub fn random_stacks(path: &Path, count: u32) {
    let mut draw = Draw(3);
    let mut session = Session::new(path, 1 << 34);
    session.stacks = stacks(&mut draw, count);
    for number in 0..count {
        session.now = u64::from(number) * 60 * second() / u64::from(count);
        let at = RemoteAddr::new(u64::from(number + 1) * 16);
        let (size, stack) = (u64::from(16 + draw.below(4080)), StackId(number + 1));
        session.event(0, What::Allocated { at, size, stack, interval: 1 });
        if number % 4096 == 0 {
            let at_ms = session.now * 1000 / second();
            let live = session.profile.sheet().heap().bytes(heapattach_profile::Flow::Live);
            session.session_writer.moment(Moment { at_ms, live, ..Moment::default() });
            session.keep_up();
        }
    }
    session.now = 60 * second();
    (1..=u64::from(count)).step_by(3).for_each(|at| session.free(at));
    session.finish_with(&code());
}

/// So many stacks.
pub(super) fn stacks(draw: &mut Draw, count: u32) -> Known {
    let stacks = (0..count).map(|_| Stack {
        frames: (0..DEPTH).map(|_| RemoteAddr::new(address(draw.below(PLACES)))).collect(),
        end: StackEnd::Outermost,
        native: None,
    });
    Known::of(stacks.collect())
}

fn address(place: u32) -> u64 {
    CODE + u64::from(place) * 64
}

/// The code of these.
pub(super) fn code() -> Code {
    let end = address(PLACES);
    let path = "/opt/random/program".to_owned();
    let module = Module { path, start: CODE, end, bias: CODE, ..Module::default() };
    let function = |place: u32| Function {
        name: format!("random::function_{place}(int)"),
        file: format!("/src/random/file_{}.cc", place % 64),
        is_named: true,
        ..Function::default()
    };
    let location = |place: u32| Location {
        address: address(place),
        offset: address(place) - CODE,
        lines: vec![Line { function: place, line: Some(1 + place % 500) }],
        ..Location::default()
    };
    Code {
        modules: vec![module],
        functions: (0..PLACES).map(function).collect(),
        locations: (0..PLACES).map(location).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use heapattach_ledger::Metric;
    use heapattach_test_folder::Folder;

    use super::*;
    use crate::{Recording, sample::blocks};

    #[test]
    fn each_stack_has_a_block_and_its_names() {
        let folder = Folder::new("random-stacks");
        let path = folder.0.join("a");
        random_stacks(&path, 300);
        let ledger = Recording::open(&path).unwrap().ledger(None);
        assert_eq!((ledger.rows.len(), ledger.stacks.count()), (300, 300));
        // The rows took the place of those that were summed up, the unknown one among them: they were not copied.
        assert!(ledger.rows.capacity() < 400, "{}", ledger.rows.capacity());
        assert_eq!(blocks(&ledger, Metric::Live), 200.0);
        let names = ledger.calls(0).map(|call| call.function.name.as_str());
        let names: Vec<_> = names.collect();
        assert_eq!(names.len(), DEPTH as usize);
        assert!(names.iter().all(|name| name.starts_with("random::function_")), "{names:?}");
    }

    #[test]
    #[ignore = "writes a file to measure with: HEAPATTACH_RANDOM_STACKS=FILE cargo test -p \
                heapattach-recording --lib a_million -- --ignored"]
    fn a_million_random_stacks_are_written_to_a_file() {
        let path = std::env::var_os("HEAPATTACH_RANDOM_STACKS").expect("the name of the file");
        random_stacks(&PathBuf::from(path), 1_000_000);
    }
}
