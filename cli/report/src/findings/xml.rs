//! Text inside of XML.

use std::fmt::{self, Display, Formatter, Write};

/// Text, escaped for an element or an attribute; characters that XML forbids are replaced.
pub struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&apos;")?,
                '\n' => f.write_str("&#10;")?,
                '\t' => f.write_str("&#9;")?,
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                    f.write_char(char::REPLACEMENT_CHARACTER)?;
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
