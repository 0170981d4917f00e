//! One column of a row group: values, and the pages that they become.
//!
//! Where at least half of the values are repeated they are numbers of a dictionary, else they are written as
//! they are. No value is missing: there are no levels.

use std::{
    collections::HashMap,
    hash::Hash,
    io::{self, Write},
};

use flate2::{Compression, write::GzEncoder};

use super::thrift::{Struct, varint};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Number,
    /// Milliseconds since 1970, UTC.
    Time,
    /// UTF-8.
    Text,
}

/// Values of a column.
#[derive(Clone, Debug)]
pub enum Values {
    /// Of [`Kind::Number`] and [`Kind::Time`].
    Numbers(Vec<i64>),
    /// Of [`Kind::Text`].
    Texts(Vec<String>),
}

/// Encodings, as the format numbers them.
pub mod encoding {
    pub const PLAIN: i32 = 0;
    pub const RLE: i32 = 3;
    pub const RLE_DICTIONARY: i32 = 8;
}

/// Kinds of pages.
pub mod page {
    pub const DATA: i32 = 0;
    pub const DICTIONARY: i32 = 2;
}

/// What the footer must tell of a column.
#[derive(Default)]
pub struct Chunk {
    /// How long its pages are.
    pub compressed: usize,
    /// How long the dictionary is; 0 if there is none.
    pub dictionary: usize,
    /// How long all would be if it was not compressed.
    pub uncompressed: usize,
    /// How many values it has.
    pub values: usize,
}

impl Values {
    /// None yet.
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Number | Kind::Time => Self::Numbers(Vec::new()),
            Kind::Text => Self::Texts(Vec::new()),
        }
    }

    /// The column as pages.
    pub fn chunk(&self) -> io::Result<(Chunk, Vec<u8>)> {
        match self {
            Self::Numbers(numbers) => chunk(numbers, plain_number),
            Self::Texts(texts) => chunk(texts, plain_text),
        }
    }
}

fn plain_number(number: &i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// A text that is longer than its length can say is cut before that: no name is.
fn plain_text(text: &String, out: &mut Vec<u8>) {
    let len = u32::try_from(text.len()).unwrap_or(0);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..len as usize]);
}

fn chunk<T: Eq + Hash>(
    values: &[T],
    plain: impl Fn(&T, &mut Vec<u8>),
) -> io::Result<(Chunk, Vec<u8>)> {
    let mut numbers = HashMap::new();
    let mut dictionary = Vec::new();
    let indices: Vec<u32> = values
        .iter()
        .map(|value| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(value).or_insert_with(|| {
                plain(value, &mut dictionary);
                next
            })
        })
        .collect();
    let mut chunk = Chunk { values: values.len(), ..Chunk::default() };
    let mut pages = Vec::new();
    if numbers.len() * 2 > values.len() {
        let mut content = Vec::new();
        values.iter().for_each(|value| plain(value, &mut content));
        chunk.page(&mut pages, &content, page::DATA, values.len(), encoding::PLAIN)?;
        return Ok((chunk, pages));
    }
    chunk.page(&mut pages, &dictionary, page::DICTIONARY, numbers.len(), encoding::PLAIN)?;
    chunk.dictionary = pages.len();
    let content = packed(&indices, numbers.len());
    chunk.page(&mut pages, &content, page::DATA, values.len(), encoding::RLE_DICTIONARY)?;
    Ok((chunk, pages))
}

impl Chunk {
    fn page(
        &mut self,
        pages: &mut Vec<u8>,
        content: &[u8],
        kind: i32,
        values: usize,
        coded: i32,
    ) -> io::Result<()> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content)?;
        let compressed = encoder.finish()?;
        let mut header = Struct::default();
        header.i32(1, kind);
        header.i32(2, size(content.len())?);
        header.i32(3, size(compressed.len())?);
        let mut of_kind = Struct::default();
        of_kind.i32(1, size(values)?);
        of_kind.i32(2, coded);
        match kind {
            page::DICTIONARY => header.inner(7, of_kind),
            _ => {
                // Of levels, of which there are none.
                of_kind.i32(3, encoding::RLE);
                of_kind.i32(4, encoding::RLE);
                header.inner(5, of_kind);
            }
        }
        let header = header.finish();
        self.uncompressed += header.len() + content.len();
        self.compressed += header.len() + compressed.len();
        pages.extend(header);
        pages.extend(compressed);
        Ok(())
    }
}

/// The format has 31 bits for what is in a page.
fn size(bytes: usize) -> io::Result<i32> {
    i32::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

/// Numbers of a dictionary: their width, then all of them as one run or as one row of packed bits.
fn packed(indices: &[u32], distinct: usize) -> Vec<u8> {
    // At most 32: a number of a dictionary has no more bits.
    let width = (usize::BITS - distinct.saturating_sub(1).leading_zeros()).clamp(1, 32);
    let mut out = vec![(width & 0xff) as u8];
    if distinct == 1 {
        varint(&mut out, (indices.len() as u64) << 1);
        out.push(0);
        return out;
    }
    let groups = indices.len().div_ceil(8);
    varint(&mut out, (groups as u64) << 1 | 1);
    let (mut bits, mut held) = (0_u64, 0);
    let padding = std::iter::repeat_n(&0, groups * 8 - indices.len());
    for &index in indices.iter().chain(padding) {
        bits |= u64::from(index) << held;
        held += width;
        while held >= 8 {
            out.push((bits & 0xff) as u8);
            bits >>= 8;
            held -= 8;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_are_as_the_format_has_them() {
        // The example of the specification: 0 to 7 in three bits.
        let numbers: Vec<u32> = (0..8).collect();
        assert_eq!(packed(&numbers, 8), [3, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
        assert_eq!(packed(&[0; 300], 1), [1, 0xd8, 4, 0]);
    }
}
