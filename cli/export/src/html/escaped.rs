//! JSON inside a page: nothing in it is a tag.

use std::io::{self, Write};

/// Writes JSON on, with every `<` as JSON's own escape. In JSON it stands in strings only, where the
/// escape means the same; what looks like the end of a script or like a comment then does not.
pub struct Escaped<'a> {
    out: &'a mut dyn Write,
}

impl<'a> Escaped<'a> {
    /// Into a page.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self { out }
    }
}

impl Write for Escaped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut pieces = bytes.split(|&byte| byte == b'<');
        self.out.write_all(pieces.next().unwrap_or_default())?;
        for piece in pieces {
            self.out.write_all(br"\u003c")?;
            self.out.write_all(piece)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tag_is_left_and_the_text_is_the_same() {
        for text in ["</script>", "<!--<", "a<b>", "", "\u{2028}é"] {
            let mut out = Vec::new();
            serde_json::to_writer(Escaped::new(&mut out), text).unwrap();
            assert!(!out.contains(&b'<'), "{text}");
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
