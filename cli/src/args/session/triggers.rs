//! What a session waits for, besides its end.

use std::time::Duration;

use clap::{ArgGroup, Args};

use super::super::EXPERT;
use crate::terminal::OnGrowth;
use heapattach_session::watch::options::{GrowthOptions, TriggerOptions};
use heapattach_text::{
    command_line,
    quantity::{parse_duration, parse_rate, parse_size},
};

/// Growth that is told of unless another rate is chosen, in bytes a minute.
const RATE: u64 = 1 << 20;

/// What a session waits for.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("growth").args(["until_growth", "on_growth"]).multiple(true)))]
pub struct TriggerArgs {
    /// Detach and report when SIZE of the process is resident
    #[arg(hide_short_help = true, long, value_name = "SIZE", value_parser = parse_limit, allow_hyphen_values = true)]
    pub until_rss: Option<u64>,
    /// Detach when memory grows so fast: 1MiB/min (or --until-rss SIZE)
    ///
    /// It must be certain. Implies --flow. What counts is memory in use, blocks older than the attach included, what the
    /// program mapped itself, or resident memory, over the time of --growth-window.
    #[arg(hide_short_help = true, long, value_name = "RATE", value_parser = parse_growth_rate, allow_hyphen_values = true)]
    pub until_growth: Option<u64>,
    /// Run CMD once, when memory certainly grows
    ///
    /// With --until-growth after the report; else at once, and the session goes on. CMD is cut into words
    /// and is not read by a shell, unless it is `sh -c '...'`. It has HEAPATTACH_PID,
    /// HEAPATTACH_RECORDING, HEAPATTACH_GROWTH and HEAPATTACH_VERDICT in its environment, and
    /// the rights of heapattach. After 10 minutes it is killed.
    #[arg(hide_short_help = true, long, value_name = "CMD", value_parser = parse_command)]
    pub on_growth: Option<CommandWords>,
    /// The least growth that --on-growth is for [default: that of --until-growth, or 1MiB/min]
    #[arg(
        help_heading = EXPERT,
        hide_short_help = true,
        long,
        value_name = "RATE",
        requires = "on_growth",
        conflicts_with = "until_growth",
        value_parser = parse_growth_rate,
        allow_hyphen_values = true
    )]
    pub growth_rate: Option<u64>,
    /// Over how long growth must be seen at least; beside much that comes and goes it takes up to 16
    /// times as long. Work that takes longer looks like growth
    #[arg(
        help_heading = EXPERT,
        hide_short_help = true,
        long,
        value_name = "TIME",
        default_value = "60s",
        requires = "growth",
        value_parser = parse_window,
        allow_hyphen_values = true
    )]
    pub growth_window: Duration,
}

/// The words of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandWords(pub Vec<String>);

impl TriggerArgs {
    /// What is run when memory grows.
    pub fn on_growth(&self) -> Option<OnGrowth> {
        let CommandWords(words) = self.on_growth.clone()?;
        Some(OnGrowth::new(words, self.until_growth.is_some()))
    }

    /// What the session is told.
    pub fn options(&self) -> TriggerOptions {
        let is_wanted = self.until_growth.is_some() || self.on_growth.is_some();
        let growth = is_wanted.then(|| GrowthOptions {
            rate: self.until_growth.or(self.growth_rate).unwrap_or(RATE),
            window: self.growth_window,
            ends: self.until_growth.is_some(),
        });
        TriggerOptions { until_rss: self.until_rss, growth }
    }
}

fn parse_limit(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    (size > 0)
        .then_some(size)
        .ok_or_else(|| format!("`{text}` is not a limit; need 1 byte or more"))
}

fn parse_growth_rate(text: &str) -> Result<u64, String> {
    let rate = parse_rate(text)?;
    (rate > 0).then_some(rate).ok_or_else(|| format!("`{text}` is not growth; need 1B/min or more"))
}

/// In less than the shortest every process that begins to work grows.
const WINDOWS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(7 * 86400)];

fn parse_window(text: &str) -> Result<Duration, String> {
    let window = parse_duration(text)?;
    let is_sound = (WINDOWS[0]..=WINDOWS[1]).contains(&window);
    is_sound.then_some(window).ok_or_else(|| format!("`{text}` is not 5s to 7d"))
}

fn parse_command(text: &str) -> Result<CommandWords, String> {
    command_line::words(text).map(CommandWords).map_err(|why| format!("`{text}`: {why}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    fn options(line: &[&str]) -> Option<(TriggerOptions, bool)> {
        let line = ["heapattach", "-p", "1"].iter().chain(line);
        let args = Cli::try_parse_from(line).ok()?.attach;
        let watch = args.watch_options();
        Some((watch.triggers, watch.flow))
    }

    #[test]
    fn growth_is_looked_for_at_the_rate_that_was_chosen() {
        let told = |line: &[&str]| {
            let (triggers, flow) = options(line).unwrap();
            assert_eq!(flow, triggers.growth.is_some(), "sizes are counted for it");
            triggers.growth.map(|growth| (growth.rate, growth.window.as_secs(), growth.ends))
        };
        assert_eq!(told(&["--until-growth", "2MiB/min"]), Some((2 << 20, 60, true)));
        assert_eq!(told(&["--on-growth", "true"]), Some((1 << 20, 60, false)));
        let both = ["--on-growth", "true", "--until-growth", "6KiB/h", "--growth-window", "1h"];
        assert_eq!(told(&both), Some((102, 3600, true)));
        let slow = ["--on-growth", "true", "--growth-rate", "1KiB/s"];
        assert_eq!(told(&slow), Some((61_440, 60, false)));
        assert_eq!(told(&["--until-rss", "2GiB"]), None);
        assert_eq!(options(&["--until-rss", "2GiB"]).unwrap().0.until_rss, Some(2 << 30));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            &["--until-rss", "0"][..],
            &["--until-growth", "1MiB"],
            &["--until-growth", "0/min"],
            &["--until-growth", "-1MiB/min"],
            &["--growth-window", "1m"],
            &["--growth-rate", "1MiB/min"],
            &["--until-growth", "1MiB/min", "--growth-window", "1s"],
            &["--on-growth", "'"],
            &["--on-growth", ""],
        ] {
            assert!(options(line).is_none(), "{line:?}");
        }
    }
}
