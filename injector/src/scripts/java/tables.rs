//! How Java's virtual machine describes itself: tables of fields, types and numbers, by name, for tools that look at it.

use std::collections::HashMap;

use heapattach_process::{
    addr::RemoteAddr,
    little_endian::{u32_at, u64_at},
    memory::Memory,
};

use crate::module::java_marks::JavaMarks;

/// Bytes of a row of each table, which have been the same since the tables are exported.
const FIELD_BYTES: usize = 48;
const TYPE_BYTES: usize = 40;
const NUMBER_BYTES: usize = 16;
/// Rows that are read of each.
const ROWS: usize = 1 << 12;
/// Names lie in a few pages: so many are read.
const PAGES: usize = 1 << 9;
const PAGE: u64 = 4096;
const LONGEST_NAME: usize = 128;

/// What was found under the names that are needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    /// Offsets of fields, and addresses of variables.
    fields: HashMap<(String, String), u64>,
    sizes: HashMap<String, u64>,
    numbers: HashMap<String, i32>,
}

impl Tables {
    /// Reads them; empty ones where they are not whole.
    pub fn read(marks: &JavaMarks, memory: &Memory) -> Self {
        let mut names = Names { memory, pages: HashMap::new() };
        let mut tables = Self::default();
        each_row(memory, marks.fields, FIELD_BYTES, |row| {
            let (of, name) = (names.at(u64_at(row, 0)?)?, names.at(u64_at(row, 8)?)?);
            let at = if u32_at(row, 24)? == 0 { u64_at(row, 32)? } else { u64_at(row, 40)? };
            tables.fields.insert((of, name), at);
            Some(())
        });
        each_row(memory, marks.types, TYPE_BYTES, |row| {
            tables.sizes.insert(names.at(u64_at(row, 0)?)?, u64_at(row, 32)?);
            Some(())
        });
        each_row(memory, marks.numbers, NUMBER_BYTES, |row| {
            tables.numbers.insert(names.at(u64_at(row, 0)?)?, u32_at(row, 8)?.cast_signed());
            Some(())
        });
        tables
    }

    /// The offset of a field, or the address of a variable.
    pub fn field(&self, of: &str, name: &str) -> Option<u64> {
        self.fields.get(&(of.to_owned(), name.to_owned())).copied()
    }

    /// A field that lies in the first page of what it is in, as all of them do.
    pub fn offset(&self, of: &str, name: &str) -> Option<u64> {
        self.field(of, name).filter(|&offset| offset < PAGE)
    }

    /// Bytes of a type.
    pub fn size(&self, of: &str) -> Option<u64> {
        self.sizes.get(of).copied().filter(|&size| size != 0 && size < PAGE)
    }

    /// A number.
    pub fn number(&self, name: &str) -> Option<i32> {
        self.numbers.get(name).copied()
    }

    #[cfg(test)]
    pub fn set(&mut self, of: &str, name: &str, at: u64) {
        self.fields.insert((of.to_owned(), name.to_owned()), at);
    }
}

/// Reads rows up to one whose first word is 0, or that makes no sense.
fn each_row(
    memory: &Memory,
    leads: Option<RemoteAddr>,
    bytes: usize,
    mut take: impl FnMut(&[u8]) -> Option<()>,
) {
    let Some(table) = leads.and_then(|at| memory.word(at).ok()).filter(|&at| at != 0) else {
        return;
    };
    let mut all = vec![0; ROWS * bytes];
    let read = memory.read_some(RemoteAddr::new(table), &mut all).unwrap_or(0);
    for row in all[..read].chunks_exact(bytes) {
        if u64_at(row, 0).is_none_or(|first| first == 0) || take(row).is_none() {
            return;
        }
    }
}

/// Texts of the target's, by pages that are read once.
struct Names<'m> {
    memory: &'m Memory,
    pages: HashMap<u64, Vec<u8>>,
}

impl Names<'_> {
    fn at(&mut self, address: u64) -> Option<String> {
        let mut text = Vec::new();
        let mut at = address;
        loop {
            let page = at & !(PAGE - 1);
            if !self.pages.contains_key(&page) {
                let bytes = self.memory.read_vec(RemoteAddr::new(page), 4096).ok()?;
                if self.pages.len() == PAGES {
                    return None;
                }
                self.pages.insert(page, bytes);
            }
            let bytes = self.pages.get(&page)?.get(usize::try_from(at - page).ok()?..)?;
            match bytes.iter().position(|&byte| byte == 0) {
                Some(end) => text.extend_from_slice(&bytes[..end]),
                None => {
                    text.extend_from_slice(bytes);
                    at = page.checked_add(PAGE)?;
                }
            }
            if text.len() > LONGEST_NAME {
                return Some(String::new());
            }
            if bytes.contains(&0) {
                return String::from_utf8(text).ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn rows_are_read_to_the_first_without_a_name() {
        let own =
            heapattach_process::proc::Process::open(std::process::id().cast_signed()).unwrap();
        let memory = Memory::open(&own).unwrap();
        let text = |text: &'static CStr| text.as_ptr().addr() as u64;
        let (of, name) = (text(c"JavaThread"), text(c"_anchor"));
        let fields: [u64; 18] =
            [of, name, of, 0, 656, 0, of, of, of, 1, 0, 4711, 0, of, of, 0, 9, 0];
        let types: [u64; 6] = [of, 0, 0, 0, 1000, 0];
        let numbers: [u64; 3] = [name, 7, 0];
        let leads = [&fields[..], &types, &numbers].map(|table| table.as_ptr().addr() as u64);
        let [fields_at, types_at, numbers_at] =
            [0, 1, 2].map(|number| Some(RemoteAddr::new((&raw const leads[number]).addr() as u64)));
        let marks = JavaMarks { fields: fields_at, types: types_at, numbers: numbers_at };
        let tables = Tables::read(&marks, &memory);
        assert_eq!(tables.offset("JavaThread", "_anchor"), Some(656));
        assert_eq!(tables.field("JavaThread", "JavaThread"), Some(4711));
        assert_eq!((tables.size("JavaThread"), tables.number("_anchor")), (Some(1000), Some(7)));
        assert_eq!(tables.fields.len(), 2);
        let nowhere = JavaMarks { fields: Some(RemoteAddr::new(8)), ..marks };
        assert!(Tables::read(&nowhere, &memory).fields.is_empty());
    }
}
