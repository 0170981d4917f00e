//! How the user wants to look at a recording, or at two.

use std::{ops::Range, path::PathBuf, time::Duration};

use clap::Args;
use heapattach_ledger::{Filter, Metric};
use heapattach_text::quantity::{parse_duration, parse_size};
use heapattach_verdict::{
    figure::Unit,
    subject::{Ask, Order},
};
use heapattach_view::Colour;

use super::{choice::choice, file_format::FileFormat};

/// What is asked of one ledger or of two.
#[derive(Clone, Debug, Args)]
pub struct LookArgs {
    /// What is measured
    #[arg(long, default_value = "live", value_parser = choice(Metric::ALL, Metric::name, about_metric))]
    pub metric: Metric,
    /// In what
    #[arg(long, default_value = "bytes", value_parser = choice(Unit::ALL, Unit::name, about_unit))]
    pub unit: Unit,
    /// Rows, or nodes of a tree, that are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Trees: from `main` to who asked for memory (that is the default)
    #[arg(long, conflicts_with = "bottom_up")]
    pub top_down: bool,
    /// Trees: from who asked for memory to `main`
    #[arg(long)]
    pub bottom_up: bool,
    /// Only stacks with such a function, `*` being any text
    #[arg(long, value_name = "GLOB")]
    pub function: Vec<String>,
    /// Only stacks with a function of such a module
    #[arg(long, value_name = "GLOB")]
    pub module: Vec<String>,
    /// Only stacks with a function of such a source file
    #[arg(long = "file", value_name = "GLOB")]
    pub source: Vec<String>,
    /// Only threads of such a name, or of this number
    #[arg(long, value_name = "GLOB")]
    pub thread: Vec<String>,
    /// Only stacks that ask for blocks of such sizes, by powers of two: 64, 4KiB.., 1KiB..1MiB
    #[arg(long, value_name = "SIZES", value_parser = parse_sizes)]
    pub size: Option<(u64, u64)>,
    /// Only blocks that were handed out so long before the end (of the recording, or --until): 30s..
    /// for 30 s and longer, ..1m for less than a minute, 10s..1m
    #[arg(long, value_name = "AGES", value_parser = parse_ages)]
    pub age: Option<Range<Duration>>,
    /// Write a file for another program instead
    #[arg(long, value_parser = choice(FileFormat::ALL, FileFormat::name, FileFormat::about))]
    pub format: Option<FileFormat>,
    /// Where to; `-` is standard output; heaptrack's is compressed if it is called .gz [default for --format: standard output, or on a terminal a
    /// file named after the recording]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Print the view as JSON
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Whether to use colour
    #[arg(
        long,
        default_value = "auto",
        value_parser = choice(Colour::ALL, Colour::name, about_colour),
        value_name = "WHEN"
    )]
    pub color: Colour,
}

impl LookArgs {
    /// What a view is asked.
    pub fn ask(&self) -> Ask {
        let order = if self.bottom_up { Order::BottomUp } else { Order::TopDown };
        Ask { metric: self.metric, unit: self.unit, limit: self.limit, order }
    }

    /// Of which part.
    pub fn filter(&self) -> Filter {
        Filter {
            functions: self.function.clone(),
            files: self.source.clone(),
            modules: self.module.clone(),
            threads: self.thread.clone(),
            sizes: self.size,
        }
    }
}

/// What is said of a metric.
fn about_metric(metric: Metric) -> &'static str {
    match metric {
        Metric::Live => "Held at the end",
        Metric::Allocated => "Asked for since the attach",
        Metric::Freed => "Given back since the attach",
        Metric::Peak => "Held when most was held",
        Metric::Temporary => "Given back very soon",
    }
}

/// What is said of a unit.
fn about_unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "Bytes asked for",
        Unit::Blocks => "Numbers of blocks",
    }
}

/// What is said of a value of `--color`.
fn about_colour(colour: Colour) -> &'static str {
    match colour {
        Colour::Auto => "On a terminal that has them (not TERM=dumb), unless NO_COLOR is set",
        Colour::Always => "Even into a pipe",
        Colour::Never => "Not at all",
    }
}

/// `64` is that very size.
fn parse_sizes(text: &str) -> Result<(u64, u64), String> {
    let size = |text: &str, other| if text.is_empty() { Ok(other) } else { parse_size(text) };
    let (least, most) = match text.split_once("..") {
        Some((least, most)) => (size(least, 0)?, size(most, u64::MAX)?),
        None => (parse_size(text)?, parse_size(text)?),
    };
    if least <= most { Ok((least, most)) } else { Err(format!("`{text}` begins after its end")) }
}

/// A single time says nothing: hardly a block is just so old.
fn parse_ages(text: &str) -> Result<Range<Duration>, String> {
    let Some((least, most)) = text.split_once("..") else {
        let older = format!("`{text}..` for blocks that are older");
        return Err(format!("an age is a range: {older}, `..{text}` for younger ones"));
    };
    let age = |text: &str, other| if text.is_empty() { Ok(other) } else { parse_duration(text) };
    let (least, most) = (age(least, Duration::ZERO)?, age(most, Duration::MAX)?);
    if least < most { Ok(least..most) } else { Err(format!("`{text}` begins after its end")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_one_or_a_range() {
        assert_eq!(parse_sizes("64"), Ok((64, 64)));
        assert_eq!(parse_sizes("4KiB.."), Ok((4096, u64::MAX)));
        assert_eq!(parse_sizes("1K..2K"), Ok((1024, 2048)));
        assert!(parse_sizes("2K..1K").is_err() && parse_sizes("x").is_err());
    }

    #[test]
    fn ages_are_ranges() {
        let minute = Duration::from_secs(60);
        assert_eq!(parse_ages("1m.."), Ok(minute..Duration::MAX));
        assert_eq!(parse_ages("..1m"), Ok(Duration::ZERO..minute));
        assert_eq!(parse_ages("1m..2m"), Ok(minute..2 * minute));
        let single = parse_ages("1m").unwrap_err();
        assert!(single.contains("`1m..`") && single.contains("`..1m`"), "{single}");
        assert!(parse_ages("2m..1m").is_err() && parse_ages("x..").is_err());
    }
}
