//! `--json[=FILE]`: the result for programs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::builder::{OsStringValueParser, TypedValueParser};

/// The value of `--json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonArg {
    /// In the place of the text for people.
    Instead,
    /// To this file, beside it.
    File(PathBuf),
}

impl JsonArg {
    /// Reads it.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().map(Self::from)
    }
}

impl From<OsString> for JsonArg {
    fn from(name: OsString) -> Self {
        if name.is_empty() { Self::Instead } else { Self::File(name.into()) }
    }
}

/// Whether JSON takes the place of the text.
pub fn is_instead(arg: Option<&JsonArg>) -> bool {
    arg == Some(&JsonArg::Instead)
}

/// The file that it is written to beside the text.
pub fn file(arg: Option<&JsonArg>) -> Option<&Path> {
    match arg {
        Some(JsonArg::File(path)) => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn json_takes_the_place_of_the_text_or_goes_to_a_file() {
        let json = |words: &[&str]| {
            let line = [&["heapattach", "-p", "1"], words].concat();
            Cli::try_parse_from(line).unwrap().attach.session.json
        };
        assert_eq!(json(&[]), None);
        assert_eq!(json(&["--json"]), Some(JsonArg::Instead));
        assert_eq!(json(&["--json=a.json"]), Some(JsonArg::File("a.json".into())));
    }
}
