//! Where an agent is asked over HTTP. What is a right address is known to who listens.

use std::path::PathBuf;

use serde::Deserialize;

/// Where, and who may ask.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Serve {
    /// An address with a port, or `unix:` with a path.
    pub listen: String,
    /// A file with what readers must know.
    pub token_file: Option<PathBuf>,
    /// Names of this machine besides its usual ones.
    pub allow_host: Vec<String>,
}

impl Default for Serve {
    fn default() -> Self {
        Self { listen: "127.0.0.1:7070".to_owned(), token_file: None, allow_host: Vec::new() }
    }
}
