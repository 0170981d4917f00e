//! The name of a function out of a demangled one: what it returns and takes is left out.

use super::{
    arguments::ALIASES,
    scan::{Dialect, Level, scan},
};

/// What stands before the names of functions that compilers made for others.
pub const PREFIXES: [&str; 12] = [
    "non-virtual thunk to ",
    "virtual thunk to ",
    "covariant return thunk to ",
    "vtable for ",
    "VTT for ",
    "typeinfo for ",
    "typeinfo name for ",
    "guard variable for ",
    "TLS init function for ",
    "TLS wrapper function for ",
    "global constructors keyed to ",
    "transaction clone for ",
];
/// Columns of the arguments of the function itself.
const ROOM: usize = 24;
/// How a thunk begins in another demangler's words; what it leads to is the last of a list.
const THUNK: &str = "{virtual override thunk(";

/// The short name; empty if nothing is left of it.
pub fn function(dialect: Dialect, name: &str) -> String {
    let name = without_marks(name);
    let thunk = name.strip_prefix(THUNK).and_then(|rest| Some(rest.split_once(")}, ")?.1));
    if let Some(of) = thunk {
        return whole("virtual thunk to ", own(&scan(dialect, of.trim_end_matches([')', '}'])), 0));
    }
    let prefix = PREFIXES.iter().find(|prefix| name.starts_with(**prefix)).map_or("", |p| p);
    let name = &name[prefix.len()..];
    let level = match of_type(name).filter(|_| dialect == Dialect::Rust) {
        Some((of, rest)) => scan(dialect, &format!("{of}{rest}")),
        None => scan(dialect, name),
    };
    // What a thunk leads to is told without what it returns.
    whole(prefix, own(&level, if prefix.is_empty() { level.last_word } else { 0 }))
}

fn whole(prefix: &str, own: String) -> String {
    if own.is_empty() { own } else { format!("{prefix}{}", renamed(own)) }
}

/// `a::Type` and `::f` of `<a::Type>::f`, which is not how people write it.
fn of_type(name: &str) -> Option<(&str, &str)> {
    let inside = name.strip_prefix('<')?;
    let mut depth = 1_usize;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if !inside[..at].ends_with('-') => depth -= 1,
            b' ' if depth == 1 => return None,
            _ => {}
        }
        if depth == 0 {
            let (of, rest) = (&inside[..at], &inside[at + 1..]);
            return (rest.starts_with("::") && of.starts_with(char::is_alphabetic))
                .then_some((of, rest));
        }
    }
    None
}

/// The constructors of `std::string`, which is `std::basic_string` in full.
fn renamed(name: String) -> String {
    let wide = |alias: &str| alias.replacen("std::", "std::w", 1);
    let is_of = |alias: &str| name.strip_prefix(alias).is_some_and(|rest| rest.starts_with("::"));
    let found = ALIASES.iter().find_map(|&(of, alias)| {
        let alias = [alias.to_owned(), wide(alias)].into_iter().find(|alias| is_of(alias))?;
        Some((of, alias))
    });
    let Some((of, is)) = found else { return name };
    let last = |text: &str| text.rsplit("::").next().unwrap_or_default().to_owned();
    let (of, is) = (last(of), last(&is));
    let rest = &name["std::".len() + is.len() + 2..];
    let own = rest.strip_prefix('~').unwrap_or(rest);
    match own.strip_prefix(&of) {
        Some(after) if !after.starts_with('_') => {
            format!("std::{is}::{}{is}{after}", if own.len() < rest.len() { "~" } else { "" })
        }
        _ => name,
    }
}

/// Without what compilers append: `[clone .isra.0]`, `(.cold)`, Rust's hash.
fn without_marks(name: &str) -> &str {
    let marks = [" [clone ", " (.", " [.", " requires "];
    let end = marks.iter().filter_map(|mark| name.find(mark)).min().filter(|&at| at > 0);
    let name = super::without_copy(&name[..end.unwrap_or(name.len())]);
    match name.rsplit_once("::h") {
        Some((own, hash))
            if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            own
        }
        _ => name,
    }
}

/// The name from here on, without parameters.
fn own(level: &Level, from: usize) -> String {
    let text = &level.text;
    let mut own = String::with_capacity(text.len() - from);
    let mut at = from;
    for group in level.groups.iter().filter(|group| group.from >= from) {
        let Some(before) = text.get(at..group.from) else { continue };
        own.push_str(before);
        let (folded, after) = (&text[group.from..group.to], &text[group.to..]);
        at = group.to;
        let is_end = after.is_empty() || after.starts_with("::") || after.starts_with('(');
        match group.open {
            // Parameters; what a lambda is called by says nothing more.
            b'(' if is_end && !own.is_empty() && !own.ends_with("decltype") => {}
            b'[' if folded.starts_with("[abi:") => {}
            b'<' if after.is_empty() || after.starts_with('(') => {
                own.push_str(&of_itself(&own, folded))
            }
            _ => own.push_str(folded),
        }
    }
    own.push_str(text.get(at..).unwrap_or_default());
    let own = own.trim();
    let of_lambda = own.strip_suffix("::operator()");
    of_lambda.filter(|name| name.ends_with(['}', '\''])).unwrap_or(own).to_owned()
}

/// The arguments of the function itself, which callers seldom write: if they are short.
fn of_itself(name: &str, folded: &str) -> String {
    let own = name.rsplit("::").next().unwrap_or(name);
    match own.starts_with('_') || own.starts_with("operator") {
        true => String::new(),
        false if folded.len() > ROOM && !own.is_empty() => first_of(folded),
        false => folded.to_owned(),
    }
}

/// The arguments that find room, and dots.
fn first_of(folded: &str) -> String {
    let (mut depth, mut end) = (0_usize, None);
    for (at, byte) in folded.bytes().enumerate().take(ROOM) {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => end = Some(at),
            _ => {}
        }
    }
    format!("{}...>", end.map_or("<".to_owned(), |at| format!("{}, ", &folded[..at])))
}
