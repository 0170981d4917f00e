//! Arguments of templates and generics: which of them are told, and how.

use super::scan::{Dialect, Group};

/// Columns of a list of arguments; what finds no room is dots.
const ROOM: usize = 40;
/// The same of `T as Trait`.
const TYPE_ROOM: usize = 72;
/// Arguments that are looked at.
pub const MOST: usize = 32;
const DOTS: &str = "...";

/// What the standard library takes unless told otherwise; never first in a list.
const DEFAULTS: [&str; 7] = [
    "std::allocator<",
    "std::char_traits<",
    "std::less<",
    "std::hash<",
    "std::equal_to<",
    "std::default_delete<",
    "std::pmr::polymorphic_allocator<",
];
/// The same for a container made of another one.
const INSIDE: [(&str, &str); 3] = [
    ("std::queue", "std::deque<"),
    ("std::stack", "std::deque<"),
    ("std::priority_queue", "std::vector<"),
];
/// The same in Rust: parameters of containers that are seldom anything else.
const RUST: [&str; 4] = ["A", "S", "Global", "RandomState"];
/// Templates with a name of their own for one kind of character.
pub const ALIASES: [(&str, &str); 8] = [
    ("std::basic_string", "std::string"),
    ("std::basic_string_view", "std::string_view"),
    ("std::basic_ostream", "std::ostream"),
    ("std::basic_istream", "std::istream"),
    ("std::basic_iostream", "std::iostream"),
    ("std::basic_streambuf", "std::streambuf"),
    ("std::basic_stringstream", "std::stringstream"),
    ("std::basic_ostringstream", "std::ostringstream"),
];

/// Appends a list between angle brackets to the name of what it belongs to; the standard library's own
/// names for both take the place of the name.
pub fn fold(dialect: Dialect, text: &mut String, arguments: &[String]) {
    let start = text.rfind(|c: char| !(c.is_alphanumeric() || "_:$".contains(c)));
    let start = start.map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let template = &text[start..];
    // `<T as Trait>` and `<impl Trait for T>` are types, not lists.
    if template.is_empty()
        || template.ends_with("::") && dialect == Dialect::Rust && is_type(arguments)
    {
        text.push_str(&list('<', arguments, '>', TYPE_ROOM));
        return;
    }
    let told = told(dialect, template, arguments);
    let alias = ALIASES.iter().find(|(name, _)| *name == template);
    match (alias, told) {
        (Some((_, alias)), [character]) if character == "char" => {
            text.truncate(start);
            text.push_str(alias);
        }
        (Some((_, alias)), [character]) if character == "wchar_t" => {
            text.truncate(start);
            text.push_str(&alias.replacen("std::", "std::w", 1));
        }
        _ if is_reserved(template) => text.push_str("<...>"),
        _ => text.push_str(&listed('<', told, '>')),
    }
}

fn is_type(arguments: &[String]) -> bool {
    arguments.first().is_some_and(|first| first.starts_with("impl ") || first.contains(" as "))
}

/// A name that only the implementation of C++ may bear: its arguments say nothing to a reader.
fn is_reserved(template: &str) -> bool {
    let own = template.rsplit("::").next().unwrap_or(template);
    own.starts_with('_') && (template.starts_with("std::") || template.starts_with("__gnu_cxx::"))
}

/// Without those at the end that are the default.
fn told<'a>(dialect: Dialect, template: &str, arguments: &'a [String]) -> &'a [String] {
    let is_default = |argument: &String| match dialect {
        Dialect::Cpp => {
            let inside = INSIDE.iter().find(|(outer, _)| *outer == template);
            DEFAULTS.iter().any(|default| argument.starts_with(default))
                || inside.is_some_and(|(_, inner)| argument.starts_with(inner))
        }
        Dialect::Rust => RUST.contains(&argument.as_str()),
    };
    let mut told = arguments;
    while let [first, .., last] = told
        && !first.is_empty()
        && is_default(last)
    {
        told = &told[..told.len() - 1];
    }
    told
}

/// As many as there is room for, between brackets.
pub fn listed(open: char, arguments: &[String], close: char) -> String {
    list(open, arguments, close, ROOM)
}

fn list(open: char, arguments: &[String], close: char, room: usize) -> String {
    let mut text = String::from(open);
    for (number, argument) in arguments.iter().enumerate() {
        let separator = if number == 0 { "" } else { ", " };
        if text.len() + separator.len() + argument.len() > room || number >= MOST {
            text.push_str(separator);
            text.push_str(DOTS);
            break;
        }
        text.push_str(separator);
        text.push_str(argument);
    }
    text.push(close);
    text
}

/// What has no name: `{lambda(int)#1}` is `{lambda#1}`.
pub fn local(arguments: &[String]) -> String {
    let text = listed('{', arguments, '}');
    match (text.strip_prefix("{lambda("), text.rfind(")#")) {
        (Some(_), Some(at)) => format!("{{lambda{}", &text[at + 1..]),
        (Some(_), None) => "{lambda}".to_owned(),
        _ => text,
    }
}

/// An argument: a number without its type, a type of Rust by its last part.
pub fn argument(dialect: Dialect, text: &str, groups: &[Group]) -> String {
    let number = groups.first().filter(|group| group.open == b'(' && group.from == 0);
    let number = number.and_then(|group| text.get(group.to..));
    match number.filter(|number| number.starts_with(|c: char| c.is_ascii_digit() || c == '-')) {
        Some(number) => number.to_owned(),
        None => {
            let short = last_parts_of(dialect, text);
            let room = if short.contains(" as ") { TYPE_ROOM } else { ROOM };
            if short.len() < room {
                short
            } else {
                last_parts_of(dialect, &without_lists(text, groups))
            }
        }
    }
}

/// With dots in the place of its own arguments.
fn without_lists(text: &str, groups: &[Group]) -> String {
    let mut short = String::new();
    let mut at = 0;
    let lists = groups.iter().filter(|group| group.open == b'<' && group.from > 0);
    for group in lists {
        let (Some(before), Some(list)) = (text.get(at..group.from), text.get(group.from..group.to))
        else {
            continue;
        };
        short.push_str(before);
        short.push_str(if list.starts_with('<') { "<...>" } else { list });
        at = group.to;
    }
    short.push_str(text.get(at..).unwrap_or_default());
    short
}

fn last_parts_of(dialect: Dialect, text: &str) -> String {
    if dialect == Dialect::Rust { last_parts(text) } else { text.to_owned() }
}

/// Paths by their last part: `&mut alloc::vec::Vec<u8>` is `&mut Vec<u8>`.
fn last_parts(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut word = 0;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if rest.starts_with("::") && rest[2..].starts_with(|c: char| c.is_alphabetic() || c == '_')
        {
            // Behind a bracket there is nothing to leave out.
            if short.len() > word {
                short.truncate(word);
                rest = &rest[2..];
                continue;
            }
        }
        short.push(next);
        rest = &rest[next.len_utf8()..];
        if !(next.is_alphanumeric() || next == '_') {
            word = short.len();
        }
    }
    short
}
