//! A ledger as files that other tools read.
//!
//! ```text
//! &Ledger -> sample: whole numbers per stack and thread -> one file per format
//!            notes:  coverage and losses in words       ->
//! ```
//!
//! No format says how sure an estimate is, except our own JSON; the others carry the unbiased
//! estimate, rounded such that all stacks together are the rounded total (see [`apportion`]).
//! Names come from a process that may be hostile: each format makes them harmless in its own way.

mod apportion;
mod collapsed;
#[cfg(test)]
mod crowd;
mod dhat;
mod firefox;
mod flamegraph;
pub mod harmless;
mod heapprofile;
mod heaptrack;
mod joined;
mod json;
mod notes;
pub mod pprof;
#[cfg(test)]
mod reader_tests;
mod sample;
#[cfg(test)]
mod shelf;
mod tree;
#[cfg(test)]
mod web_reader_tests;

use std::io::{self, Write};

use crate::ledger::{Ledger, Metric};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Format {
    /// For `go tool pprof`, speedscope, Pyroscope and many others
    Pprof,
    /// A line per stack, for flame graph tools
    Collapsed,
    /// A picture
    Flamegraph,
    /// For `heaptrack_gui` and `heaptrack_print`
    Heaptrack,
    /// For valgrind's `dh_view.html`
    Dhat,
    /// For profiler.firefox.com
    Firefox,
    /// For jeprof and google-pprof
    Heapprofile,
    /// Everything, for scripts
    Json,
}

impl Format {
    /// Whether it can say what became less.
    pub fn can_compare(self) -> bool {
        matches!(self, Self::Pprof | Self::Collapsed)
    }

    /// How the name of such a file ends, without the dot before it.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Pprof => "pb.gz",
            Self::Collapsed => "folded",
            Self::Flamegraph => "svg",
            // heaptrack tells compressed files by the end of their names.
            Self::Heaptrack => "heaptrack.gz",
            Self::Dhat => "dhat.json",
            Self::Firefox => "firefox.json.gz",
            Self::Heapprofile => "heap",
            Self::Json => "json",
        }
    }
}

/// Writes a ledger in a format. `metric` is what a format tells that tells one thing only, and what
/// pprof shows first.
///
/// # Errors
/// Only those of `out`.
pub fn write(
    ledger: &Ledger,
    format: Format,
    metric: Metric,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Pprof => pprof::write(ledger, metric, out),
        Format::Collapsed => collapsed::write(ledger, metric, out),
        Format::Flamegraph => flamegraph::write(ledger, metric, out),
        Format::Heaptrack => heaptrack::write(ledger, out),
        Format::Dhat => dhat::write(ledger, out),
        Format::Firefox => firefox::write(ledger, metric, out),
        Format::Heapprofile => heapprofile::write(ledger, out),
        Format::Json => json::write(ledger, out),
    }
}

/// Writes what became different since `base`; only some formats can say that.
///
/// # Errors
/// Those of `out`, and that a format cannot.
pub fn write_difference(
    now: &Ledger,
    base: &Ledger,
    format: Format,
    metric: Metric,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Pprof => pprof::write_difference(now, base, metric, out),
        Format::Collapsed => collapsed::write_difference(now, base, metric, out),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::{ledger::sample, profile::Sum};

    /// A writer with room for some bytes only.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.0);
            self.0 -= fits;
            if fits == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(fits) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_an_error_in_every_format() {
        let ledger = sample::ledger();
        for &format in Format::value_variants() {
            for room in [0, 40] {
                let error = write(&ledger, format, Metric::Live, &mut Full(room)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{format:?} {room}");
            }
        }
    }

    #[test]
    fn a_total_without_rows_can_be_written_in_every_format() {
        let mut ledger = Ledger::default();
        ledger.total.set_sums(Metric::ALL.map(|_| Sum::exact(100, 3)));
        for &format in Format::value_variants() {
            let mut file = Vec::new();
            write(&ledger, format, Metric::Live, &mut file).unwrap();
            assert!(!file.is_empty(), "{format:?}");
        }
    }

    #[test]
    fn an_empty_ledger_can_be_written_in_every_format() {
        for &format in Format::value_variants() {
            for metric in Metric::ALL {
                let mut file = Vec::new();
                write(&Ledger::default(), format, metric, &mut file).unwrap();
                assert_eq!(file.is_empty(), format == Format::Collapsed, "{format:?}");
            }
        }
    }
}
