//! The compact protocol of Thrift: as much of it as the headers and the footer of a Parquet file need.

/// A struct, while it is put together. Fields come in the order of their numbers.
#[derive(Default)]
pub struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

impl Struct {
    /// Adds a number of 32 bits.
    pub fn i32(&mut self, field: u8, number: i32) {
        self.header(field, I32);
        varint(&mut self.bytes, zigzag(number.into()));
    }

    /// Adds a number of 64 bits.
    pub fn i64(&mut self, field: u8, number: i64) {
        self.header(field, I64);
        varint(&mut self.bytes, zigzag(number));
    }

    /// Adds a text.
    pub fn text(&mut self, field: u8, text: &str) {
        self.binary(field, text.as_bytes());
    }

    /// Adds bytes.
    pub fn binary(&mut self, field: u8, bytes: &[u8]) {
        self.header(field, BINARY);
        varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a struct.
    pub fn inner(&mut self, field: u8, inner: Self) {
        self.header(field, STRUCT);
        self.bytes.extend(inner.finish());
    }

    /// Adds a list of structs.
    pub fn structs(&mut self, field: u8, list: impl ExactSizeIterator<Item = Self>) {
        self.list(field, STRUCT, list.len());
        list.for_each(|inner| self.bytes.extend(inner.finish()));
    }

    /// Adds a list of numbers of 32 bits.
    pub fn numbers(&mut self, field: u8, list: &[i32]) {
        self.list(field, I32, list.len());
        list.iter().for_each(|&number| varint(&mut self.bytes, zigzag(number.into())));
    }

    /// Adds a list of texts.
    pub fn texts(&mut self, field: u8, list: &[&str]) {
        self.list(field, BINARY, list.len());
        list.iter().for_each(|text| put_text(&mut self.bytes, text));
    }

    /// All of it, with its end.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    /// The step from the last field and the type share a byte: no struct of Parquet's has greater steps.
    fn header(&mut self, field: u8, kind: u8) {
        self.bytes.push(field.saturating_sub(self.last).min(15) << 4 | kind);
        self.last = field;
    }

    fn list(&mut self, field: u8, kind: u8, len: usize) {
        self.header(field, LIST);
        match u8::try_from(len) {
            Ok(few @ ..15) => self.bytes.push(few << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                varint(&mut self.bytes, len as u64);
            }
        }
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Small numbers of either sign become small ones without.
pub fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

/// Seven bits a byte, the low ones first; the eighth says that more follow.
pub fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_the_specification_has_them() {
        let mut told = Struct::default();
        told.i32(1, -1);
        told.text(4, "ab");
        told.numbers(5, &[1, 2]);
        told.i64(6, 64);
        let inner = Struct::default();
        told.inner(8, inner);
        assert_eq!(
            told.finish(),
            [0x15, 1, 0x38, 2, b'a', b'b', 0x19, 0x25, 2, 4, 0x16, 0x80, 1, 0x2c, 0, 0]
        );
    }

    #[test]
    fn a_long_list_tells_its_length_apart() {
        let mut told = Struct::default();
        told.structs(1, (0..15).map(|_| Struct::default()));
        assert_eq!(told.finish()[..3], [0x19, 0xfc, 15]);
    }

    #[test]
    fn the_greatest_numbers_survive() {
        assert_eq!(zigzag(i64::MIN), u64::MAX);
        assert_eq!(zigzag(i64::MAX), u64::MAX - 1);
    }
}
