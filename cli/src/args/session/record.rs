//! How a session is written down.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;

use super::tables::{TablesArgs, recording_of};
use heapattach_session::watch::options::RecordOptions;
use heapattach_text::quantity::{parse_duration, parse_size};

/// How a session is written down.
#[derive(Clone, Debug, Args)]
pub struct RecordArgs {
    /// Write the recording to FILE [default: NAME.PID.heapattach]
    ///
    /// An existing FILE is overwritten only with --force. With --json there is no default. FOLDER.parquet is a folder of
    /// tables, with no recording (see --format).
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the recording to PATH.PID.heapattach
    #[arg(hide_short_help = true, long, value_name = "PATH", conflicts_with = "output")]
    pub output_prefix: Option<PathBuf>,
    /// Write no recording
    #[arg(hide_short_help = true, long, conflicts_with_all = ["output", "output_prefix"])]
    pub no_record: bool,
    /// Leave the command line of the process out of the recording
    #[arg(hide_short_help = true, long)]
    pub redact: bool,
    /// Leave names out of the recording: a reader then needs files of the same builds
    #[arg(hide_short_help = true, long)]
    pub no_symbols: bool,
    /// About how large the recording may become; beyond that, sums replace older events
    #[arg(
        hide_short_help = true,
        long,
        value_name = "SIZE",
        default_value = "256MiB",
        value_parser = parse_file_size,
        allow_hyphen_values = true
    )]
    pub max_size: u64,
    /// Mark a moment in the recording every TIME, to report or to compare later
    #[arg(hide_short_help = true, long, value_name = "TIME", value_parser = parse_period, allow_hyphen_values = true)]
    pub snapshot_every: Option<Duration>,
    /// Mark a moment whenever SIZE more is in use than at the last of these
    #[arg(hide_short_help = true, long, value_name = "SIZE", value_parser = parse_growth, allow_hyphen_values = true)]
    pub dump_on_growth: Option<u64>,
    /// Mark a moment whenever a tenth more is in use than ever before
    #[arg(hide_short_help = true, long)]
    pub dump_on_peak: bool,
    /// Mark a moment each time SIZE more was allocated, freed or not
    #[arg(hide_short_help = true, long, value_name = "SIZE", value_parser = parse_growth, allow_hyphen_values = true)]
    pub dump_every_allocated: Option<u64>,
    /// Print the largest sites every TIME while recording [default: every 5s]
    #[arg(
        hide_short_help = true,
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5s",
        value_parser = parse_period,
        conflicts_with = "json"
    )]
    pub follow: Option<Duration>,
    /// Tables in the place of the recording.
    #[command(flatten)]
    pub tables: TablesArgs,
}

impl RecordArgs {
    /// The file of the recording that was named.
    pub fn recording(&self) -> Option<PathBuf> {
        match self.tables() {
            Some(folder) => Some(recording_of(folder)),
            None => self.output.clone(),
        }
    }

    /// The folder of the tables that are to take its place.
    pub fn tables(&self) -> Option<&Path> {
        self.tables.folder(self.output.as_deref())
    }

    /// Why tables can never be written: better known before the session.
    ///
    /// # Errors
    /// With the name of the folder.
    pub fn look_at_tables(&self) -> Result<(), String> {
        match self.tables() {
            Some(folder) if folder.exists() && !folder.is_dir() => {
                Err(format!("{} is not a folder; need one, or a new name", folder.display()))
            }
            _ => Ok(()),
        }
    }

    /// What the session is told; `is_by_default`: a file is to be left behind that was not named.
    pub fn options(&self, is_by_default: bool) -> RecordOptions {
        RecordOptions {
            output: self.recording(),
            prefix: self.output_prefix.clone(),
            is_by_default,
            redact: self.redact,
            names: !self.no_symbols,
            max_size: self.max_size,
            mark_every: self.snapshot_every.into_iter().chain(self.follow).min(),
            mark_on_growth: self.dump_on_growth,
            mark_on_peak: self.dump_on_peak,
            mark_every_allocated: self.dump_every_allocated,
        }
    }
}

/// A smaller file could not even hold what there is to say of a session without events.
const LEAST_FILE: u64 = 1 << 20;

/// More often would only fill the recording.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

fn parse_file_size(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    (size >= LEAST_FILE).then_some(size).ok_or_else(|| format!("`{text}` is less than 1MiB"))
}

fn parse_period(text: &str) -> Result<Duration, String> {
    let period = parse_duration(text)?;
    (period >= LEAST_PERIOD).then_some(period).ok_or_else(|| format!("`{text}` is less than 100ms"))
}

fn parse_growth(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    (size > 0)
        .then_some(size)
        .ok_or_else(|| format!("`{text}` is not a growth; need 1 byte or more"))
}
