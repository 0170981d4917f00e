//! A name in the room that there is: what it is in goes before its own name does.

use unicode_width::UnicodeWidthStr;

/// In the place of what was left out.
const CUT: &str = "…";

/// A short name in so many columns, if its own name finds room in them: arguments are folded first, then
/// what it is in goes, from the outermost on.
pub fn fit(name: &str, room: usize) -> Option<String> {
    if name.width() <= room {
        return Some(name.to_owned());
    }
    let parts: Vec<String> = parts(name).into_iter().map(folded).collect();
    for first in 0..parts.len() {
        let mark = if first == 0 { "" } else { CUT };
        let told =
            format!("{mark}{}{}", if first == 0 { "" } else { "::" }, parts[first..].join("::"));
        if told.width() <= room {
            return Some(told);
        }
    }
    let own = least(name);
    (own.width() <= room).then(|| own.to_owned())
}

/// The least that is to be seen of a name: its own, without arguments and what it is in.
pub fn least(name: &str) -> &str {
    let own = parts(name).pop().unwrap_or(name);
    match own.find('<') {
        Some(at) if at > 0 && !own.starts_with("operator") && !own.contains('{') => &own[..at],
        _ => own,
    }
}

/// `a`, `b<c::d>` and `e` of `a::b<c::d>::e`.
fn parts(name: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0_usize);
    let mut at = 0;
    while let Some(rest) = name.get(at..).filter(|rest| !rest.is_empty()) {
        if depth == 0 && at == from && rest.starts_with("operator") {
            break;
        }
        if depth == 0 && rest.starts_with("::") && at > from {
            parts.push(&name[from..at]);
            at += 2;
            from = at;
            continue;
        }
        let next = rest.chars().next().unwrap_or_default();
        match next {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if name[..at].ends_with('-') => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += next.len_utf8();
    }
    parts.push(&name[from..]);
    // What has no name of its own is told with what it is in.
    let is_nameless = |part: &&str| part.starts_with(['{', '\'']);
    let nameless = parts.iter().rev().take_while(|part| is_nameless(part)).count();
    if nameless > 0 && nameless < parts.len() {
        let kept = parts.len() - nameless - 1;
        let before: usize = parts[..kept].iter().map(|part| part.len() + 2).sum();
        parts.truncate(kept);
        parts.push(&name[before..]);
    }
    parts
}

/// With its arguments as dots.
fn folded(part: &str) -> String {
    match (part.find('<'), part.rfind('>')) {
        (Some(from), Some(to)) if from > 0 && to > from && !part.starts_with("operator") => {
            format!("{}<...>{}", &part[..from], &part[to + 1..])
        }
        _ => part.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_is_in_goes_before_its_own_name() {
        let name = "story::Index<int, std::string>::insert";
        let told = |room| fit(name, room);
        assert_eq!(told(40).as_deref(), Some(name));
        assert_eq!(told(30).as_deref(), Some("story::Index<...>::insert"));
        assert_eq!(told(24).as_deref(), Some("…::Index<...>::insert"));
        assert_eq!(told(12).as_deref(), Some("…::insert"));
        assert_eq!(told(6).as_deref(), Some("insert"));
        assert_eq!(told(5), None);
    }

    #[test]
    fn the_least_of_a_name_is_its_own() {
        let table = [
            ("a::f<int>", "f"),
            ("a::operator<<", "operator<<"),
            ("a::operator std::string", "operator std::string"),
            ("a::serve::{lambda#1}", "serve::{lambda#1}"),
            ("a::serve::{closure#0}::{closure#1}", "serve::{closure#0}::{closure#1}"),
            ("<Vec<u8> as Clone>::clone", "clone"),
            ("main", "main"),
            ("<module>", "<module>"),
            ("", ""),
        ];
        for (name, own) in table {
            assert_eq!(least(name), own, "{name}");
        }
    }
}
