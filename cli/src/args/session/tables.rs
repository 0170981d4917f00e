//! A session as tables for columnar engines, in the place of its recording.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

/// What becomes of a session besides a recording.
#[derive(Clone, Debug, Default, Args)]
pub struct TablesArgs {
    /// Write FILE of -o as a folder of tables, for DuckDB and the like, and no recording (`help columns`); the same as a
    /// name that ends in .parquet. For all other formats: `report`
    #[arg(hide_short_help = true, long, value_enum, value_name = "FORMAT", requires = "output")]
    pub format: Option<SessionFormat>,
    /// Of these tables: the machine, a column [default: the name of this one]
    #[arg(hide_short_help = true, long, value_name = "NAME", requires = "output")]
    pub host: Option<String>,
    /// Of these tables: the service, a folder [default: the name of the program]
    #[arg(hide_short_help = true, long, value_name = "NAME", requires = "output")]
    pub service: Option<String>,
}

/// The value of `--format` of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SessionFormat {
    /// A folder of tables
    Parquet,
}

/// How the name of such a folder ends.
const END: &str = "parquet";

impl TablesArgs {
    /// The folder of the tables, if the session is to have them.
    pub fn folder<'a>(&self, output: Option<&'a Path>) -> Option<&'a Path> {
        output.filter(|path| self.format.is_some() || path.extension().is_some_and(|of| of == END))
    }

    /// Why these options mean nothing.
    pub fn misuse(&self, output: Option<&Path>) -> Option<String> {
        let is_named = self.host.is_some() || self.service.is_some();
        (is_named && self.folder(output).is_none()).then(|| {
            "--host and --service are of tables; need --format parquet, or -o FOLDER.parquet"
                .to_owned()
        })
    }
}

/// The recording that there is until the tables are written.
pub fn recording_of(folder: &Path) -> PathBuf {
    if folder.extension().is_some_and(|of| of == END) {
        return folder.with_extension("heapattach");
    }
    let mut name = folder.as_os_str().to_owned();
    name.push(".heapattach");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_by_its_end_or_by_the_format_and_its_recording_lies_beside_it() {
        let of = |format, path: &str| {
            let args = TablesArgs { format, ..TablesArgs::default() };
            args.folder(Some(path.as_ref()))
                .map(|folder| recording_of(folder).display().to_string())
        };
        assert_eq!(of(None, "a/x.parquet").as_deref(), Some("a/x.heapattach"));
        assert_eq!(of(Some(SessionFormat::Parquet), "a/x").as_deref(), Some("a/x.heapattach"));
        assert_eq!(of(None, "a/x.heapattach"), None);
        let args = TablesArgs { host: Some("x".to_owned()), ..TablesArgs::default() };
        assert!(args.misuse(Some("a".as_ref())).is_some_and(|why| why.contains("need --format")));
        assert_eq!(args.misuse(Some("a.parquet".as_ref())), None);
    }
}
