//! The page around the data: markup, style, script, and the policy that admits nothing else.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::escaped::Escaped;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");

/// All of the script: each file may use those before it when it is loaded, and all of them later.
pub const SCRIPT: &str = concat!(
    "'use strict';\n",
    include_str!("script/quantity.js"),
    include_str!("script/element.js"),
    include_str!("script/interval.js"),
    include_str!("script/data.js"),
    include_str!("script/measure.js"),
    include_str!("script/window.js"),
    include_str!("script/stacks.js"),
    include_str!("script/colour.js"),
    include_str!("script/state.js"),
    include_str!("script/about.js"),
    include_str!("script/tiles.js"),
    include_str!("script/flame.js"),
    include_str!("script/graph.js"),
    include_str!("script/search.js"),
    include_str!("script/timeline.js"),
    include_str!("script/brush.js"),
    include_str!("script/table.js"),
    include_str!("script/headline.js"),
    include_str!("script/histogram.js"),
    include_str!("script/main.js"),
);

/// Writes the page with its data.
pub fn write(data: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        out.write_all(before.as_bytes())?;
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        match name {
            "policy" => out.write_all(policy().as_bytes())?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "script" => out.write_all(SCRIPT.as_bytes())?,
            _ => {
                // JSON comes in pieces of a few bytes.
                let mut data_out = BufWriter::new(Escaped::new(out));
                serde_json::to_writer(&mut data_out, data)?;
                data_out.flush()?;
            }
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    out.flush()
}

/// One script, one style, and nothing from anywhere.
fn policy() -> String {
    let (script, style) = (hash(SCRIPT), hash(STYLE));
    format!(
        "default-src 'none'; script-src {script}; style-src {style}; \
         base-uri 'none'; form-action 'none'"
    )
}

/// As policies name a text.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text)))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            let is_there = digit <= three.len();
            text.push(if is_there { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_its_standard() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(b"foobar?>"), "Zm9vYmFyPz4=");
    }

    #[test]
    fn the_hash_is_that_of_what_stands_between_the_tags() {
        let mut page = Vec::new();
        write(&"data", &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        let between = |open: &str, close: &str| {
            let (_, rest) = page.split_once(open).unwrap();
            hash(rest.split_once(close).unwrap().0)
        };
        let policy = page.split("content=\"").nth(1).unwrap().split('"').next().unwrap();
        assert!(policy.contains(&between("<script>", "</script>")), "{policy}");
        assert!(policy.contains(&between("<style>", "</style>")), "{policy}");
        assert!(page.contains(r#"<script type="application/json" id="data">"data"</script>"#));
    }
}
