//! Bytes of DWARF, read within a budget.
//!
//! gimli and addr2line are safe with hostile input but do as it says: a few kilobytes can ask for
//! gigabytes of file names (each entry repeats its folder), a million units can share one line
//! program, and nested inlined calls are parsed by recursion until the stack ends, which nothing
//! could catch. All they know they ask of this reader; it says no when it has been too much.

use std::{
    borrow::Cow,
    ffi::CStr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use gimli::{Error, ReaderOffsetId, Result, RunTimeEndian};

/// How often an honest file is read over: units and their functions apart, names again.
const PASSES: usize = 8;
/// For small files, where fixed costs outweigh.
const GROUND: usize = 16 << 20;
/// What one more address may cost: a few names.
const PER_LOOKUP: usize = 64 << 10;
/// Bytes of the longest number of 64 bits, seven in each.
const LONGEST: usize = 10;
/// How deep addr2line may recurse: some hundred inlined calls. A thread has two megabytes.
const STACK_LIMIT: usize = 512 << 10;

/// What the readers of one file may still read. Used by one thread at a time, so plain loads and
/// stores will do; they are atomic for `Send`.
#[derive(Debug)]
pub struct Meter {
    left: AtomicUsize,
    lowest_stack: AtomicUsize,
}

impl Default for Meter {
    fn default() -> Self {
        Self { left: GROUND.into(), lowest_stack: 0.into() }
    }
}

impl Meter {
    /// Adds what reading a section of `size` bytes may cost.
    pub fn provide(&self, size: usize) {
        let more = size.saturating_mul(PASSES);
        self.left.store(self.left.load(Relaxed).saturating_add(more), Relaxed);
    }

    /// A lookup begins, at this depth of the stack.
    pub fn begin(&self) {
        self.lowest_stack.store(stack_depth().saturating_sub(STACK_LIMIT), Relaxed);
        self.left.store(self.left.load(Relaxed).saturating_add(PER_LOOKUP), Relaxed);
    }

    fn charge(&self, bytes: usize) -> Result<()> {
        let left = self.left.load(Relaxed).checked_sub(bytes).ok_or(Error::Io)?;
        self.left.store(left, Relaxed);
        if stack_depth() < self.lowest_stack.load(Relaxed) { Err(Error::Io) } else { Ok(()) }
    }
}

/// The stack grows down: a lesser number is deeper.
fn stack_depth() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(&here).addr()
}

/// A section and what may be read of it.
#[derive(Debug)]
struct Section {
    bytes: Vec<u8>,
    endian: RunTimeEndian,
    meter: Arc<Meter>,
}

/// A part of a section.
#[derive(Clone, Debug)]
pub struct Reader {
    section: Arc<Section>,
    start: usize,
    end: usize,
}

impl Reader {
    /// A reader of a whole section.
    pub fn new(bytes: Vec<u8>, endian: RunTimeEndian, meter: Arc<Meter>) -> Self {
        let end = bytes.len();
        Self { section: Arc::new(Section { bytes, endian, meter }), start: 0, end }
    }

    fn bytes(&self) -> &[u8] {
        self.section.bytes.get(self.start..self.end).unwrap_or_default()
    }

    fn charge(&self, bytes: usize) -> Result<()> {
        self.section.meter.charge(bytes)
    }

    /// Where `length` bytes from here end, if there are so many.
    fn after(&self, length: usize) -> Result<usize> {
        let end = self.start.checked_add(length).filter(|end| *end <= self.end);
        end.ok_or(TOO_SHORT)
    }

    /// Leaves so many bytes behind that there are.
    fn pass(&mut self, length: usize) -> Result<()> {
        self.charge(length)?;
        self.start += length;
        Ok(())
    }
}

const TOO_SHORT: Error = Error::UnexpectedEof(ReaderOffsetId(0));

impl gimli::Reader for Reader {
    type Endian = RunTimeEndian;
    type Offset = usize;

    fn endian(&self) -> RunTimeEndian {
        self.section.endian
    }

    fn len(&self) -> usize {
        self.end - self.start
    }

    fn empty(&mut self) {
        self.end = self.start;
    }

    fn truncate(&mut self, length: usize) -> Result<()> {
        self.end = self.after(length)?;
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.start.saturating_sub(base.start)
    }

