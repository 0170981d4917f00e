//! The functions we know in the symbol table of a file: of a hundred thousand symbols a few, looked for
//! once for a file and then taken from the cache.
//!
//! ```text
//! +0   magic
//! +8   key            once more, against files that were given another name
//! +40  sum of the rest  against damage
//! +48  1 if there is a table
//! +56  rows           number of the name, 1 if chosen at run time; address; size
//! ```
//!
//! Rows are read as any file is: their numbers and their count are bounded, and where they lead is judged as it
//! is for what a module's own table says.

use std::{fs::File, sync::LazyLock};

use crate::module::{
    sizer,
    symbol_file::{Symbol, SymbolFile},
};
use heapattach_entry::functions;
use heapattach_process::cache::{Cache, Key, identity, sum};
use heapattach_process::{
    addr::ImageAddr,
    little_endian::{u32_at, u64_at},
};

const MAGIC: &[u8; 8] = b"HASYMS01";
const HEAD: usize = 56;
const ROW: usize = 24;
/// No honest file has more.
const ROWS: usize = 1 << 16;

/// All names that are looked for.
static NAMES: LazyLock<Vec<&'static [u8]>> =
    LazyLock::new(|| functions::names().chain(sizer::names()).collect());

/// What a table says of functions we know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownSymbols(Vec<Row>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    name: usize,
    at: ImageAddr,
    size: u64,
    indirect: bool,
}

impl KnownSymbols {
    /// Of `file`, whose table, if it has one, is made by `read`. `part` says which table.
    pub(crate) fn of(
        file: &File,
        part: &[u8],
        cache: Option<&Cache>,
        read: impl FnOnce() -> Option<SymbolFile>,
    ) -> Option<Self> {
        let key = || {
            let names = NAMES.join(&0);
            Some(Key::of(&[MAGIC, part, &names, &identity(file)?]))
        };
        let kept = cache.and_then(|cache| Some((cache, key()?)));
        let known = |(cache, key): &(&Cache, Key)| decode(&cache.read(key)?, key);
        if let Some(known) = kept.as_ref().and_then(known) {
            return known;
        }
        let found = read().map(|symbols| Self::among(&symbols));
        // It must still be the file that it was before it was read.
        if let Some((cache, old)) = kept
            && key() == Some(old)
        {
            cache.write(&old, &encode(found.as_ref(), &old));
        }
        found
    }

    fn among(symbols: &SymbolFile) -> Self {
        let row = |symbol: Symbol<'_>| {
            let Symbol { name, at, size, indirect } = symbol;
            let is_known = functions::by_name(name).is_some() || sizer::known(name).is_some();
            let name = is_known.then(|| NAMES.iter().position(|known| *known == name)).flatten()?;
            Some(Row { name, at, size, indirect })
        };
        Self(symbols.functions().filter_map(row).take(ROWS).collect())
    }

    /// They.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Symbol<'static>> {
        self.0.iter().filter_map(|&Row { name, at, size, indirect }| {
            Some(Symbol { name: NAMES.get(name)?, at, size, indirect })
        })
    }
}

fn encode(known: Option<&KnownSymbols>, key: &Key) -> Vec<u8> {
    let mut bytes = u64::from(known.is_some()).to_le_bytes().to_vec();
    for row in known.iter().flat_map(|known| &known.0) {
        bytes.extend(u32::try_from(row.name).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(u32::from(row.indirect).to_le_bytes());
        bytes.extend(row.at.get().to_le_bytes());
        bytes.extend(row.size.to_le_bytes());
    }
    [&MAGIC[..], key.bytes(), &sum(&bytes).to_le_bytes(), &bytes].concat()
}

fn decode(bytes: &[u8], key: &Key) -> Option<Option<KnownSymbols>> {
    let rows = bytes.get(HEAD..)?;
    let is_named = bytes.starts_with(MAGIC) && bytes.get(8..40)? == key.bytes();
    let is_whole = u64_at(bytes, 40)? == sum(bytes.get(HEAD - 8..)?);
    if !is_named || !is_whole || rows.len() % ROW != 0 || rows.len() / ROW > ROWS {
        return None;
    }
    let row = |row: &[u8]| {
        let name = usize::try_from(u32_at(row, 0)?).ok().filter(|&name| name < NAMES.len())?;
        let indirect = u32_at(row, 4)? != 0;
        Some(Row { name, at: ImageAddr::new(u64_at(row, 8)?), size: u64_at(row, 16)?, indirect })
    };
    let rows: Option<Vec<Row>> = rows.chunks_exact(ROW).map(row).collect();
    let (rows, has_table) = (rows?, u64_at(bytes, HEAD - 8)? != 0);
    Some(has_table.then_some(KnownSymbols(rows)))
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::module::tables::Budget;

    fn some_key() -> Key {
        Key::of(&[b"some"])
    }

    #[test]
    fn a_table_is_read_once_for_a_file() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        if identity(&file).is_none() {
            println!("SKIPPED: this program is on no file system that is trusted");
            return;
        }
        let folder = std::env::temp_dir().join(format!("heapattach-known-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let cache = Cache::within(&folder, &[]).unwrap();
        let reads = Cell::new(0);
        let known = |part| {
            KnownSymbols::of(&file, part, Some(&cache), || {
                reads.set(reads.get() + 1);
                SymbolFile::read(&file, &mut Budget::default())
            })
        };
        let first = known(b"own").expect("tests are not stripped");
        assert_eq!((known(b"own"), reads.get()), (Some(first), 1));
        let none = || KnownSymbols::of(&file, b"none", Some(&cache), || None);
        assert_eq!((none(), none()), (None, None));
        assert!(known(b"other").is_some());
        assert_eq!(reads.get(), 2, "another part is another table");
        fs::remove_dir_all(&folder).unwrap();
    }

    proptest::proptest! {
        #[test]
        fn what_was_kept_comes_back(
            rows in proptest::collection::vec((0..NAMES.len(), 0_u64..99, 0_u64..99), 0..20),
        ) {
            let row = |&(name, at, size): &(usize, u64, u64)| {
                Row { name, at: ImageAddr::new(at), size, indirect: size % 2 == 0 }
            };
            let known = KnownSymbols(rows.iter().map(row).collect());
            let bytes = encode(Some(&known), &some_key());
            proptest::prop_assert_eq!(decode(&bytes, &some_key()), Some(Some(known)));
            proptest::prop_assert_eq!(decode(&bytes, &Key::of(&[b"other"])), None);
        }

        #[test]
        fn any_bytes_are_read_without_harm(words in proptest::collection::vec(0_u32.., 0..60)) {
            let mut rest = vec![1; 8];
            words.iter().for_each(|word| rest.extend(word.to_le_bytes()));
            let sum = sum(&rest).to_le_bytes();
            let bytes = [&MAGIC[..], some_key().bytes(), &sum, &rest].concat();
            if let Some(Some(known)) = decode(&bytes, &some_key()) {
                proptest::prop_assert!(known.0.iter().all(|row| row.name < NAMES.len()));
            }
        }
    }
}
