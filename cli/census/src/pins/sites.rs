//! The same by who allocated: blocks that a session recorded are looked for among those in use, and each is told
//! how many bytes it occupies and its part of what is free beside it.

use std::ops::Range;

use super::unit::{Ended, Tally, Units};
use crate::{Block, Moment, Sink, State, Walker};

/// What became of a recorded block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// Its usable bytes; 0 if no block in use begins there.
    pub usable: u64,
    /// Its part, in bytes, of what is free in the units that it lies in.
    pub kept: f64,
}

/// Looks for blocks by their addresses, which are ascending, among all that these walkers tell.
pub fn find(moment: &Moment<'_>, walkers: &[&dyn Walker], addresses: &[u64]) -> Vec<Found> {
    let found = vec![Found::default(); addresses.len()];
    let mut search = Search { addresses, units: Units::new(moment, Sites { found }) };
    for walker in walkers.iter().filter(|walker| !walker.is_inner()) {
        walker.walk(moment, &mut search);
        search.units.flush();
    }
    search.units.tally.found
}

/// The blocks of a unit: how many there are, and which were recorded.
#[derive(Default)]
struct Own {
    count: u64,
    recorded: Vec<u32>,
}

struct Sites {
    found: Vec<Found>,
}

impl Tally for Sites {
    type Mark = Option<u32>;
    type Own = Own;

    fn add(&mut self, own: &mut Own, recorded: Option<u32>, bytes: u64, _: bool) {
        own.count += 1;
        own.recorded.extend(recorded);
        if let Some(found) = recorded.and_then(|number| self.found.get_mut(number as usize)) {
            found.usable += bytes;
        }
    }

    fn end(&mut self, unit: &Ended, own: Own) {
        #[allow(clippy::cast_precision_loss)]
        let part = (unit.resident - unit.live) as f64 / own.count.max(1) as f64;
        for number in own.recorded {
            let Some(found) = self.found.get_mut(number as usize) else { continue };
            found.kept += part;
        }
    }
}

struct Search<'a> {
    addresses: &'a [u64],
    units: Units<Sites>,
}

impl Sink for Search<'_> {
    fn unit(&mut self, range: Range<u64>) {
        self.units.begin(range);
    }

    fn block(&mut self, block: Block) {
        if block.state == State::Used && block.size > 0 {
            let number = self.addresses.binary_search(&block.at);
            self.units.block(&block, number.ok().and_then(|number| u32::try_from(number).ok()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    const HEAP: u64 = 0x80_0000;

    #[test]
    fn a_recorded_block_has_its_part_of_what_is_free_beside_it() {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + 0x1_0000);
        (0..8).for_each(|page| memory.write(HEAP + page * 4096, 1));
        let moment = memory.moment();
        // The third was freed.
        let addresses = [HEAP + 0x100, HEAP + 0x1800, HEAP + 0x2000, HEAP + 0x4000];
        let found = vec![Found::default(); addresses.len()];
        let units = Units::new(&moment, Sites { found });
        let mut search = Search { addresses: &addresses, units };
        let mut block = |at, size, state| {
            search.block(Block { at: HEAP + at, size, state, arena: 0, class: 0 });
        };
        block(0x100, 96, State::Used);
        // Another one beside it was not recorded.
        block(0x1000, 160, State::Used);
        block(0x1800, 96, State::Used);
        block(0x2000, 96, State::Free);
        // A page and a bit.
        block(0x4000, 4096 + 96, State::Used);
        search.units.flush();
        let told = |usable, kept| Found { usable, kept };
        let expected = [
            told(96, 4000.0),
            told(96, (4096.0 - 256.0) / 2.0),
            Found::default(),
            told(4096 + 96, 4000.0),
        ];
        assert_eq!(search.units.tally.found, expected);
    }
}