    // Only for messages, which are never shown.
    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(0)
    }

    fn lookup_offset_id(&self, _id: ReaderOffsetId) -> Option<usize> {
        None
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let found = match byte {
            // Names end with it; they are long, and the standard library looks at many bytes at once.
            0 => CStr::from_bytes_until_nul(self.bytes()).ok().map(CStr::count_bytes),
            _ => self.bytes().iter().position(|&other| other == byte),
        };
        self.charge(found.unwrap_or(self.len()))?;
        found.ok_or(TOO_SHORT)
    }

    // What follows gimli would do byte by byte, each of them measured: most of DWARF is such numbers.

    #[inline]
    fn read_u8(&mut self) -> Result<u8> {
        let byte = *self.bytes().first().ok_or(TOO_SHORT)?;
        self.pass(1)?;
        Ok(byte)
    }

    fn skip_leb128(&mut self) -> Result<()> {
        let last = self.bytes().iter().position(|byte| *byte < 0x80).ok_or(TOO_SHORT)?;
        self.pass(last + 1)
    }

    fn read_uleb128(&mut self) -> Result<u64> {
        let mut number = 0;
        for (at, &byte) in self.bytes().iter().take(LONGEST).enumerate() {
            if at == LONGEST - 1 && byte > 1 {
                return Err(Error::BadUnsignedLeb128);
            }
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.pass(at + 1)?;
                return Ok(number);
            }
        }
        Err(TOO_SHORT)
    }

    fn skip(&mut self, length: usize) -> Result<()> {
        self.charge(1)?;
        self.start = self.after(length)?;
        Ok(())
    }

    fn split(&mut self, length: usize) -> Result<Self> {
        self.charge(1)?;
        let middle = self.after(length)?;
        let first = Self { end: middle, ..self.clone() };
        self.start = middle;
        Ok(first)
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.charge(self.len())?;
        Ok(self.bytes().into())
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        self.charge(self.len())?;
        str::from_utf8(self.bytes()).map(Into::into).map_err(|_| Error::BadUtf8)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        self.charge(self.len())?;
        Ok(String::from_utf8_lossy(self.bytes()))
    }

    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.charge(buffer.len())?;
        let end = self.after(buffer.len())?;
        let bytes = self.section.bytes.get(self.start..end).ok_or(Error::Io)?;
        buffer.copy_from_slice(bytes);
        self.start = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use gimli::{EndianSlice, Reader as _};
    use proptest::prelude::*;

    use super::*;

    fn reader(bytes: &[u8], left: usize) -> Reader {
        let meter = Meter { left: left.into(), ..Meter::default() };
        Reader::new(bytes.to_vec(), RunTimeEndian::Little, Arc::new(meter))
    }

    #[test]
    fn reads_and_splits_as_any_reader() {
        let mut whole = reader(b"\x02\x01text\0rest", 1000);
        assert_eq!(whole.read_u16(), Ok(0x102));
        let text = whole.read_null_terminated_slice().unwrap();
        assert_eq!((text.to_string().unwrap().as_ref(), text.len()), ("text", 4));
        assert_eq!(whole.to_slice().unwrap().as_ref(), b"rest");
        assert!(whole.skip(5).is_err() && whole.split(usize::MAX).is_err());
        assert!(whole.read_u64().is_err() && whole.truncate(5).is_err());
        assert_eq!(whole.len(), 4);
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_gimli_reads_them(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x7e..=0x82u8, 0xfe..=0xffu8], 0..24),
        ) {
            let mut own = reader(&bytes, 1000);
            let mut other = EndianSlice::new(&bytes, RunTimeEndian::Little);
            while !other.is_empty() {
                let (mut own_past, mut other_past) = (own.clone(), other);
                prop_assert_eq!(own_past.skip_leb128().is_ok(), other_past.skip_leb128().is_ok());
                let (number, expected) = (own.read_uleb128(), other.read_uleb128());
                prop_assert_eq!(number.ok(), expected.ok());
                if expected.is_err() {
                    break;
                }
                prop_assert_eq!((own.len(), own_past.len()), (other.len(), other_past.len()));
                prop_assert_eq!(own.read_u8().ok(), other.read_u8().ok());
                let (end, expected) = (own.find(0).ok(), gimli::Reader::find(&other, 0).ok());
                prop_assert_eq!(end, expected);
            }
        }
    }

    #[test]
    fn what_was_read_is_gone_from_the_measure() {
        let mut whole = reader(&[0; 100], 10);
        assert!(whole.read_u64().is_ok());
        assert_eq!(whole.read_u64(), Err(Error::Io));
        assert!(whole.to_string_lossy().is_err());
    }

    #[test]
    fn a_recursion_ends_before_the_stack_does() {
        fn read_and_dive(reader: &Reader, depth: u64) -> u64 {
            match reader.clone().read_u8() {
                Ok(_) => std::hint::black_box(read_and_dive(reader, depth + 1)),
                Err(_) => depth,
            }
        }
        let whole = reader(&[0; 1], usize::MAX / 2);
        whole.section.meter.begin();
        assert!(read_and_dive(&whole, 0) > 100);
    }
}
