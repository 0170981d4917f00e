//! The values of `--format`: files for other programs, and for browsers.

use heapattach_export::Format;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// For browsers.
    Html,
    /// A folder of tables, for columnar engines.
    Parquet,
    /// For other programs.
    Export(Format),
}

impl FileFormat {
    /// All of them.
    pub const ALL: [Self; 2 + Format::ALL.len()] = {
        let mut all = [Self::Html; 2 + Format::ALL.len()];
        all[1] = Self::Parquet;
        let mut at = 2;
        while at < all.len() {
            all[at] = Self::Export(Format::ALL[at - 2]);
            at += 1;
        }
        all
    };

    /// Its name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Parquet => "parquet",
            Self::Export(format) => format.name(),
        }
    }

    /// What is said of it.
    pub fn about(self) -> &'static str {
        match self {
            Self::Html => "One page, for any browser",
            Self::Parquet => "A folder (-o) of tables, for DuckDB and the like (`help columns`)",
            Self::Export(Format::Pprof) => {
                "For `go tool pprof`, speedscope, Pyroscope and many others"
            }
            Self::Export(Format::Collapsed) => "A line per stack, for flame graph tools",
            Self::Export(Format::Flamegraph) => "A picture",
            Self::Export(Format::Heaptrack) => "For `heaptrack_gui` and `heaptrack_print`",
            Self::Export(Format::Dhat) => "For valgrind's `dh_view.html`",
            Self::Export(Format::Firefox) => "For profiler.firefox.com",
            Self::Export(Format::Heapprofile) => "For jeprof and google-pprof",
            Self::Export(Format::Callgraph) => "A picture of functions and who called them",
            Self::Export(Format::Massif) => "For `ms_print` and massif-visualizer",
            Self::Export(Format::Otlp) => "A request of OpenTelemetry profiles (v1development)",
            Self::Export(Format::Json) => "Everything, for scripts",
        }
    }

    /// Whether it can show two ledgers.
    pub fn can_compare(self) -> bool {
        match self {
            Self::Html => true,
            Self::Parquet => false,
            Self::Export(format) => format.can_compare(),
        }
    }

    /// How the name of such a file ends, without the dot before it.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Parquet => "parquet",
            Self::Export(format) => format.extension(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_format_has_a_name_of_its_own() {
        let formats: BTreeSet<_> = FileFormat::ALL.map(FileFormat::name).into();
        assert_eq!(formats.len(), Format::ALL.len() + 2);
        assert!(formats.contains("html") && formats.contains("pprof"));
    }
}
