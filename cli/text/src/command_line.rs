//! A command in one argument, cut into words as a shell cuts them, and with nothing else that a shell
//! does: no variable, no pattern, no pipe.

/// Cuts at blanks; what is between `'` or `"`, or behind `\`, stays as it is.
///
/// # Errors
/// What is wrong with it.
pub fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = letters.next().ok_or("`\\` is at its end")?;
                let word = word.get_or_insert_default();
                // Between quotation marks a backslash keeps only them and itself.
                if quote.is_some() && !['"', '\\', '$', '`'].contains(&next) {
                    word.push('\\');
                }
                word.push(next);
            }
            (None, blank) if blank.is_ascii_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(quote) = quote {
        return Err(format!("{quote} has no end"));
    }
    words.extend(word);
    if words.is_empty() { Err("there is no command in it".to_owned()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        words(text).unwrap()
    }

    #[test]
    fn blanks_part_words_and_quotation_marks_join_them() {
        assert_eq!(told("  notify --to me "), ["notify", "--to", "me"]);
        assert_eq!(told("sh -c 'echo \"$A\" | cat'"), ["sh", "-c", "echo \"$A\" | cat"]);
        assert_eq!(told(r#"a "b \" c" d\ e '' f"g"h"#), ["a", "b \" c", "d e", "", "fgh"]);
        assert_eq!(told(r#""a\b" 'a\b'"#), [r"a\b", r"a\b"]);
    }

    #[test]
    fn what_a_shell_expands_stays_as_it_is() {
        assert_eq!(told("echo $HOME *.c ~ | cat"), ["echo", "$HOME", "*.c", "~", "|", "cat"]);
    }

    #[test]
    fn what_has_no_end_or_nothing_in_it_is_refused() {
        for text in ["", "  ", "a 'b", "a \"b", "a \\"] {
            assert!(words(text).is_err(), "{text}");
        }
    }
}
