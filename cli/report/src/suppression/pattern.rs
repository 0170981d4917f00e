//! The patterns of sanitizers: a piece of text, in which `*` stands for any text, `^` for its
//! beginning and `$` for its end.

/// A pattern, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pieces: Vec<String>,
    from_start: bool,
    to_end: bool,
}

impl Pattern {
    /// Understands any text.
    pub fn new(text: &str) -> Self {
        let (from_start, text) = match text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (to_end, text) = match text.strip_suffix('$') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let pieces = text.split('*').map(str::to_owned).collect();
        Self { pieces, from_start, to_end }
    }

    /// Whether `text` has it in it. In at most the product of their lengths in steps: both may come
    /// from outside.
    pub fn is_in(&self, text: &str) -> bool {
        let Some((first, later)) = self.pieces.split_first() else { return true };
        let Some((last, middle)) = later.split_last() else {
            return match (self.from_start, self.to_end) {
                (true, true) => text == first,
                (true, false) => text.starts_with(first),
                (false, true) => text.ends_with(first),
                (false, false) => text.contains(first),
            };
        };
        let at =
            if self.from_start { text.starts_with(first).then_some(0) } else { text.find(first) };
        let Some(mut rest) = at.map(|at| &text[at + first.len()..]) else { return false };
        for piece in middle {
            // The earliest place will do: what a later one would leave, this one leaves too.
            let Some(at) = rest.find(piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        if self.to_end { rest.ends_with(last) } else { rest.contains(last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_anywhere_unless_it_is_tied_to_an_end() {
        let yes = [
            ("b", "abc"),
            ("^a", "abc"),
            ("c$", "abc"),
            ("^abc$", "abc"),
            ("a*c", "xabcx"),
            ("^a*c$", "abbc"),
            ("*", ""),
            ("", "x"),
            ("a*b*c", "a1b2c3"),
            ("a**b", "ab"),
            ("^*b", "ab"),
            ("ab*b", "abb"),
            ("größe", "die größe"),
        ];
        for (pattern, text) in yes {
            assert!(Pattern::new(pattern).is_in(text), "{pattern} {text}");
        }
        let no = [
            ("b$", "abc"),
            ("^b", "abc"),
            ("^ab$", "abc"),
            ("a*c", "cba"),
            ("^a*c$", "abcd"),
            ("ab*b", "ab"),
            ("x", ""),
            ("a*b*c", "acb"),
        ];
        for (pattern, text) in no {
            assert!(!Pattern::new(pattern).is_in(text), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        assert!(!Pattern::new(&"*a".repeat(1000)).is_in(&"a".repeat(999)));
        assert!(Pattern::new(&"*a".repeat(1000)).is_in(&"a".repeat(100_000)));
    }
}
