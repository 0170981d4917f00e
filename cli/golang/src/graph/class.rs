//! Size classes: what size an object has that was allocated with another.

use super::span::PAGE;

/// Objects up to this size are of a class.
const LARGEST: u64 = 32768;
/// Larger ones with pointers have a type before them, from go1.22 on.
const WITH_HEAD: u64 = 512;
const HEAD: u64 = 8;

/// The classes.
const SIZES: [u16; 67] = [
    8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352,
    384, 416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048,
    2304, 2688, 3072, 3200, 3456, 4096, 4864, 5120, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728,
    10240, 10880, 12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264, 28672,
];

/// The size of the object that a value of this size gets.
pub fn object_size(value: u64, has_pointers: bool, has_heads: bool) -> u64 {
    let with_head = has_heads && has_pointers && value > WITH_HEAD;
    let whole = if with_head && value + HEAD <= LARGEST { value + HEAD } else { value };
    if whole > LARGEST {
        return whole.next_multiple_of(PAGE);
    }
    let class = SIZES.partition_point(|size| u64::from(*size) < whole);
    SIZES.get(class).map_or(LARGEST, |size| u64::from(*size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_gets_the_next_class_and_a_large_one_whole_pages() {
        assert_eq!((object_size(1, false, true), object_size(48, true, true)), (8, 48));
        assert_eq!((object_size(49, false, true), object_size(30000, false, true)), (64, 32768));
        assert_eq!(object_size(32769, false, true), 40960);
        // The type before it makes it larger.
        assert_eq!((object_size(1024, true, true), object_size(1024, true, false)), (1152, 1024));
    }
}
