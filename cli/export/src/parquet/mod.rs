//! Parquet files: flat tables without missing values, a part of the rows at a time.
//!
//! As much of the format as our tables need, and by hand: the crate that writes all of it is larger than
//! the rest of this program. No more than [`ROWS`] rows are in memory.
//!
//! ```text
//! PAR1  row group: column: [dictionary page] data page, ...  ...  footer  its length  PAR1
//! ```

mod bits;
mod column;
#[cfg(test)]
pub mod decoded;
mod delta;
mod thrift;

use std::io::{self, Write};

pub use column::Kind;
use column::{Chunk, Values, encoding};
use thrift::Struct;

/// So many rows are a row group.
const ROWS: usize = 64 << 10;

const MAGIC: &[u8] = b"PAR1";

/// The names and kinds of a table's columns.
pub type Schema = [(&'static str, Kind)];

/// What a row has in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, or a time.
    Number(i64),
    /// A text.
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A table, while it is written.
pub struct Table<'a, W: Write> {
    out: W,
    schema: &'a Schema,
    columns: Vec<Values>,
    /// By these the rows of a group are sorted.
    sorted_by: &'a [usize],
    /// In `columns`.
    waiting: usize,
    groups: Vec<Group>,
    at: usize,
}

/// A row group that was written.
struct Group {
    rows: usize,
    /// Where each column begins, and what it is.
    columns: Vec<(usize, Chunk)>,
}

impl<'a, W: Write> Table<'a, W> {
    /// Begins a file.
    pub fn new(mut out: W, schema: &'a Schema) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        let (columns, groups, at) = (columns(schema), Vec::new(), MAGIC.len());
        Ok(Self { out, schema, columns, sorted_by: &[], waiting: 0, groups, at })
    }

    /// The same, the rows of each group in the order of these columns of numbers: what follows one another there
    /// differs little, and takes little room.
    #[must_use]
    pub fn sorted_by(self, columns: &'a [usize]) -> Self {
        Self { sorted_by: columns, ..self }
    }

    /// Adds a row; there is a value for each column, of its kind.
    pub fn row(&mut self, row: impl IntoIterator<Item = Value>) -> io::Result<()> {
        let mut filled = 0;
        for (column, value) in self.columns.iter_mut().zip(row) {
            match (column, value) {
                (Values::Numbers(numbers), Value::Number(number)) => numbers.push(number),
                (Values::Texts(texts), Value::Text(text)) => texts.push(text),
                _ => return Err(io::Error::other("a value of another kind than its column")),
            }
            filled += 1;
        }
        if filled != self.schema.len() {
            return Err(io::Error::other("a row with fewer values than columns"));
        }
        self.waiting += 1;
        if self.waiting == ROWS { self.group() } else { Ok(()) }
    }

    /// Writes the rows that wait.
    fn group(&mut self) -> io::Result<()> {
        let mut group = Group { rows: self.waiting, columns: Vec::new() };
        self.sort();
        for values in std::mem::replace(&mut self.columns, columns(self.schema)) {
            let (chunk, bytes) = values.chunk()?;
            self.out.write_all(&bytes)?;
            group.columns.push((self.at, chunk));
            self.at += bytes.len();
        }
        self.waiting = 0;
        self.groups.push(group);
        Ok(())
    }

    fn sort(&mut self) {
        let keys = self.sorted_by.iter().filter_map(|&at| match &self.columns[at] {
            Values::Numbers(numbers) => Some(numbers),
            Values::Texts(_) => None,
        });
        let keys: Vec<_> = keys.collect();
        if keys.is_empty() {
            return;
        }
        let key = |row: usize| keys.iter().map(move |numbers| numbers[row]);
        let mut order: Vec<usize> = (0..self.waiting).collect();
        order.sort_by(|&a, &b| key(a).cmp(key(b)));
        self.columns.iter_mut().for_each(|values| values.arrange(&order));
    }

    /// Writes the footer, with `about` for readers of the file.
    pub fn finish(mut self, about: &[(&str, &str)]) -> io::Result<()> {
        if self.waiting > 0 {
            self.group()?;
        }
        let footer = self.footer(about).finish();
        self.out.write_all(&footer)?;
        let len = u32::try_from(footer.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.out.write_all(&len.to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        self.out.flush()
    }

    fn footer(&self, about: &[(&str, &str)]) -> Struct {
        let mut footer = Struct::default();
        footer.i32(1, 1);
        let mut root = Struct::default();
        root.text(4, "heapattach");
        root.i32(5, i32::try_from(self.schema.len()).unwrap_or(i32::MAX));
        let elements = self.schema.iter().map(|(name, kind)| element(name, *kind));
        let elements: Vec<_> = [root].into_iter().chain(elements).collect();
        footer.structs(2, elements.into_iter());
        footer.i64(3, whole(self.groups.iter().map(|group| group.rows).sum()));
        let ends = self.groups.iter().map(|group| self.told(group));
        footer.structs(4, ends);
        let about = about.iter().map(|(key, value)| {
            let mut pair = Struct::default();
            pair.text(1, key);
            pair.text(2, value);
            pair
        });
        footer.structs(5, about);
        footer.text(6, concat!("heapattach version ", env!("CARGO_PKG_VERSION")));
        // The least and the greatest of a column are those of its type's order.
        let orders = self.schema.iter().map(|_| {
            let mut order = Struct::default();
            order.inner(1, Struct::default());
            order
        });
        footer.structs(7, orders);
        footer
    }

    fn told(&self, group: &Group) -> Struct {
        let mut told = Struct::default();
        let columns = group.columns.iter().zip(self.schema);
        told.structs(
            1,
            columns.map(|((begin, chunk), (name, kind))| of_chunk(*begin, chunk, name, *kind)),
        );
        told.i64(2, whole(group.columns.iter().map(|(_, chunk)| chunk.uncompressed).sum()));
        told.i64(3, whole(group.rows));
        told
    }
}

fn columns(schema: &Schema) -> Vec<Values> {
    schema.iter().map(|(_, kind)| Values::new(*kind)).collect()
}

/// The types of the format, and what they stand for.
fn types(kind: Kind) -> (i32, Option<i32>) {
    const INT64: i32 = 2;
    const BYTE_ARRAY: i32 = 6;
    const UTF8: i32 = 0;
    const TIMESTAMP_MILLIS: i32 = 9;
    match kind {
        Kind::Number => (INT64, None),
        Kind::Time => (INT64, Some(TIMESTAMP_MILLIS)),
        Kind::Text => (BYTE_ARRAY, Some(UTF8)),
    }
}

fn element(name: &str, kind: Kind) -> Struct {
    const REQUIRED: i32 = 0;
    let (physical, meaning) = types(kind);
    let mut element = Struct::default();
    element.i32(1, physical);
    element.i32(3, REQUIRED);
    element.text(4, name);
    if let Some(meaning) = meaning {
        element.i32(6, meaning);
    }
    element
}

fn of_chunk(begin: usize, chunk: &Chunk, name: &str, kind: Kind) -> Struct {
    let mut about = Struct::default();
    about.i32(1, types(kind).0);
    about.numbers(2, &[encoding::PLAIN, encoding::RLE, chunk.encoding]);
    about.texts(3, &[name]);
    about.i32(4, chunk.codec);
    about.i64(5, whole(chunk.values));
    about.i64(6, whole(chunk.uncompressed));
    about.i64(7, whole(chunk.compressed));
    about.i64(9, whole(begin + chunk.dictionary));
    if chunk.dictionary > 0 {
        about.i64(11, whole(begin));
    }
    if let Some([least, greatest]) = &chunk.ends {
        let mut ends = Struct::default();
        ends.i64(3, 0);
        ends.binary(5, greatest);
        ends.binary(6, least);
        about.inner(12, ends);
    }
    let mut column = Struct::default();
    column.i64(2, whole(begin));
    column.inner(3, about);
    column
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
