//! What differs from release to release: fields of the runtime's structures, and which of its functions refer
//! to which of its variables. One text a minor release, made by `cargo run -p heapattach-golang --example
//! make_table PROGRAM` from any program of that release that was not stripped.

use crate::graph::layout::Field;

/// All of them.
const ALL: [(u32, &str); 8] = [
    (19, include_str!("go1.19.txt")),
    (21, include_str!("go1.21.txt")),
    (22, include_str!("go1.22.txt")),
    (23, include_str!("go1.23.txt")),
    (24, include_str!("go1.24.txt")),
    (25, include_str!("go1.25.txt")),
    (26, include_str!("go1.26.txt")),
    (27, include_str!("go1.27.txt")),
];

/// The table of a release.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    text: &'static str,
}

/// A function that refers to a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'t> {
    /// The variable.
    pub variable: &'t str,
    /// The function.
    pub function: &'t str,
    /// Which of its references out of the code it is.
    pub ordinal: usize,
    /// How far behind the beginning of the variable it leads.
    pub addend: u64,
}

impl Table {
    /// Of a minor release.
    pub fn of(minor: u32) -> Option<Self> {
        ALL.iter().find(|(own, _)| *own == minor).map(|(_, text)| Self { text })
    }

    /// With the text of another table, for tests of what a wrong one does.
    pub fn of_text(text: &'static str) -> Self {
        Self { text }
    }

    /// Its text.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// The last one, of a release that is newer than all.
    pub fn before(minor: u32) -> Option<Self> {
        ALL.last().filter(|(last, _)| minor > *last).map(|(_, text)| Self { text })
    }

    /// Those that there are, for people.
    pub fn known() -> &'static str {
        "go1.19, go1.21 to go1.27"
    }

    /// A field of a structure.
    pub fn field(&self, name: &str) -> Option<Field> {
        let line = self.text.lines().find_map(|line| {
            let rest = line.strip_prefix("field ")?.strip_prefix(name)?;
            rest.strip_prefix(' ')
        })?;
        let (at, size) = line.split_once(' ')?;
        Some(Field { at: at.parse().ok()?, size: size.parse().ok()? })
    }

    /// Functions that refer to variables.
    pub fn references(&self) -> impl Iterator<Item = Reference<'static>> {
        self.text.lines().filter_map(|line| {
            let mut words = line.strip_prefix("refers ")?.split(' ');
            let (variable, function) = (words.next()?, words.next()?);
            let (ordinal, addend) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Reference { variable, function, ordinal, addend })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{figures::FigureFields, graph::layout::Layout};

    #[test]
    fn each_table_has_all_fields_and_at_least_two_voters_for_each_variable() {
        for (minor, _) in ALL {
            let table = Table::of(minor).unwrap();
            Layout::of(minor, &|name| table.field(name)).unwrap();
            FigureFields::by(minor, &|name| table.field(name)).unwrap();
            for name in ["runtime.mheap_", "runtime.allgs", "runtime.gcController"] {
                let voters = table.references().filter(|one| one.variable == name).count();
                assert!((2..=24).contains(&voters), "go1.{minor}: {name} has {voters}");
            }
        }
        assert!(Table::of(20).is_none());
    }
}
