//! Names of a hostile process in files that other programs parse.

/// Without line ends and other control characters, so that it stays on its line; never empty, where
/// nothing would be taken for the next field.
pub fn line(text: &str) -> String {
    if text.is_empty() {
        return "??".to_owned();
    }
    text.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect()
}

/// The same where there may be nothing.
pub fn line_or_none(text: &str) -> String {
    if text.is_empty() { String::new() } else { line(text) }
}

/// For a stack whose calls are separated by semicolons: `[u8; 4]` becomes `[u8: 4]`.
pub fn call(name: &str) -> String {
    line(name).replace(';', ":")
}

/// For text and attributes of XML, which knows no control characters at all.
pub fn xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if is_plain(c) => safe.push(c),
            _ => safe.push(' '),
        }
    }
    safe
}

/// Direction marks and line separators of Unicode are control characters, too, in what they do.
fn is_plain(c: char) -> bool {
    let marks = ['\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{fffe}', '\u{ffff}'];
    let embedded = '\u{202a}'..='\u{202e}';
    let isolated = '\u{2066}'..='\u{2069}';
    !(c.is_control() || marks.contains(&c) || embedded.contains(&c) || isolated.contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(line("a\nb\r\tc\u{2028}d\u{1b}[1m"), "a b  c d [1m");
        assert_eq!(line(""), "??");
        assert_eq!(call("<[u8; 4]>::f;\n"), "<[u8: 4]>::f: ");
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(xml("</script>\"'&\0\u{202e}"), "&lt;/script&gt;&quot;&#39;&amp;  ");
    }
}
