//! Names as they stood in the source.
//!
//! Not addr2line's own demangling: a C++ name of some hundred bytes can expand to gigabytes, and
//! only the writer can stop that.

use std::fmt::{self, Write};

use crate::printable::printable;

/// Longer mangled names stay mangled.
const MANGLED_LIMIT: usize = 16 << 10;
/// What a name may expand to before we keep it as it is.
const TEXT_LIMIT: usize = 64 << 10;
/// And in how many pieces: some expansions go on for ever without a byte.
const PIECES_LIMIT: usize = 1 << 16;

/// The name a C++ or Rust compiler made `name` from, without Rust's hash, else `name` itself.
pub fn demangle(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name.get(..MANGLED_LIMIT).unwrap_or(name));
    printable(rust(&name).or_else(|| cpp(&name)).as_deref().unwrap_or(&name))
}

/// Whether a C++ or Rust compiler made the name.
pub fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

fn rust(name: &str) -> Option<String> {
    let symbol = rustc_demangle::try_demangle(name).ok()?;
    let mut text = Bounded::default();
    write!(text, "{symbol:#}").ok()?;
    Some(text.text)
}

fn cpp(name: &str) -> Option<String> {
    // `Symbol` would take a bare `i` for the type int.
    if !name.starts_with("_Z") && !name.starts_with("_GLOBAL_") {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let mut text = Bounded::default();
    symbol.structured_demangle(&mut text, &cpp_demangle::DemangleOptions::new()).ok()?;
    Some(text.text)
}

/// A text that refuses to grow for ever.
#[derive(Default)]
struct Bounded {
    text: String,
    pieces: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.pieces += 1;
        if self.pieces > PIECES_LIMIT || self.text.len() + piece.len() > TEXT_LIMIT {
            return Err(fmt::Error);
        }
        self.text.push_str(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_stood_in_the_source() {
        let table = [
            ("malloc", "malloc"),
            ("i", "i"),
            ("_Zno", "_Zno"),
            ("_ZN3foo3barEi", "foo::bar(int)"),
            ("_Znwm", "operator new(unsigned long)"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backEOi",
                "std::vector<int, std::allocator<int> >::push_back(int&&)",
            ),
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ];
        for (mangled, plain) in table {
            assert_eq!(demangle(mangled.as_bytes()), plain);
        }
    }

    /// A function of a pair of pairs of pairs: each holds the one before it twice.
    fn doubled(times: u8) -> String {
        let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut name = String::from("_Z1fSt4pairIiiE");
        for n in 0..times {
            let before = char::from(digits[usize::from(n)]);
            write!(name, "S_IS{before}_S{before}_E").unwrap();
        }
        name
    }

    #[test]
    fn a_name_that_explodes_stays_mangled() {
        let twice = demangle(doubled(2).as_bytes());
        assert!(twice.matches("int").count() > 6, "{twice}");
        assert_eq!(demangle(doubled(35).as_bytes()), doubled(35));
        assert_eq!(demangle(&[b'_', b'Z', 0xff, 0x1b]), "_Z\u{fffd}\u{fffd}");
    }

    proptest::proptest! {
        #[test]
        fn any_name_gives_a_printable_one(name: Vec<u8>, tail in "[_0-9A-Za-z]{0,64}") {
            let _ = demangle(&name);
            demangle(format!("_Z{tail}").as_bytes());
            demangle(format!("_R{tail}").as_bytes());
        }
    }
}
