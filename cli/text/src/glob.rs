//! Patterns in which `*` stands for any text.

/// Whether the whole of `text` is as `pattern` says. At most the product of their lengths in steps:
/// both may come from outside.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    // There is always a first piece.
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        // The earliest place will do: what a later one would leave, this one leaves too.
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_is_any_text_and_all_else_is_itself() {
        let yes = [("a", "a"), ("*", ""), ("a*", "abc"), ("*c", "abc"), ("a*c", "ac"), ("", "")];
        let also = [("a*b*a", "abba"), ("a**b", "ab"), ("*::new", "a::b::new"), ("a[*]?", "a[x]?")];
        for (pattern, text) in yes.into_iter().chain(also) {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        let no = [("a", "ab"), ("a*a", "a"), ("*b", "abc"), ("a*b*a", "aba*"), ("a?", "ab")];
        for (pattern, text) in no {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        assert!(!matches(&"*a".repeat(1000), &"a".repeat(999)));
        assert!(matches(&"*a".repeat(1000), &"a".repeat(100_000)));
    }
}
