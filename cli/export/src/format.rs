//! The kinds of files, and which of them can tell what.

use std::{
    borrow::Cow,
    io::{self, Write},
    path::Path,
};

use crate::{
    callgraph, collapsed, dhat, firefox, flamegraph, heapprofile, heaptrack, json, massif, otlp,
    packing::Packing, pprof,
};
use heapattach_ledger::{Ledger, Memory, Metric};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// For `go tool pprof`, speedscope, Pyroscope and many others.
    Pprof,
    /// A line per stack, for flame graph tools.
    Collapsed,
    /// A picture.
    Flamegraph,
    /// For `heaptrack_gui` and `heaptrack_print`.
    Heaptrack,
    /// For valgrind's `dh_view.html`.
    Dhat,
    /// For profiler.firefox.com.
    Firefox,
    /// For jeprof and google-pprof.
    Heapprofile,
    /// A picture of who called whom.
    Callgraph,
    /// For `ms_print`.
    Massif,
    /// A request to a collector of OpenTelemetry profiles.
    Otlp,
    /// Everything, for scripts.
    Json,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 11] = [
        Self::Pprof,
        Self::Collapsed,
        Self::Flamegraph,
        Self::Heaptrack,
        Self::Dhat,
        Self::Firefox,
        Self::Heapprofile,
        Self::Callgraph,
        Self::Massif,
        Self::Otlp,
        Self::Json,
    ];

    /// Its name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pprof => "pprof",
            Self::Collapsed => "collapsed",
            Self::Flamegraph => "flamegraph",
            Self::Heaptrack => "heaptrack",
            Self::Dhat => "dhat",
            Self::Firefox => "firefox",
            Self::Heapprofile => "heapprofile",
            Self::Callgraph => "callgraph",
            Self::Massif => "massif",
            Self::Otlp => "otlp",
            Self::Json => "json",
        }
    }

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
            Self::Heaptrack => "heaptrack.gz",
            Self::Dhat => "dhat.json",
            Self::Firefox => "firefox.json.gz",
            Self::Heapprofile => "heap",
            Self::Callgraph => "callgraph.svg",
            Self::Massif => "massif",
            Self::Otlp => "otlp.pb",
            Self::Json => "json",
        }
    }
}

/// Writes a ledger in a format. `metric` is what a format tells that tells one thing only, and what
/// pprof shows first. What the program mapped itself is told beside its blocks, as [`Memory::All`] has it,
/// where a format has no place of its own for it.
///
/// # Errors
/// Only those of `out`.
pub fn write(
    ledger: &Ledger,
    format: Format,
    metric: Metric,
    out: &mut dyn Write,
) -> io::Result<()> {
    let ledger = &*of_all(ledger, format);
    match format {
        Format::Pprof => pprof::write(ledger, metric, out),
        Format::Collapsed => collapsed::write(ledger, metric, out),
        Format::Flamegraph => flamegraph::write(ledger, metric, out),
        Format::Heaptrack => heaptrack::write(ledger, Packing::Gzip, out),
        Format::Dhat => dhat::write(ledger, out),
        Format::Firefox => firefox::write(ledger, metric, out),
        Format::Heapprofile => heapprofile::write(ledger, out),
        Format::Callgraph => callgraph::write(ledger, metric, out),
        Format::Massif => massif::write(ledger, out),
        Format::Otlp => out.write_all(&otlp::request(&otlp::Sent::of(ledger), &[])),
        Format::Json => json::write(ledger, out),
    }
}

/// The same to a file of this name, by which some readers go.
///
/// # Errors
/// Those of `out`, and that a file of such a name cannot be written.
pub fn write_named(
    ledger: &Ledger,
    format: Format,
    metric: Metric,
    name: &Path,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Heaptrack => heaptrack::write(&of_all(ledger, format), Packing::of(name)?, out),
        _ => write(ledger, format, metric, out),
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
    let (now, base) = (&*of_all(now, format), &*of_all(base, format));
    match format {
        Format::Pprof => pprof::write_difference(now, base, metric, out),
        Format::Collapsed => collapsed::write_difference(now, base, metric, out),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// With what the program mapped, if there is any and the format does not tell it anyway.
fn of_all(ledger: &Ledger, format: Format) -> Cow<'_, Ledger> {
    let tells_mapped = matches!(format, Format::Pprof | Format::Json);
    match tells_mapped || ledger.own_mapped() == [0, 0] {
        true => Cow::Borrowed(ledger),
        false => Cow::Owned(ledger.clone().of(Memory::All)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;
    use heapattach_profile::Sum;

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
        for format in Format::ALL {
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
        for format in Format::ALL {
            let mut file = Vec::new();
            write(&ledger, format, Metric::Live, &mut file).unwrap();
            assert!(!file.is_empty(), "{format:?}");
        }
    }

    #[test]
    fn an_empty_ledger_can_be_written_in_every_format() {
        for format in Format::ALL {
            for metric in Metric::ALL {
                let mut file = Vec::new();
                write(&Ledger::default(), format, metric, &mut file).unwrap();
                assert_eq!(file.is_empty(), format == Format::Collapsed, "{format:?}");
            }
        }
    }
}
