//! Where profiles go, in which forms, and how many.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

use crate::quantity::{duration, size};

/// Less often than that tables of a session that goes on are written anew.
const LEAST_EVERY: Duration = Duration::from_secs(1);

/// Where profiles go.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Spool {
    /// The folder; `spool` in that of the state without it.
    pub folder: Option<PathBuf>,
    /// So many bytes,
    #[serde(deserialize_with = "size")]
    pub max_size: u64,
    /// and so old at most.
    #[serde(deserialize_with = "duration")]
    pub max_age: Duration,
    /// In which forms, one at least.
    pub formats: Vec<Form>,
    /// Tables of a session that goes on are written so often, and when it has ended.
    #[serde(deserialize_with = "duration")]
    pub tables_every: Duration,
}

/// A form of profiles.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// A file a session, for `go tool pprof`.
    Pprof,
    /// Tables, for columnar engines.
    Parquet,
}

impl Spool {
    /// Whether profiles have this form.
    pub fn has(&self, form: Form) -> bool {
        self.formats.contains(&form)
    }

    /// What is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.formats.is_empty() {
            return Err("[spool] has no formats; need \"pprof\", \"parquet\" or both".to_owned());
        }
        if self.tables_every < LEAST_EVERY {
            return Err("tables-every is below 1 s".to_owned());
        }
        Ok(())
    }
}

impl Default for Spool {
    fn default() -> Self {
        Self {
            folder: None,
            max_size: 1 << 30,
            max_age: Duration::from_secs(24 * 3600),
            formats: vec![Form::Pprof],
            tables_every: Duration::from_secs(3600),
        }
    }
}
