//! How somebody wants to look at a recording, as it was typed.

use std::{ops::Range, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum, builder::PossibleValue};

use crate::{
    export,
    ledger::Metric,
    quantity::{parse_duration, parse_size},
    view::{Ask, Colour, Filter, Order, Unit, View},
};

const REPORT: &str = "\
Examples:
  heapattach report FILE                              what can be said, on one screen
  heapattach report FILE --view tree --bottom-up      who asked for memory, and who called them
  heapattach report FILE --view sites --metric peak   what memory was made of at its peak
  heapattach report FILE --function 'parse_*' --since 10s --until 20s
  heapattach report FILE --age 10m..                  what has been held for ten minutes and longer
  heapattach report FILE --format html -o heap.html   a picture, for any browser
  heapattach report FILE --format pprof -o heap.pb.gz && go tool pprof -http=: heap.pb.gz";

const DIFF: &str = "\
Examples:
  heapattach diff before.heapattach after.heapattach      what became more, what became less
  heapattach diff FILE@10s FILE@60s                       two moments of one recording
  heapattach diff A B --view tree --metric allocated
  heapattach diff A B --format html -o diff.html

Stacks are matched by the names of functions and modules: a rebuild or a restart changes nothing.";

/// `heapattach report`.
#[derive(Clone, Debug, Args)]
#[command(before_help = REPORT)]
pub struct ReportArgs {
    /// The recording
    pub file: PathBuf,
    /// How to look at it
    #[arg(long, value_enum, default_value_t, conflicts_with = "format")]
    pub view: View,
    /// The part of the time that begins so long after the attach: blocks handed out earlier are left
    /// out
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub since: Option<Duration>,
    /// The part of the time that ends so long after the attach
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub until: Option<Duration>,
    /// What is asked.
    #[command(flatten)]
    pub look: LookArgs,
}

/// `heapattach diff`.
#[derive(Clone, Debug, Args)]
#[command(before_help = DIFF)]
pub struct DiffArgs {
    /// What it was: a recording, or a moment of one as FILE@TIME
    pub before: String,
    /// What it became
    pub after: String,
    /// How to look at it
    #[arg(long, default_value = "sites", value_parser = comparing_view, conflicts_with = "format")]
    pub view: View,
    /// What is asked.
    #[command(flatten)]
    pub look: LookArgs,
}

/// What is asked of one ledger or of two.
#[derive(Clone, Debug, Args)]
pub struct LookArgs {
    /// What is measured
    #[arg(long, value_enum, default_value = "live")]
    pub metric: Metric,
    /// In what
    #[arg(long, value_enum, default_value_t)]
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
    #[arg(long, value_enum)]
    pub format: Option<FileFormat>,
    /// Where to; `-` is standard output [default for --format: standard output, or on a terminal a
    /// file named after the recording]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Print the view as JSON
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Whether to use colour
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Colour,
}

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// For browsers.
    Html,
    /// For other programs.
    Export(export::Format),
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

impl FileFormat {
    /// Whether it can show two ledgers.
    pub fn can_compare(self) -> bool {
        match self {
            Self::Html => true,
            Self::Export(format) => format.can_compare(),
        }
    }

    /// How the name of such a file ends, without the dot before it.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Export(format) => format.extension(),
        }
    }
}

impl ValueEnum for FileFormat {
    fn value_variants<'a>() -> &'a [Self] {
        use export::Format;
        &[
            Self::Html,
            Self::Export(Format::Pprof),
            Self::Export(Format::Collapsed),
            Self::Export(Format::Flamegraph),
            Self::Export(Format::Heaptrack),
            Self::Export(Format::Dhat),
            Self::Export(Format::Firefox),
            Self::Export(Format::Heapprofile),
            Self::Export(Format::Json),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Html => Some(PossibleValue::new("html").help("One page, for any browser")),
            Self::Export(format) => format.to_possible_value(),
        }
    }
}

fn comparing_view(text: &str) -> Result<View, String> {
    let view = <View as ValueEnum>::from_str(text, true).ok().filter(|view| view.can_compare());
    view.ok_or_else(|| format!("`{text}` cannot show two recordings; use sites, top or tree"))
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
    fn every_format_of_the_exports_can_be_asked_for() {
        let own = FileFormat::value_variants().len();
        assert_eq!(own, export::Format::value_variants().len() + 1);
        assert_eq!(
            FileFormat::from_str("pprof", false),
            Ok(FileFormat::Export(export::Format::Pprof))
        );
    }

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

    #[test]
    fn only_views_that_can_compare_are_taken_for_a_comparison() {
        assert_eq!(comparing_view("tree"), Ok(View::Tree));
        assert!(comparing_view("sizes").is_err() && comparing_view("nonsense").is_err());
    }
}
