//! One arena of an allocator, as if it were all of it: what counts blocks then counts those of that arena.

use crate::{Answer, Arena, Block, Moment, Sink, Walker};

/// A walker that tells the blocks of one arena.
pub struct OneArena<'w> {
    walker: &'w dyn Walker,
    arena: u32,
}

impl<'w> OneArena<'w> {
    /// Of the arena with this number among those of `walker`.
    pub fn new(walker: &'w dyn Walker, arena: u32) -> Self {
        Self { walker, arena }
    }
}

impl Walker for OneArena<'_> {
    fn name(&self) -> &'static str {
        self.walker.name()
    }

    fn walk(&self, moment: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
        let mut only = Only { sink, arena: self.arena };
        match self.walker.walk(moment, &mut only) {
            Answer::Walked(mut walk) => {
                // The numbers of arenas stay what they are.
                for (number, arena) in (0..).zip(&mut walk.arenas) {
                    if number != self.arena {
                        *arena = Arena::default();
                    }
                }
                Answer::Walked(walk)
            }
            other => other,
        }
    }

    fn is_inner(&self) -> bool {
        self.walker.is_inner()
    }

    fn has_wide_classes(&self) -> bool {
        self.walker.has_wide_classes()
    }

    fn is_musl_only(&self) -> bool {
        self.walker.is_musl_only()
    }

    fn moves_batches(&self) -> bool {
        self.walker.moves_batches()
    }
}

/// The blocks of an arena go on.
struct Only<'s> {
    sink: &'s mut dyn Sink,
    arena: u32,
}

impl Sink for Only<'_> {
    fn block(&mut self, block: Block) {
        if block.arena == self.arena {
            self.sink.block(block);
        }
    }

    fn unit(&mut self, range: std::ops::Range<u64>) {
        self.sink.unit(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Census, NoMemory, State, Walk};

    struct Two;

    impl Walker for Two {
        fn name(&self) -> &'static str {
            "two"
        }

        fn walk(&self, _: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
            for (at, arena) in [(0x1000, 0), (0x2000, 1), (0x3000, 1)] {
                sink.block(Block { at, size: 48, state: State::Used, arena, class: 0 });
            }
            let arena = |name: &str| Arena { name: name.to_owned(), ..Arena::default() };
            Answer::Walked(Walk {
                arenas: vec![arena("main"), arena("arena 1")],
                ..Walk::default()
            })
        }
    }

    #[test]
    fn blocks_of_other_arenas_are_not_counted() {
        let moment = Moment::new(&NoMemory, Vec::new(), Vec::new());
        for (arena, blocks) in [(0, 1), (1, 2), (2, 0)] {
            let census = Census::take(&moment, &[&OneArena::new(&Two, arena)]);
            let used: u64 = census.sizes.largest(9).iter().map(|row| row.used).sum();
            assert_eq!(used, blocks, "arena {arena}");
        }
    }
}
