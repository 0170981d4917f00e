//! In which form a moment is written: as the name of its file ends.

use std::path::Path;

use heapattach_export::Format;

use super::FileFormat;

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentForm {
    /// All that was found, to show again and to compare.
    Moment,
    /// What holds the blocks, for `go tool pprof`.
    Pprof,
    /// The same, a line a path.
    Collapsed,
    /// What `--json` prints.
    Json,
    /// A page for browsers.
    Html,
}

impl MomentForm {
    /// By the end of the name, if it has one that is known.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy();
        let ends = [
            (".heapattach-moment", Self::Moment),
            (".pb.gz", Self::Pprof),
            (".pprof", Self::Pprof),
            (".collapsed", Self::Collapsed),
            (".folded", Self::Collapsed),
            (".json", Self::Json),
            (".html", Self::Html),
        ];
        ends.into_iter().find(|(end, _)| name.ends_with(end)).map(|(_, outlet)| outlet)
    }

    /// The one that `--format` names.
    ///
    /// # Errors
    /// It is only of recordings.
    pub fn of_format(format: FileFormat) -> Result<Self, String> {
        match format {
            FileFormat::Export(Format::Pprof) => Ok(Self::Pprof),
            FileFormat::Export(Format::Collapsed) => Ok(Self::Collapsed),
            FileFormat::Export(Format::Json) => Ok(Self::Json),
            FileFormat::Html => Ok(Self::Html),
            other => Err(format!(
                "{} cannot show a moment; use html, pprof, collapsed or json",
                other.name()
            )),
        }
    }

    /// Whether it is of what holds the blocks.
    pub fn is_of_holders(self) -> bool {
        match self {
            Self::Pprof | Self::Collapsed => true,
            Self::Moment | Self::Json | Self::Html => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_is_a_form() {
        let of = |name: &str| MomentForm::of(name.as_ref());
        assert_eq!(of("/tmp/monday.heapattach-moment"), Some(MomentForm::Moment));
        assert_eq!(of("a.b.pb.gz"), Some(MomentForm::Pprof));
        assert_eq!(of("paths"), None);
        assert!(MomentForm::of_format(FileFormat::Export(Format::Dhat)).is_err());
    }
}
