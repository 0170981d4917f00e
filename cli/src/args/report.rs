//! `heapattach report`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use heapattach_text::quantity::parse_duration;
use heapattach_view::View;

use super::{form::ReportView, recording_view::LookArgs};

const EXAMPLES: &str = "\
Examples:
  heapattach report FILE                              the summary, on one screen
  heapattach report FILE --view tree --bottom-up      which code allocated, and what called it
  heapattach report FILE --view flame                 a flame graph, as wide as the terminal
  heapattach report FILE --view sites --metric peak   what was in use at the peak
  heapattach report FILE --view source parse_line     lines of source, with bytes beside them
  heapattach report FILE --function 'parse_*' --since 10s --until 20s
  heapattach report FILE --age 10m..                  in use for ten minutes and longer
  heapattach report FILE --format html -o heap.html   a page for any browser
  heapattach report FILE --format parquet -o FOLDER   tables for DuckDB and the like: many machines
  heapattach report FILE --format pprof -o heap.pb.gz && go tool pprof -http=: heap.pb.gz";

/// `heapattach report`.
#[derive(Clone, Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct ReportArgs {
    /// The recording, or the moment that `heap -o` wrote
    pub file: PathBuf,
    /// With `--view source`: the function, `*` for any text [default: the largest three]
    #[arg(value_name = "FUNCTION")]
    pub source_of: Option<String>,
    /// How to look at it
    #[arg(
        long,
        default_value = "summary",
        value_parser = ReportView::parser(about_view),
        conflicts_with = "format"
    )]
    pub view: ReportView,
    /// Only the time from TIME after the attach: blocks allocated earlier are left out
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub since: Option<Duration>,
    /// Only the time until TIME after the attach
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub until: Option<Duration>,
    /// Leave lines of source files out of a page (--format html)
    #[arg(hide_short_help = true, long)]
    pub no_source: bool,
    /// With --format parquet: the machine, a column of the tables [default: empty, a recording does not tell]
    #[arg(hide_short_help = true, long, value_name = "NAME")]
    pub host: Option<String>,
    /// With --format parquet: the service, a folder of the tables [default: the name of the program]
    #[arg(hide_short_help = true, long, value_name = "NAME")]
    pub service: Option<String>,
    /// What is asked.
    #[command(flatten)]
    pub look: LookArgs,
}

/// What is said of a view.
fn about_view(view: View) -> &'static str {
    match view {
        View::Summary => "One screen: the verdict, the largest sites, and how sure they are",
        View::Top => "Functions: their own memory (flat), and with all that they called (cum)",
        View::Tree => "A tree of calls",
        View::Flame => "A flame graph: calls as wide as their part",
        View::Sites => "Functions that allocated, with callers",
        View::Threads => "Threads",
        View::Sizes => "Blocks by their size",
        View::Lifetimes => "Blocks by how long they lived",
        View::Temporary => "Blocks freed very soon",
        View::Timeline => "Memory over time",
        View::Peak => "Memory when most was in use",
        View::Mmap => "Pages that were mapped",
        View::Kernel => {
            "Functions that made the process ask the kernel for memory (mmap, brk, madvise)"
        }
        View::Source => "Lines of source, with bytes beside them",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_view_has_a_name_of_its_own() {
        assert_eq!(BTreeSet::from(View::ALL.map(View::name)).len(), View::ALL.len());
    }
}
