//! Text of the target, made fit for a terminal and for a table.

/// Longer names are cut: they come from templates, or from a target that wants to use up our memory.
pub const LENGTH_LIMIT: usize = 2048;

/// `text` without anything that moves a cursor or turns the direction of writing, and not longer
/// than [`LENGTH_LIMIT`] characters.
pub fn printable(text: &str) -> String {
    let clean = |c: char| {
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns { char::REPLACEMENT_CHARACTER } else { c }
    };
    text.chars().take(LENGTH_LIMIT).map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_letters_and_drops_what_a_terminal_obeys() {
        assert_eq!(printable("größe<\"x\">"), "größe<\"x\">");
        assert_eq!(printable("a\u{1b}[2J\u{202e}b"), "a\u{fffd}[2J\u{fffd}b");
    }

    #[test]
    fn cuts_what_is_too_long() {
        assert_eq!(printable(&"é".repeat(1 << 20)).chars().count(), LENGTH_LIMIT);
    }
}
