//! Fields of protocol buffers: as much of the wire format as a profile needs.

/// A message, while it is put together.
#[derive(Default)]
pub struct Message(Vec<u8>);

/// The field holds a number.
pub const NUMBER: u64 = 0;
/// The field holds eight bytes.
pub const EIGHT_BYTES: u64 = 1;
/// The field holds bytes: a text, a message, many numbers.
pub const BYTES: u64 = 2;

impl Message {
    /// Adds a number. 0 is what a missing one is taken for.
    pub fn number(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.varint(field << 3 | NUMBER);
            self.varint(number);
        }
    }

    /// Adds a number in eight bytes. 0 is what a missing one is taken for.
    pub fn fixed(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.varint(field << 3 | EIGHT_BYTES);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Adds many numbers, as one field.
    pub fn numbers(&mut self, field: u64, numbers: impl IntoIterator<Item = u64>) {
        self.varint(field << 3 | BYTES);
        // Most are so few that their length takes one byte.
        let begin = self.0.len() + 1;
        self.0.push(0);
        numbers.into_iter().for_each(|number| self.varint(number));
        let length = self.0.len() - begin;
        match u8::try_from(length) {
            Ok(short @ ..0x80) => self.0[begin - 1] = short,
            _ => {
                let packed = self.0.split_off(begin);
                self.0.pop();
                self.varint(length as u64);
                self.0.extend(packed);
            }
        }
    }

    /// Nothing is in it any more; its memory is kept for the next one.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds fields that were put together elsewhere.
    pub fn fields(&mut self, fields: &Self) {
        self.0.extend_from_slice(&fields.0);
    }

    /// Adds bytes.
    pub fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a message.
    pub fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    /// What was put together.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same, as bytes of the caller.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Seven bits a byte, the low ones first; the eighth says that more follow.
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push((number & 0x7f) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::decoded::{fields, unpacked},
        *,
    };

    #[test]
    fn numbers_and_texts_are_as_the_encoding_guide_has_them() {
        let mut message = Message::default();
        message.number(1, 150);
        message.bytes(2, b"testing");
        message.numbers(4, [3, 270, 86942]);
        message.number(5, 0);
        let guide = b"\x08\x96\x01\x12\x07testing\x22\x06\x03\x8e\x02\x9e\xa7\x05";
        assert_eq!(message.as_bytes(), guide);
        let read = [(1, 150, &b""[..]), (2, 7, b"testing"), (4, 6, &guide[14..])];
        assert_eq!(fields(guide), read);
        assert_eq!(unpacked(read[2].2), [3, 270, 86942]);
    }

    #[test]
    fn many_numbers_are_told_with_their_length() {
        for count in [0, 1, 127, 128, 129, 20_000] {
            let mut message = Message::default();
            message.number(3, 1);
            message.numbers(4, (0..count).map(|number| number % 128));
            message.number(5, 2);
            let all = fields(message.as_bytes());
            let told: Vec<_> = all.iter().map(|(field, number, _)| (*field, *number)).collect();
            assert_eq!(told, [(3, 1), (4, count), (5, 2)]);
            assert_eq!(unpacked(all[1].2).len() as u64, count);
        }
    }

    #[test]
    fn a_time_has_eight_bytes_and_none_is_left_out() {
        let mut message = Message::default();
        message.fixed(3, 0x0102);
        message.fixed(4, 0);
        assert_eq!(message.into_bytes(), b"\x19\x02\x01\0\0\0\0\0\0");
    }

    #[test]
    fn the_largest_number_has_ten_bytes() {
        let mut message = Message::default();
        message.number(1, u64::MAX);
        assert_eq!(message.as_bytes().len(), 11);
    }
}
