//! How much a program may lose or hold.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use heapattach_reach::Kind;
use heapattach_report::findings::Limits;
use heapattach_text::quantity::{parse_rate, parse_size};

/// What passes a limit makes the check fail.
#[derive(Clone, Debug, Args)]
pub struct LimitArgs {
    /// How much may leak in all [default: nothing, unless --max-leak-per-stack is given]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub max_leak: Option<u64>,
    /// How much may leak by one stack
    #[arg(hide_short_help = true, long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub max_leak_per_stack: Option<u64>,
    /// How fast the heap may grow: 64KiB/min. If that cannot be judged, the exit status is 6
    #[arg(hide_short_help = true, long, value_name = "SIZE/min", value_parser = parse_rate, allow_hyphen_values = true)]
    pub max_growth: Option<u64>,
    /// How much may be in use at once; of several processes, the sum of their peaks counts
    #[arg(hide_short_help = true, long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub max_peak: Option<u64>,
    /// How much may be in use when the check is made
    #[arg(hide_short_help = true, long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub max_live: Option<u64>,
    /// How many allocating calls there may be
    #[arg(hide_short_help = true, long, value_name = "CALLS")]
    pub max_allocs: Option<u64>,
    /// What counts as leaked
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        value_delimiter = ',',
        default_value = "direct,indirect"
    )]
    pub fail_on: Vec<FailOn>,
    /// Compare with an earlier check: only new stacks, or stacks that leak more than then, count
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Write what leaks now to the file of --baseline, and do not fail for it
    #[arg(long, requires = "baseline")]
    pub update_baseline: bool,
}

/// A value of `--fail-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Blocks that nothing leads to
    #[value(alias = "definite")]
    Direct,
    /// Blocks that only leaked blocks lead to
    Indirect,
    /// Blocks that only pointers to the inside of blocks lead to
    Possible,
    /// A heap that grows, by a stack whose blocks are never freed
    Growing,
    /// Blocks that were allocated before the attach and that nothing leads to
    Older,
}

impl LimitArgs {
    /// The kinds that count.
    pub fn kinds(&self) -> Vec<Kind> {
        let kind = |fail: &FailOn| match fail {
            FailOn::Direct => Some(Kind::Direct),
            FailOn::Indirect => Some(Kind::Indirect),
            FailOn::Possible => Some(Kind::Possible),
            FailOn::Growing | FailOn::Older => None,
        };
        self.fail_on.iter().filter_map(kind).collect()
    }

    /// Whether there is a limit on growth.
    pub fn ask_for_growth(&self) -> bool {
        self.max_growth.is_some() || self.fail_on.contains(&FailOn::Growing)
    }

    /// What may leak, and what may be in use.
    pub fn limits(&self, unused_rules: bool) -> Limits {
        Limits {
            leak: self.max_leak,
            leak_per_stack: self.max_leak_per_stack,
            growth: self.max_growth,
            no_growing: self.fail_on.contains(&FailOn::Growing),
            peak: self.max_peak,
            live: self.max_live,
            allocations: self.max_allocs,
            kinds: self.kinds(),
            older: self.fail_on.contains(&FailOn::Older),
            unused_rules,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn limits(options: &[&str]) -> Limits {
        let line = ["heapattach", "check"].iter().chain(options).chain(&["--", "true"]);
        let Ok(Cli { command: Some(Command::Check(args)), .. }) = Cli::try_parse_from(line) else {
            panic!("{options:?} is understood")
        };
        args.limits.limits(false)
    }

    #[test]
    fn definite_is_another_word_for_direct() {
        assert_eq!(
            limits(&["--fail-on", "definite,possible"]).kinds,
            [Kind::Direct, Kind::Possible]
        );
        assert_eq!(limits(&[]).kinds, [Kind::Direct, Kind::Indirect]);
    }

    #[test]
    fn growth_is_so_much_a_minute_or_any() {
        assert_eq!(limits(&["--max-growth", "64KiB/min"]).growth, Some(65536));
        assert!(limits(&["--fail-on", "growing"]).no_growing);
        assert_eq!((limits(&[]).growth, limits(&[]).no_growing), (None, false));
        assert!(limits(&["--fail-on", "direct,older"]).older && !limits(&[]).older);
    }
}
