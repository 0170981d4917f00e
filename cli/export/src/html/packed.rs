//! Data in a page: as JSON while that is short, so that it can be read; else packed, which a browser
//! undoes in a fraction of the time that it takes to load what is not packed.

use std::io::{self, BufWriter, Write};

use flate2::{Compression, write::GzEncoder};
use serde::Serialize;

use super::{base64::Base64, escaped::Escaped};

/// JSON that is longer is packed.
pub const LONG: usize = 256 << 10;

/// Writes the element that has the data.
pub fn write(data: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let json = serde_json::to_vec(data)?;
    if json.len() <= LONG {
        out.write_all(br#"<script type="application/json" id="data">"#)?;
        let mut escaped = BufWriter::new(Escaped::new(out));
        escaped.write_all(&json)?;
        escaped.flush()?;
    } else {
        out.write_all(br#"<script type="text/plain" id="data">"#)?;
        let mut packer = GzEncoder::new(Base64::new(&mut *out), Compression::default());
        packer.write_all(&json)?;
        packer.finish()?.finish()?;
    }
    out.write_all(b"</script>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_data_can_be_read_and_long_data_are_packed() {
        let element = |text: &str| {
            let mut out = Vec::new();
            write(&text, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let short = element("</script>");
        assert_eq!(short.matches('<').count(), 2, "{short}");
        assert!(short.starts_with("<script type=\"application/json\""), "{short}");
        let long = element(&"a".repeat(LONG));
        assert!(long.starts_with("<script type=\"text/plain\" id=\"data\">H4sI"), "{long}");
        assert!(long.len() < 2000 && long.ends_with("</script>"), "{long}");
    }
}
