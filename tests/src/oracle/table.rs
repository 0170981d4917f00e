//! The table `stack_oracle.c` keeps in a file: every distinct call stack, and how often.
//!
//! The process may go on writing while it is read. A stack is in the file before the allocator is
//! called, and stays; only its count grows.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
};

const MAGIC: &[u8; 8] = b"ORACLE 1";
/// Bytes before the slots.
const HEADER: u64 = 4096;
/// Words of a slot: hash, count, offset and length of the frames.
const SLOT_WORDS: u64 = 4;
const WORD: u64 = size_of::<u64>() as u64;
/// Larger tables the library does not make.
const LIMIT: u64 = 1 << 30;

/// The words of the header, behind the magic.
#[derive(Clone, Copy, Debug)]
enum Field {
    Slots = 2,
    Frames = 3,
    TextBegin = 4,
    TextEnd = 5,
    Noted = 6,
    Distinct = 7,
    FramesUsed = 8,
    NoRoom = 9,
    Nested = 10,
    TooDeep = 11,
    Held = 12,
    Go = 13,
}

/// How often allocations were made from a stack, by its return addresses, innermost first.
pub type Counts = HashMap<Vec<u64>, u64>;

/// What the library had noted at one moment.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The library's own code: a watcher of the allocator sees frames of it first.
    pub own: Range<u64>,
    /// Every stack.
    pub counts: Counts,
    /// Allocations whose stack could not be noted whole: no room, made by a signal handler while
    /// another was being noted, or deeper than the library looks.
    pub unnoted: u64,
}

impl Table {
    /// Reads the table of a process, which may be at work or gone.
    ///
    /// # Errors
    /// Why it is not a table.
    pub fn read(path: &Path) -> Result<Self, String> {
        let say = |error: io::Error| format!("{}: {error}", path.display());
        let file = File::open(path).map_err(say)?;
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, 0).map_err(say)?;
        if &magic != MAGIC {
            return Err(format!("{} is not the table of an oracle", path.display()));
        }
        let field = |field| word_at(&file, field).map_err(say);
        let (slots, used) = (field(Field::Slots)?, field(Field::FramesUsed)?);
        if slots > LIMIT / WORD / SLOT_WORDS || used > field(Field::Frames)? || used > LIMIT / WORD
        {
            return Err(format!("{}: {slots} slots and {used} frames", path.display()));
        }
        let expected = field(Field::Distinct)?;
        let words = words_at(&file, HEADER, slots * SLOT_WORDS).map_err(say)?;
        // After the slots: the frames of every slot seen were written before it.
        let used = field(Field::FramesUsed)?;
        let frames = HEADER + slots * SLOT_WORDS * WORD;
        let frames = words_at(&file, frames, used.min(LIMIT / WORD)).map_err(say)?;
        let unnoted = field(Field::NoRoom)? + field(Field::Nested)? + field(Field::TooDeep)?;
        let own = field(Field::TextBegin)?..field(Field::TextEnd)?;
        let mut counts = Counts::new();
        for slot in words.as_chunks::<4>().0 {
            let [hash, count, offset, length] = *slot;
            // A slot that is being filled in this moment may be seen in part.
            if hash == 0 || length == 0 {
                continue;
            }
            let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
            let stack =
                range.and_then(|(from, length)| frames.get(from..from.checked_add(length)?));
            let stack = stack.ok_or_else(|| format!("{}: a torn slot", path.display()))?;
            *counts.entry(stack.to_vec()).or_default() += count;
        }
        if (counts.len() as u64) < expected {
            return Err(format!("{}: {} stacks of {expected}", path.display(), counts.len()));
        }
        Ok(Self { own, counts, unnoted })
    }

    /// What was noted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Counts {
        let fresh = self.counts.iter().filter_map(|(stack, &count)| {
            let before = earlier.counts.get(stack).copied().unwrap_or(0);
            (count > before).then(|| (stack.clone(), count - before))
        });
        fresh.collect()
    }
}

/// How many allocations have been noted so far; 0 as long as there is no table.
///
/// # Errors
/// If the file is there and is not a table.
pub fn noted(path: &Path) -> io::Result<u64> {
    let Some(file) = begun(path)? else { return Ok(0) };
    word_at(&file, Field::Noted)
}

/// Whether the process waits in the library's constructor.
///
/// # Errors
/// If the file is there and is not a table.
pub fn is_held(path: &Path) -> io::Result<bool> {
    let Some(file) = begun(path)? else { return Ok(false) };
    Ok(word_at(&file, Field::Held)? == 1)
}

/// Lets a process go on that waits in the library's constructor.
///
/// # Errors
/// If its table cannot be written.
pub fn let_go(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.write_all_at(&1_u64.to_ne_bytes(), Field::Go as u64 * WORD)
}

/// The file, once its magic is there.
fn begun(path: &Path) -> io::Result<Option<File>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut magic = [0; 8];
    if file.read_at(&mut magic, 0)? < magic.len() || magic == [0; 8] {
        return Ok(None);
    }
    if &magic == MAGIC { Ok(Some(file)) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn word_at(file: &File, field: Field) -> io::Result<u64> {
    let mut bytes = [0; size_of::<u64>()];
    file.read_exact_at(&mut bytes, field as u64 * WORD)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn words_at(file: &File, at: u64, number: u64) -> io::Result<Vec<u64>> {
    let length = usize::try_from(number * WORD).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_since_is_the_difference() {
        let table = |counts: &[(&[u64], u64)]| Table {
            counts: counts.iter().map(|(stack, count)| (stack.to_vec(), *count)).collect(),
            ..Table::default()
        };
        let earlier = table(&[(&[1, 2], 5), (&[3], 1)]);
        let later = table(&[(&[1, 2], 7), (&[3], 1), (&[4], 2)]);
        let since = Counts::from([(vec![1, 2], 2), (vec![4], 2)]);
        assert_eq!(later.since(&earlier), since);
    }
}
