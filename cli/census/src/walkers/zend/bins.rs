//! The sizes of small blocks: a run of pages for each, cut into blocks of one size.

/// How runs of a size are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bin {
    /// The bytes of a block.
    pub size: u64,
    /// Blocks of a run.
    pub blocks: usize,
    /// Pages of a run.
    pub pages: usize,
}

/// By the number that the map of a chunk has; the same in all releases.
pub(super) const BINS: [Bin; 30] = [
    bin(8, 512, 1),
    bin(16, 256, 1),
    bin(24, 170, 1),
    bin(32, 128, 1),
    bin(40, 102, 1),
    bin(48, 85, 1),
    bin(56, 73, 1),
    bin(64, 64, 1),
    bin(80, 51, 1),
    bin(96, 42, 1),
    bin(112, 36, 1),
    bin(128, 32, 1),
    bin(160, 25, 1),
    bin(192, 21, 1),
    bin(224, 18, 1),
    bin(256, 16, 1),
    bin(320, 64, 5),
    bin(384, 32, 3),
    bin(448, 9, 1),
    bin(512, 8, 1),
    bin(640, 32, 5),
    bin(768, 16, 3),
    bin(896, 9, 2),
    bin(1024, 8, 2),
    bin(1280, 16, 5),
    bin(1536, 8, 3),
    bin(1792, 16, 7),
    bin(2048, 8, 4),
    bin(2560, 8, 5),
    bin(3072, 4, 3),
];

const fn bin(size: u64, blocks: usize, pages: usize) -> Bin {
    Bin { size, blocks, pages }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_run_fill_its_pages() {
        for Bin { size, blocks, pages } in BINS {
            let rest = pages as u64 * 4096 - size * blocks as u64;
            assert!(rest < size, "{size}: {rest} bytes are left");
        }
    }
}
