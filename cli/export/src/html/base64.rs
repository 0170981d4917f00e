//! Bytes as text of 64 letters: hashes of the policy, and packed data.

use std::io::{self, Write};

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes on what it is given as such text. It must be finished: until then one or two bytes wait for a
/// third.
pub struct Base64<W> {
    out: W,
    /// Up to two bytes.
    waiting: Vec<u8>,
    /// For the letters of what is written.
    letters: Vec<u8>,
}

impl<W: Write> Base64<W> {
    /// Into this.
    pub fn new(out: W) -> Self {
        Self { out, waiting: Vec::new(), letters: Vec::new() }
    }

    /// Writes what waits.
    pub fn finish(mut self) -> io::Result<W> {
        let rest = std::mem::take(&mut self.waiting);
        if !rest.is_empty() {
            self.out.write_all(&four(&rest))?;
        }
        Ok(self.out)
    }
}

impl<W: Write> Write for Base64<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        if !self.waiting.is_empty() {
            let missing = (3 - self.waiting.len()).min(rest.len());
            self.waiting.extend_from_slice(&rest[..missing]);
            rest = &rest[missing..];
            if self.waiting.len() == 3 {
                self.out.write_all(&four(&self.waiting))?;
                self.waiting.clear();
            }
        }
        let (whole, left) = rest.split_at(rest.len() / 3 * 3);
        self.letters.clear();
        self.letters.reserve(whole.len() / 3 * 4);
        whole.chunks_exact(3).for_each(|three| self.letters.extend(four(three)));
        self.out.write_all(&self.letters)?;
        self.waiting.extend_from_slice(left);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// As text.
pub fn base64(bytes: &[u8]) -> String {
    bytes.chunks(3).flat_map(four).map(char::from).collect()
}

/// Of up to three bytes.
fn four(three: &[u8]) -> [u8; 4] {
    let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
    let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    std::array::from_fn(|at| {
        let value = (bits >> (18 - 6 * at)) & 63;
        if at <= three.len() { LETTERS[value as usize] } else { b'=' }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [(&str, &str); 5] =
        [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar?>", "Zm9vYmFyPz4=")];

    #[test]
    fn it_is_that_of_its_standard() {
        for (bytes, text) in TABLE {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn it_does_not_matter_in_which_pieces_bytes_come() {
        for (bytes, text) in TABLE {
            for piece in 1..4 {
                let mut out = Base64::new(Vec::new());
                bytes.as_bytes().chunks(piece).for_each(|piece| out.write_all(piece).unwrap());
                assert_eq!(out.finish().unwrap(), text.as_bytes(), "{piece}");
            }
        }
    }
}
