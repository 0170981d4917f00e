//! How the user wants to look at a recording, or at two.

use std::{ops::Range, path::PathBuf, time::Duration};

use clap::Args;
use heapattach_ledger::{Filter, Ledger, Memory, Metric};
use heapattach_text::quantity::{parse_duration, parse_size};
use heapattach_verdict::{
    figure::Unit,
    subject::{Ask, Order},
};
use heapattach_view::{Colour, Page};

use super::{choice::choice, form::FileFormat};

/// Rows of recordings.
const ROWS: usize = 20;

/// What is asked of one ledger or of two.
#[derive(Clone, Debug, Args)]
pub struct LookArgs {
    /// What to measure, and of which memory: peak; mapped; all,allocated
    #[arg(
        long,
        default_value = "live",
        value_delimiter = ',',
        value_parser = choice(Measured::ALL, Measured::name, Measured::about)
    )]
    pub metric: Vec<Measured>,
    /// In which unit
    #[arg(hide_short_help = true, long, default_value = "bytes", value_parser = choice(Unit::ALL, Unit::name, about_unit))]
    pub unit: Unit,
    /// Rows, or nodes of a tree, to show [default: 20; of each kind of moments: 10]
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Trees: from `main` to the allocation (the default)
    #[arg(hide_short_help = true, long, conflicts_with = "bottom_up")]
    pub top_down: bool,
    /// Trees: from the allocation to `main`
    #[arg(hide_short_help = true, long)]
    pub bottom_up: bool,
    /// Functions: by what they have with all that they called (cum), not by their own (flat)
    #[arg(hide_short_help = true, long)]
    pub cum: bool,
    /// Only stacks with a function of this name, `*` for any text
    #[arg(long, value_name = "GLOB")]
    pub function: Vec<String>,
    /// Only stacks with a function of this module
    #[arg(hide_short_help = true, long, value_name = "GLOB")]
    pub module: Vec<String>,
    /// Only stacks with a function of this source file
    #[arg(hide_short_help = true, long = "file", value_name = "GLOB")]
    pub source: Vec<String>,
    /// Only threads of this name or number
    #[arg(hide_short_help = true, long, value_name = "GLOB")]
    pub thread: Vec<String>,
    /// Only stacks that allocate blocks of these sizes, by powers of two: 64, 4KiB.., 1KiB..1MiB
    #[arg(hide_short_help = true, long, value_name = "SIZES", value_parser = parse_sizes)]
    pub size: Option<(u64, u64)>,
    /// Only blocks of this age at the end (of the recording, or at --until): 30s.. for 30 s and older,
    /// ..1m for younger than a minute, 10s..1m
    #[arg(long, value_name = "AGES", value_parser = parse_ages)]
    pub age: Option<Range<Duration>>,
    /// Write a file for another program instead
    #[arg(long, value_parser = choice(FileFormat::ALL, FileFormat::name, FileFormat::about))]
    pub format: Option<FileFormat>,
    /// Write to OUT; `-` is standard output; heaptrack's is compressed if it ends in .gz [default: standard
    /// output; on a terminal, with --format, a file named after the recording]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Print the view as JSON
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Show functions with parameters and all arguments of templates
    #[arg(hide_short_help = true, long, conflicts_with = "format")]
    pub full_names: bool,
    /// So many columns of text, of the terminal or as many as it takes if not given
    #[arg(hide_short_help = true, long, value_name = "COLUMNS", conflicts_with_all = ["format", "json"])]
    pub width: Option<u16>,
    /// Whether to use colour
    #[arg(
        hide_short_help = true,
        long,
        default_value = "auto",
        value_parser = choice(Colour::ALL, Colour::name, about_colour),
        value_name = "WHEN"
    )]
    pub color: Colour,
}

impl LookArgs {
    /// The first option that is only of recordings.
    pub fn only_of_recordings(&self) -> Option<&'static str> {
        let given = [
            (self.metric != [Measured::Sum(Metric::Live)], "--metric"),
            (self.unit != Unit::Bytes, "--unit"),
            (self.bottom_up || self.top_down, "--top-down and --bottom-up"),
            (self.cum, "--cum"),
            (!self.function.is_empty(), "--function"),
            (!self.module.is_empty(), "--module"),
            (!self.source.is_empty(), "--file"),
            (!self.thread.is_empty(), "--thread"),
            (self.size.is_some(), "--size"),
            (self.age.is_some(), "--age"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option)
    }

    /// What to measure.
    pub fn metric(&self) -> Metric {
        let sum = |measured: &Measured| match measured {
            Measured::Sum(metric) => Some(*metric),
            Measured::Of(_) => None,
        };
        self.metric.iter().filter_map(sum).next_back().unwrap_or(Metric::Live)
    }

    /// Of which memory, if that was chosen.
    pub fn memory(&self) -> Option<Memory> {
        let memory = |measured: &Measured| match measured {
            Measured::Sum(_) => None,
            Measured::Of(memory) => Some(*memory),
        };
        self.metric.iter().filter_map(memory).next_back()
    }

    /// A ledger as that of the memory that was chosen.
    pub fn chosen(&self, ledger: Ledger) -> Ledger {
        match self.memory() {
            Some(memory) => ledger.of(memory),
            None => ledger,
        }
    }

    /// Where text goes.
    pub fn page(&self) -> Page {
        match self.width {
            None => Page::for_stream(self.color, &std::io::stdout()),
            Some(columns) => Page::for_width(self.color, &std::io::stdout(), columns.into()),
        }
    }

    /// What a view is asked.
    pub fn ask(&self) -> Ask {
        let order = if self.bottom_up { Order::BottomUp } else { Order::TopDown };
        let (metric, memory) = (self.metric(), self.memory());
        Ask {
            metric,
            memory,
            unit: self.unit,
            limit: self.limit.unwrap_or(ROWS),
            order,
            cum: self.cum,
        }
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

/// A word of `--metric`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// One of the sums.
    Sum(Metric),
    /// One kind of memory.
    Of(Memory),
}

impl Measured {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Sum(Metric::Live),
        Self::Sum(Metric::Allocated),
        Self::Sum(Metric::Freed),
        Self::Sum(Metric::Peak),
        Self::Sum(Metric::Temporary),
        Self::Of(Memory::Heap),
        Self::Of(Memory::Mapped),
        Self::Of(Memory::Own),
        Self::Of(Memory::All),
    ];

    /// Its name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum(metric) => metric.name(),
            Self::Of(memory) => memory.name(),
        }
    }

    /// What is said of it.
    pub fn about(self) -> &'static str {
        match self {
            Self::Sum(Metric::Live) => "In use at the end",
            Self::Sum(Metric::Allocated) => "Allocated since the attach",
            Self::Sum(Metric::Freed) => "Freed since the attach",
            Self::Sum(Metric::Peak) => "In use when most was in use",
            Self::Sum(Metric::Temporary) => "Freed very soon",
            Self::Of(Memory::Heap) => "Blocks of the heap only",
            Self::Of(Memory::Mapped) => "Mapped pages only, those of allocators and threads too",
            Self::Of(Memory::Own) => "Pages that the program mapped itself",
            Self::Of(Memory::All) => "Blocks, and pages that the program mapped itself, as one",
        }
    }
}

/// What is said of a unit.
fn about_unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "Requested bytes",
        Unit::Blocks => "Numbers of blocks",
    }
}

/// What is said of a value of `--color`.
pub fn about_colour(colour: Colour) -> &'static str {
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
