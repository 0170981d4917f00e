//! A page around data: markup, style, script, and the policy that admits nothing else.

use std::io::{self, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{base64::base64, packed};

/// Starts the script, when the data are unpacked.
pub const LOADER: &str = include_str!("script/loader.js");

/// What a page is made of.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// The markup: `{{policy}}`, `{{style}}`, `{{script}}`, `{{loader}}` and `{{data}}` stand for the rest.
    pub page: &'static str,
    /// All of its style.
    pub style: &'static str,
    /// All of its script.
    pub script: &'static str,
    /// What starts the script.
    pub loader: &'static str,
    /// Whether it may ask where it came from for newer data.
    pub is_live: bool,
}

impl Template {
    /// Writes the page with its data.
    pub fn write(&self, data: &(impl Serialize + Sync), out: &mut dyn Write) -> io::Result<()> {
        let mut rest = self.page;
        while let Some((before, after)) = rest.split_once("{{") {
            out.write_all(before.as_bytes())?;
            let (name, after) = after.split_once("}}").unwrap_or((after, ""));
            match name {
                "policy" => out.write_all(self.policy().as_bytes())?,
                "style" => out.write_all(self.style.as_bytes())?,
                "script" => out.write_all(self.script.as_bytes())?,
                "loader" => out.write_all(self.loader.as_bytes())?,
                _ => packed::write(data, out)?,
            }
            rest = after;
        }
        out.write_all(rest.as_bytes())?;
        out.flush()
    }

    /// One script and what starts it, one style, and nothing from anywhere else.
    fn policy(&self) -> String {
        let (loader, script, style) = (hash(self.loader), hash(self.script), hash(self.style));
        let connect = if self.is_live { "connect-src 'self'; " } else { "" };
        format!(
            "default-src 'none'; script-src {loader} {script}; style-src {style}; {connect}\
             base-uri 'none'; form-action 'none'"
        )
    }
}

/// As policies name a text.
pub(super) fn hash(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text)))
}
