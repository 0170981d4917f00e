//! One column of a row group: values, and the pages that they become.
//!
//! Numbers are differences, or numbers of a dictionary, whichever is shorter; texts are in a dictionary where
//! at least half of them are repeated. A column is compressed where that makes it smaller by an eighth: what is
//! packed well already is read faster as it is. No value is missing: there are no levels.

use std::{
    collections::HashMap,
    hash::Hash,
    io::{self, Write},
};

use flate2::{Compression, write::GzEncoder};

use super::{bits, delta, thrift::Struct};

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
    pub const DELTA_BINARY_PACKED: i32 = 5;
    pub const RLE_DICTIONARY: i32 = 8;
}

/// Kinds of pages.
pub mod page {
    pub const DATA: i32 = 0;
    pub const DICTIONARY: i32 = 2;
}

/// Ways to compress.
pub mod codec {
    pub const NONE: i32 = 0;
    pub const GZIP: i32 = 2;
}

/// Fewer bits a value than that no dictionary takes.
const FEW_BITS: usize = 2;

/// A text that is longer is not told as the least or the greatest.
const LONGEST_END: usize = 64;

/// What the footer must tell of a column.
pub struct Chunk {
    /// How its pages are compressed.
    pub codec: i32,
    /// How its values are written.
    pub encoding: i32,
    /// How long its pages are.
    pub compressed: usize,
    /// How long the dictionary is; 0 if there is none.
    pub dictionary: usize,
    /// How long all would be if it was not compressed.
    pub uncompressed: usize,
    /// How many values it has.
    pub values: usize,
    /// The least and the greatest, as `PLAIN` has them, but without the length of a text.
    pub ends: Option<[Vec<u8>; 2]>,
}

/// Pages before they are compressed: that of a dictionary with how many values it has, and that of the values.
struct Pages {
    dictionary: Option<(Vec<u8>, usize)>,
    data: Vec<u8>,
    encoding: i32,
}

impl Values {
    /// None yet.
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Number | Kind::Time => Self::Numbers(Vec::new()),
            Kind::Text => Self::Texts(Vec::new()),
        }
    }

    /// The same values in another order.
    pub fn arrange(&mut self, order: &[usize]) {
        match self {
            Self::Numbers(numbers) => *numbers = order.iter().map(|&at| numbers[at]).collect(),
            Self::Texts(texts) => {
                *texts = order.iter().map(|&at| std::mem::take(&mut texts[at])).collect();
            }
        }
    }

    /// The column as pages.
    pub fn chunk(&self) -> io::Result<(Chunk, Vec<u8>)> {
        match self {
            Self::Numbers(numbers) => {
                let ends = [numbers.iter().min(), numbers.iter().max()];
                let ends = ends.map(|end| end.map_or_else(Vec::new, |n| n.to_le_bytes().to_vec()));
                compressed(&number_pages(numbers), numbers.len(), Some(ends))
            }
            Self::Texts(texts) => {
                let ends = [texts.iter().min(), texts.iter().max()];
                let ends = ends.map(|end| end.map_or_else(Vec::new, |t| t.as_bytes().to_vec()));
                let are_short = ends.iter().all(|end| end.len() <= LONGEST_END);
                compressed(&text_pages(texts), texts.len(), are_short.then_some(ends))
            }
        }
    }
}

/// Differences, or a dictionary.
fn number_pages(numbers: &[i64]) -> Pages {
    let plain = |number: &i64, out: &mut Vec<u8>| out.extend_from_slice(&number.to_le_bytes());
    let data = delta::encoded(numbers);
    let is_short = data.len() <= numbers.len() * FEW_BITS / 8;
    let in_dictionary = if is_short { None } else { dictionary(numbers, numbers.len() / 2, plain) };
    match in_dictionary {
        Some(pages) if pages.len() < data.len() => pages,
        _ => Pages { dictionary: None, data, encoding: encoding::DELTA_BINARY_PACKED },
    }
}

fn text_pages(texts: &[String]) -> Pages {
    dictionary(texts, texts.len() / 2, plain_text).unwrap_or_else(|| {
        let mut data = Vec::new();
        texts.iter().for_each(|text| plain_text(text, &mut data));
        Pages { dictionary: None, data, encoding: encoding::PLAIN }
    })
}

/// A text that is longer than its length can say is cut before that: no name is.
fn plain_text(text: &String, out: &mut Vec<u8>) {
    let len = u32::try_from(text.len()).unwrap_or(0);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..len as usize]);
}

/// The values as numbers of a dictionary; nothing, if it would have more than `most`.
fn dictionary<T: Eq + Hash>(
    values: &[T],
    most: usize,
    plain: impl Fn(&T, &mut Vec<u8>),
) -> Option<Pages> {
    let mut numbers = HashMap::new();
    let (mut content, mut indices) = (Vec::new(), Vec::with_capacity(values.len()));
    for value in values {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let number = *numbers.entry(value).or_insert_with(|| {
            plain(value, &mut content);
            next
        });
        indices.push(number);
        if numbers.len() > most {
            return None;
        }
    }
    let data = bits::runs(&indices, numbers.len());
    let dictionary = Some((content, numbers.len()));
    Some(Pages { dictionary, data, encoding: encoding::RLE_DICTIONARY })
}

impl Pages {
    fn len(&self) -> usize {
        self.dictionary.as_ref().map_or(0, |(content, _)| content.len()) + self.data.len()
    }
}

/// The pages one after the other, and what the footer must tell of them.
fn compressed(
    pages: &Pages,
    values: usize,
    ends: Option<[Vec<u8>; 2]>,
) -> io::Result<(Chunk, Vec<u8>)> {
    let data = gzip(&pages.data)?;
    let dictionary = pages.dictionary.as_ref().map(|(content, _)| gzip(content)).transpose()?;
    let short = data.len() + dictionary.as_ref().map_or(0, Vec::len);
    let is_worth_it = short + pages.len() / 8 < pages.len();
    let codec = if is_worth_it { codec::GZIP } else { codec::NONE };
    let mut chunk = Chunk {
        codec,
        encoding: pages.encoding,
        compressed: 0,
        dictionary: 0,
        uncompressed: 0,
        values,
        ends,
    };
    let mut out = Vec::new();
    let chosen = |short, content| if is_worth_it { short } else { content };
    if let (Some((content, count)), Some(short)) = (&pages.dictionary, &dictionary) {
        let bytes = chosen(short, content);
        chunk.page(&mut out, bytes, content.len(), page::DICTIONARY, (*count, encoding::PLAIN))?;
        chunk.dictionary = out.len();
    }
    let bytes = chosen(&data, &pages.data);
    chunk.page(&mut out, bytes, pages.data.len(), page::DATA, (values, pages.encoding))?;
    Ok((chunk, out))
}

fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content)?;
    encoder.finish()
}

impl Chunk {
    /// Adds a page of so many values in this encoding, which was so long before it was compressed.
    fn page(
        &mut self,
        pages: &mut Vec<u8>,
        bytes: &[u8],
        length: usize,
        kind: i32,
        (values, coded): (usize, i32),
    ) -> io::Result<()> {
        let mut header = Struct::default();
        header.i32(1, kind);
        header.i32(2, size(length)?);
        header.i32(3, size(bytes.len())?);
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
        self.uncompressed += header.len() + length;
        self.compressed += header.len() + bytes.len();
        pages.extend(header);
        pages.extend(bytes);
        Ok(())
    }
}

/// The format has 31 bits for what is in a page.
fn size(bytes: usize) -> io::Result<i32> {
    i32::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge.into())
}
