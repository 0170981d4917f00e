//! Buffers for copies of stacks whose bounds are not known: a coroutine's, a signal handler's.

/// Buffers; a walk that finds none free does without.
pub const COPIES: usize = 64;
/// Offset of the address that its bytes were copied from.
pub const FROM: usize = 0;
/// Offset of their number.
pub const LENGTH: usize = 8;
/// Places for pages of other memory that a look keeps.
pub const PAGES: usize = 64;
/// Pages that are copied with one call, at most.
pub const BATCH: usize = 32;
/// Offset of what tells the kernel where to copy from and to: pairs of address and length.
pub const VECTORS: usize = 32;
/// How many there is room for: a page, and where it comes from.
pub const VECTOR_COUNT: usize = 2 * BATCH;
/// Offset of the places that are to be copied together: pairs of address and length.
pub const WANTED: usize = VECTORS + VECTOR_COUNT * 16;
/// How many there is room for.
pub const WANTED_COUNT: usize = 32;
/// Offset of words that are read together: four at most.
pub const WORDS: usize = WANTED + WANTED_COUNT * 16;
/// Offset of bits, one for each place of a page: of which it is known in this look whether it is there.
pub const KNOWN: usize = WORDS + 32;
/// The same of those that this look needed, or the last one that copied any.
pub const NEEDED: usize = KNOWN + 8;
/// The same of those that are to be copied with the next call, or must stay.
pub const TAKEN: usize = NEEDED + 8;
/// Offset of the number of those that are to be copied.
pub const WAITING: usize = TAKEN + 8;
/// Offset of the addresses of the pages, plus 1 if they are not there.
pub const TAGS: usize = WAITING + 8;
/// Offset of words of many places that were copied in one look.
pub const GATHERED: usize = TAGS + PAGES * 8;
/// How many there is room for.
pub const GATHERED_COUNT: usize = 128;
/// Offset of the bytes: of a piece of a stack, or of the pages.
pub const DATA: usize = (GATHERED + GATHERED_COUNT * 8).next_multiple_of(64);
/// Pages of which it is remembered that they are there.
pub const PROOFS: usize = 1 << 11;
/// Offset of these: pairs of a page, and what it is.
pub const PROVEN: usize = (DATA + PAGES * 4096).next_multiple_of(64);
/// Offset of words that the thread which uses the buffer puts aside.
pub const ASIDE: usize = PROVEN + PROOFS * 16;
/// How many there is room for.
pub const ASIDE_COUNT: usize = 32;
/// Size of a buffer.
pub const COPY_BYTES: usize = ASIDE + ASIDE_COUNT * 8;

const _: () = assert!(COPY_BYTES.is_multiple_of(64));
const _: () = assert!(GATHERED + GATHERED_COUNT * 8 <= DATA);
