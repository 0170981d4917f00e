//! Blocks whose type is not known by the place of the pointers to them: "in Conn+0x98". Only where all pointers
//! from named holders agree; then the pointers in such a block name others, a few steps far.

use std::{collections::HashMap, ops::Range, time::Instant};

use heapattach_reach::Blocks;

use crate::{Moment, Window};

/// Steps from a named holder.
const STEPS: u32 = 3;
/// In a larger block of an unknown type the place of a pointer says nothing.
const LARGE: u64 = 512;
/// Different places.
const MOST: usize = 1 << 20;
const WINDOW: usize = 1 << 20;
/// The clock is looked at after so many holders.
const HOLDERS: usize = 256;

const NONE: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;

/// Something with a name that holds blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The number of its name; the same for all of a kind.
    pub name: u32,
    /// Bytes of a value; offsets are those in one of several side by side. 0 if they say nothing.
    pub size: u64,
}

/// Where pointers to blocks lie.
#[derive(Debug, Default)]
pub struct Places {
    /// By block.
    found: Vec<u32>,
    /// What a place is in, and how far.
    all: Vec<(Within, Option<u64>)>,
    numbers: HashMap<(Within, Option<u64>), u32>,
    /// Whether there was no time for all.
    pub is_over: bool,
}

/// What a place is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Within {
    /// A holder of this name.
    Named(u32),
    /// A block that is only known by its own place.
    Place(u32),
}

impl Places {
    /// Looks at what blocks and variables hold. `name` is that of a block, if it has one.
    pub fn of(
        moment: &Moment<'_>,
        blocks: &Blocks,
        variables: &[(Range<u64>, Holder)],
        name: &dyn Fn(u32) -> Option<Holder>,
        end: Instant,
    ) -> Self {
        let mut places = Self { found: vec![NONE; blocks.len()], ..Self::default() };
        let mut window = Window::new(moment, 0..u64::MAX, WINDOW);
        let is_open: Vec<bool> =
            (0..).take(blocks.len()).map(|block: u32| name(block).is_none()).collect();
        for (range, holder) in variables {
            places.look(&mut window, blocks, &is_open, range, *holder);
        }
        for (number, block) in (0..).zip(blocks.all()) {
            if let Some(holder) = name(number) {
                places.look(&mut window, blocks, &is_open, &(block.at..block.end()), holder);
            }
            let number: u32 = number;
            if (number as usize).is_multiple_of(HOLDERS) && Instant::now() > end {
                places.is_over = true;
                return places;
            }
        }
        let mut is_open = is_open;
        for _ in 1..STEPS {
            places.step(&mut window, blocks, &mut is_open, end);
        }
        places
    }

    /// Goes on from blocks that have a place now.
    fn step(
        &mut self,
        window: &mut Window<'_, '_>,
        blocks: &Blocks,
        is_open: &mut [bool],
        end: Instant,
    ) {
        let mut placed = Vec::new();
        for ((number, place), is_open) in (0_u32..).zip(&self.found).zip(is_open.iter_mut()) {
            if *is_open && *place != NONE {
                *is_open = false;
                placed.extend((*place != SEVERAL).then_some((number, *place)));
            }
        }
        for (seen, (number, place)) in placed.into_iter().enumerate() {
            if seen.is_multiple_of(HOLDERS) && Instant::now() > end {
                self.is_over = true;
                return;
            }
            let block = *blocks.get(number);
            self.look_within(
                window,
                blocks,
                is_open,
                &(block.at..block.end()),
                (Within::Place(place), { if block.size <= LARGE { block.size } else { 0 } }),
            );
        }
    }

    fn look(
        &mut self,
        window: &mut Window<'_, '_>,
        blocks: &Blocks,
        is_open: &[bool],
        range: &Range<u64>,
        holder: Holder,
    ) {
        let within = (Within::Named(holder.name), holder.size);
        self.look_within(window, blocks, is_open, range, within);
    }

    fn look_within(
        &mut self,
        window: &mut Window<'_, '_>,
        blocks: &Blocks,
        is_open: &[bool],
        range: &Range<u64>,
        (within, size): (Within, u64),
    ) {
        let span = blocks.span();
        let mut at = range.start.next_multiple_of(8);
        while at.saturating_add(8) <= range.end {
            let Some(word) = window.word(at) else { return };
            if span.contains(&word)
                && let Some(block) = blocks.containing(word)
                && is_open.get(block as usize) == Some(&true)
            {
                let offset = (at - range.start).checked_rem(size);
                self.add(block, (within, offset));
            }
            at += 8;
        }
    }

    fn add(&mut self, block: u32, place: (Within, Option<u64>)) {
        let number = match self.numbers.get(&place) {
            Some(known) => *known,
            None if self.all.len() >= MOST => SEVERAL,
            None => {
                let number = u32::try_from(self.all.len()).unwrap_or(SEVERAL);
                self.all.push(place);
                self.numbers.insert(place, number);
                number
            }
        };
        let found = &mut self.found[block as usize];
        *found = if *found == NONE || *found == number { number } else { SEVERAL };
    }

    /// The number of the place of a block, if it has one.
    pub fn place(&self, block: u32) -> Option<u32> {
        self.found.get(block as usize).copied().filter(|place| *place < SEVERAL)
    }

    /// What a place is called; `name` tells the names of holders.
    pub fn name(&self, place: u32, name: &dyn Fn(u32) -> String) -> String {
        let Some((within, offset)) = self.all.get(place as usize) else { return String::new() };
        let offset = offset.map_or_else(String::new, |offset| format!("+{offset:#x}"));
        match within {
            Within::Named(holder) => format!("in {}{offset}", name(*holder)),
            Within::Place(above) => format!("{} > {offset}", self.name(*above, name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use heapattach_reach::Block;

    use super::*;
    use crate::synthetic::Synthetic;

    const HEAP: u64 = 0x80_0000;

    #[test]
    fn a_block_has_a_place_if_all_its_holders_agree_on_it() {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + 0x1000);
        // Two objects of one class lead to a block of their own each and to one that both have; the second
        // has another one at another place, too. One of these blocks leads on.
        let [first, second] = [HEAP, HEAP + 0x40];
        for (at, word) in [
            (first + 8, HEAP + 0x80),
            (second + 8, HEAP + 0xc0),
            (first + 16, HEAP + 0x100),
            (second + 16, HEAP + 0x104),
            (second + 24, HEAP + 0xc0),
            (HEAP + 0x80 + 8, HEAP + 0x140),
        ] {
            memory.write(at, word);
        }
        let block = |at| Block { at: HEAP + at, size: 48, stack: 0 };
        let blocks = Blocks::new([0, 0x40, 0x80, 0xc0, 0x100, 0x140].map(block).into());
        let name = |block: u32| (block < 2).then_some(Holder { name: 7, size: 48 });
        let moment = memory.moment();
        let end = Instant::now() + Duration::from_secs(60);
        let places = Places::of(&moment, &blocks, &[], &name, end);
        let told = |block| Some(places.name(places.place(block)?, &|_| "Conn".to_owned()));
        let expected = [
            None,
            None,
            Some("in Conn+0x8"),
            None,
            Some("in Conn+0x10"),
            Some("in Conn+0x8 > +0x8"),
        ];
        let found: Vec<_> = (0..6).map(told).collect();
        assert_eq!(found, expected.map(|name| name.map(str::to_owned)));
    }
}
