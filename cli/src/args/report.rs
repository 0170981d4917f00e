//! `heapattach report`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use heapattach_text::quantity::parse_duration;
use heapattach_view::View;

use super::{choice::choice, look::LookArgs};

const EXAMPLES: &str = "\
Examples:
  heapattach report FILE                              what can be said, on one screen
  heapattach report FILE --view tree --bottom-up      who asked for memory, and who called them
  heapattach report FILE --view sites --metric peak   what memory was made of at its peak
  heapattach report FILE --function 'parse_*' --since 10s --until 20s
  heapattach report FILE --age 10m..                  what has been held for ten minutes and longer
  heapattach report FILE --format html -o heap.html   a picture, for any browser
  heapattach report FILE --format pprof -o heap.pb.gz && go tool pprof -http=: heap.pb.gz";

/// `heapattach report`.
#[derive(Clone, Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct ReportArgs {
    /// The recording
    pub file: PathBuf,
    /// How to look at it
    #[arg(
        long,
        default_value = "summary",
        value_parser = choice(View::ALL, View::name, about_view),
        conflicts_with = "format"
    )]
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

/// What is said of a view.
fn about_view(view: View) -> &'static str {
    match view {
        View::Summary => {
            "One screen: what can be said, who holds memory, and how much of it to believe"
        }
        View::Top => "Functions: their own memory, and that of everything they called",
        View::Tree => "A tree of calls",
        View::Sites => "Who asked for memory, with callers",
        View::Threads => "Which threads did",
        View::Sizes => "Blocks by their size",
        View::Lifetimes => "Blocks by how long they lived",
        View::Temporary => "Blocks given back very soon",
        View::Timeline => "The course of time",
        View::Peak => "What memory was made of when most was held",
        View::Mmap => "Pages that were mapped",
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
