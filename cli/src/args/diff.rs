//! `heapattach diff`.

use clap::Args;
use heapattach_view::View;

use super::recording_view::LookArgs;

const EXAMPLES: &str = "\
Examples:
  heapattach diff before.heapattach after.heapattach      what grew, what shrank
  heapattach diff FILE@10s FILE@60s                       two moments of one recording
  heapattach diff A B C D                                 what grew each time
  heapattach diff A B --view tree --metric allocated
  heapattach diff monday.heapattach-moment friday.heapattach-moment   of `heap -o`: by class, holder, arena
  heapattach diff A B --format html -o diff.html

Stacks are matched by the names of functions and modules: a rebuild or a restart changes nothing.";

/// Each is read on its own, and has a column.
const MOST: usize = 20;

/// `heapattach diff`.
#[derive(Clone, Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct DiffArgs {
    /// Recordings, or moments of one as FILE@TIME, or files of `heap -o`; the earliest first: two, or up to 20
    #[arg(required = true, num_args = 2..=MOST, value_names = ["BEFORE", "AFTER"])]
    pub moments: Vec<String>,
    /// How to look at it: sites (the default), top or tree
    #[arg(long, value_parser = comparing_view, conflicts_with = "format")]
    pub view: Option<View>,
    /// What is asked.
    #[command(flatten)]
    pub look: LookArgs,
}

fn comparing_view(text: &str) -> Result<View, String> {
    let is_it = |view: &View| view.name().eq_ignore_ascii_case(text);
    let view = View::ALL.into_iter().find(is_it).filter(|view| view.can_compare());
    view.ok_or_else(|| format!("`{text}` cannot show two recordings; use sites, top or tree"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_views_that_can_compare_are_taken_for_a_comparison() {
        assert_eq!(comparing_view("tree"), Ok(View::Tree));
        assert!(comparing_view("sizes").is_err() && comparing_view("nonsense").is_err());
    }
}
