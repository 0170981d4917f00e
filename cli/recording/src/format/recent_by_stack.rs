//! Blocks that one stack allocated lately, and that are not freed.

/// So many are remembered; with them a shelf is a cache line.
pub const BLOCKS: usize = 4;

/// A block, as it is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Its size.
    pub size: u32,
    /// When it was allocated.
    pub birth: u32,
    /// Its number among all.
    pub number: u32,
}

/// The youngest is the last.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub struct Shelf {
    blocks: [Remembered; BLOCKS],
    count: u8,
    /// What the last ones were that were freed, two bits each: see `Model::birth`.
    pub course: u8,
    /// The size of the last one that was put here.
    pub last: u32,
    /// When the last one that was freed was allocated.
    pub freed: u32,
}

const _: () = assert!(size_of::<Shelf>() == 64, "a cache line");

impl Shelf {
    /// Another one; the oldest may have to go.
    pub fn put(&mut self, block: Remembered) {
        if usize::from(self.count) == BLOCKS {
            self.take(0);
        }
        self.blocks[usize::from(self.count)] = block;
        self.count += 1;
        self.last = block.size;
    }

    /// Those that are here.
    pub fn all(&self) -> &[Remembered] {
        &self.blocks[..usize::from(self.count)]
    }

    /// Takes one away.
    pub fn take(&mut self, at: usize) -> Remembered {
        let block = self.blocks[at];
        self.blocks.copy_within(at + 1..usize::from(self.count), at);
        self.count -= 1;
        block
    }

    /// Takes the youngest of those that are like this.
    pub fn take_if(&mut self, like: impl Fn(&Remembered) -> bool) -> Option<Remembered> {
        self.all().iter().rposition(like).map(|at| self.take(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_the_youngest_is_found_first() {
        let mut shelf = Shelf::default();
        (0..6).for_each(|number| shelf.put(Remembered { size: number % 2, birth: 0, number }));
        let numbers = |shelf: &Shelf| shelf.all().iter().map(|b| b.number).collect::<Vec<_>>();
        assert_eq!(numbers(&shelf), [2, 3, 4, 5]);
        assert_eq!(shelf.take_if(|block| block.size == 0).map(|block| block.number), Some(4));
        assert_eq!(shelf.take_if(|block| block.size == 7), None);
        assert_eq!((numbers(&shelf), shelf.last), (vec![2, 3, 5], 1));
    }
}
