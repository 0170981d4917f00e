//! Types of Rust's trait objects, by the names of the functions that their tables lead to; which standard libraries a
//! program has.

use std::collections::HashMap;

use heapattach_census::{Moment, RegionKind};
use heapattach_process::proc::maps;
use heapattach_symbols::Symbols;
use heapattach_text::printable::printable;

use super::source::Source;

/// Methods of a table that are looked at.
const METHODS: usize = 8;
/// Constants of a program that are looked through; in pieces of this size.
const MOST: u64 = 256 << 20;
const PIECE: u64 = 1 << 20;
/// What the constants of a program have that is linked with libstdc++ (names of its functions, in messages), with libc++ (the
/// namespace in names of its types, of each vendor), and with Rust's library (the places of its panics).
const MARKS: [&[&[u8]]; 3] =
    [&[b"::_M_"], &[b"St3__1", b"St6__ndk1", b"St4__Cr"], &[b"library/core/src/"]];
/// Bytes of the longest of them.
const LONGEST: u64 = 17;

/// Whether the program, or a library of it, is of libstdc++, of libc++, of Rust.
pub(super) fn marks(moment: &Moment<'_>) -> [bool; 3] {
    let (mut found, mut left) = ([false; 3], MOST);
    let constants = moment.regions().iter().filter(|region| {
        region.kind == RegionKind::File && region.readable && !region.writable && !region.executable
    });
    let of_module = constants.filter(|region| {
        moment.images().iter().any(|image| image.range.contains(&region.range.start))
    });
    for region in of_module {
        let mut at = region.range.start;
        while at < region.range.end && left > 0 && found.contains(&false) {
            let length = (region.range.end - at).min(PIECE);
            let Some(bytes) = usize::try_from(length).ok().and_then(|size| moment.bytes(at, size))
            else {
                break;
            };
            look(&bytes, &mut found);
            // One can lie on the border of two pieces.
            at += if length > PIECE / 2 { length - LONGEST } else { length };
            left = left.saturating_sub(length);
        }
    }
    found
}

/// One pass, which compares where a mark may begin.
fn look(bytes: &[u8], found: &mut [bool; 3]) {
    for (at, byte) in bytes.iter().enumerate() {
        if !matches!(byte, b':' | b'S' | b'l') {
            continue;
        }
        for (marks, found) in MARKS.iter().zip(&mut *found) {
            *found |= marks.iter().any(|mark| bytes[at..].starts_with(mark));
        }
    }
}

/// Names of functions of a moment.
pub(super) struct Traits<'a, 'm> {
    source: Source<'a>,
    moment: &'a Moment<'m>,
}

impl<'a, 'm> Traits<'a, 'm> {
    pub(super) fn of(source: Source<'a>, moment: &'a Moment<'m>) -> Self {
        Self { source, moment }
    }

    /// What the objects of these tables are called. Where the functions of a table do not agree on a type, or
    /// tables of one type on its size (equal functions of two types can be one), the size is told alone.
    pub(super) fn names(&mut self, tables: &[u64]) -> Vec<String> {
        if tables.is_empty() {
            return Vec::new();
        }
        let text = self.source.maps();
        let mut symbols = Symbols::new();
        self.source.note(&mut symbols, &maps::parse(&text).unwrap_or_default());
        let found: Vec<(Option<String>, u64)> = tables
            .iter()
            .map(|&table| {
                let words =
                    self.moment.words(table, 3 + METHODS).or_else(|| self.moment.words(table, 4));
                let words = words.unwrap_or_default();
                let size = words.get(1).copied().unwrap_or(0);
                (self.type_of(&words, &mut symbols), size)
            })
            .collect();
        let mut sizes: HashMap<&str, Option<u64>> = HashMap::new();
        for (name, size) in &found {
            if let Some(name) = name {
                let known = sizes.entry(name).or_insert(Some(*size));
                *known = known.filter(|known| known == size);
            }
        }
        let told = |(name, size): &(Option<String>, u64)| match name {
            Some(name) if sizes.get(name.as_str()).is_some_and(Option::is_some) => name.clone(),
            _ => format!("trait object of {size} bytes"),
        };
        found.iter().map(told).collect()
    }

    /// The type that all functions of a table are of.
    fn type_of(&self, words: &[u64], symbols: &mut Symbols) -> Option<String> {
        let is_code = |at: &u64| self.moment.region(*at).is_some_and(|region| region.executable);
        let mut function = |at: u64| {
            let mut frames = symbols.symbolize(at);
            frames.pop().and_then(|frame| frame.function).map(|name| printable(&name))
        };
        let drop = words.first().copied().filter(is_code);
        let methods = words.iter().skip(3).copied().take_while(is_code);
        let mut all = Vec::new();
        if let Some(drop) = drop {
            all.extend(function(drop).and_then(|name| dropped(&name)));
        }
        // A method that the trait itself has is of no type; behind the last one another table begins.
        all.extend(methods.take(1).filter_map(|at| implemented(&function(at)?)));
        let first = all.first()?.clone();
        all.iter().all(|name| is_same(name, &first)).then_some(first)
    }
}

/// Whether two names are of one type: an implementation for all `Group<T>` does not say of which.
fn is_same(one: &str, other: &str) -> bool {
    let [(one, of), (other, of_other)] =
        [one, other].map(|name| name.split_once('<').unwrap_or((name, "")));
    let is_open = |of: &str| of.len() == 2;
    one == other && (of == of_other || is_open(of) || is_open(of_other))
}

/// `core::ptr::drop_in_place<app::Conn>`.
fn dropped(name: &str) -> Option<String> {
    let (_, inner) = name.split_once("drop_in_place<")?;
    let end = inner.rfind('>')?;
    Some(inner[..end].to_owned())
}

/// `<app::Conn as app::Shape>::area`.
fn implemented(name: &str) -> Option<String> {
    let inner = name.strip_prefix('<')?;
    let (own, _) = inner.split_once(" as ")?;
    Some(own.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_leave_their_marks() {
        let found = |text: &str| {
            let mut found = [false; 3];
            look(text.as_bytes(), &mut found);
            found
        };
        assert_eq!(found("vector::_M_realloc_insert"), [true, false, false]);
        assert_eq!(found("NSt3__112basic_string"), [false, true, false]);
        assert_eq!(found("/rustc/x/library/core/src/str"), [false, false, true]);
        assert_eq!(found("lib: St3_1 ::M_"), [false; 3]);
        assert!(MARKS.concat().iter().all(|mark| mark.len() as u64 <= LONGEST));
    }

    #[test]
    fn the_type_of_an_object_is_in_the_names_of_its_functions() {
        let dropped_in = "core::ptr::drop_in_place<alloc::vec::Vec<app::Conn>>";
        assert_eq!(dropped(dropped_in).as_deref(), Some("alloc::vec::Vec<app::Conn>"));
        assert_eq!(implemented("<app::Conn as app::Shape>::area").as_deref(), Some("app::Conn"));
        assert_eq!(dropped("main"), None);
        assert_eq!(implemented("app::Shape::area"), None);
        assert!(is_same("app::Group<app::Conn>", "app::Group<T>") && is_same("Conn", "Conn"));
        assert!(!is_same("app::Group<app::Conn>", "app::Group<app::Other>"));
        assert!(!is_same("app::Group<T>", "app::Other<T>") && !is_same("Conn", "Other"));
    }
}
