//! `heapattach allocator`.

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::Args;

use super::{choice::choice, json::JsonArg};
use crate::choose_process::WhichArgs;
use heapattach_session::allocator::{background::Background, decay::Decay, trim::Remedy};
use heapattach_text::quantity::parse_duration;
use heapattach_view::{AllocatorView, Colour};

const ALLOCATOR: &str = "\
Examples:
  heapattach allocator -p 4711             settings, figures and advice: nothing is stopped
  heapattach allocator redis-server --every 1s --view rates      allocations, fills, lock waits a second
  heapattach allocator -p 4711 --apply trim    have it return free memory now (malloc_trim, and others')
  heapattach allocator -p 4711 --json | jq '.allocators[0].stats'";

/// `heapattach allocator`.
#[derive(Clone, Debug, Args)]
#[command(before_help = ALLOCATOR)]
pub struct AllocatorArgs {
    /// Of which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// What to show
    #[arg(long, default_value = "summary", value_parser = choice(AllocatorView::ALL, AllocatorView::name, AllocatorView::about))]
    pub view: AllocatorView,
    /// Look again and again, and tell what is counted a second
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub every: Option<Duration>,
    /// With --every: how many looks; until Ctrl-C, or the end of the process
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Do something about it, once, after the look: `purge`, `trim`, `arena-max=N`, `dirty_decay_ms=N`,
    /// `muzzy_decay_ms=N`, `background_thread=true`; with --profile: `prof_active=true`
    ///
    /// purge: have the kernel take the free pages of jemalloc 5.3, with all threads stopped: no code of the process
    /// runs. trim: have a thread of the process, at the entry of an allocation function, call what its allocator
    /// returns free memory by (malloc_trim, jemalloc's purge, ReleaseFreeMemory, mi_collect). arena-max=N: the same
    /// with glibc's mallopt(M_ARENA_MAX, N). dirty_decay_ms=N, muzzy_decay_ms=N: the same with jemalloc's mallctl, for the
    /// arenas that are there and those to come. background_thread=true or =false: the same with background_thread, which starts or ends threads of jemalloc's
    /// own. prof_active=true: the same with prof.active, for the time of --duration.
    #[arg(long, value_name = "WHAT", conflicts_with = "every")]
    pub apply: Option<RemedyArg>,
    /// Write what jemalloc's own profiler has sampled (opt.prof), from before heapattach came, as a recording
    #[arg(long, value_name = "FILE", conflicts_with = "every")]
    pub profile: Option<PathBuf>,
    /// With --profile FILE --apply prof_active=true: have that profiler sample for so long, or until Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "profile", allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// How long --apply may stop the process, as far as that is foreseen
    #[arg(
        hide_short_help = true,
        long,
        value_name = "TIME",
        default_value = "250ms",
        value_parser = parse_duration,
        allow_hyphen_values = true
    )]
    pub max_pause: Duration,
    /// Print JSON instead, a document a look; =FILE: write it to FILE
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = JsonArg::parser()
    )]
    pub json: Option<JsonArg>,
    /// Colours
    #[arg(
        hide_short_help = true,
        long,
        value_name = "WHEN",
        default_value = "auto",
        value_parser = choice(Colour::ALL, Colour::name, |_| "")
    )]
    pub color: Colour,
}

/// The value of `--apply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemedyArg {
    /// jemalloc 5.3: madvise on its free pages with all threads stopped; no code of the process runs
    Purge,
    /// A function of the allocator's own.
    Call(Remedy),
    /// How long jemalloc keeps free pages.
    Decay(Decay),
    /// Whether jemalloc has threads of its own.
    Background(Background),
    /// jemalloc's own profiler samples for the time of a session.
    Profiler,
}

impl FromStr for RemedyArg {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let decay = word.split_once('=').and_then(|(name, value)| Decay::parse(name, value));
        if let Some(decay) = decay {
            return decay.map(Self::Decay);
        }
        let (name, value) =
            word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if let Some(background) = Background::parse(name, value) {
            return background.map(Self::Background);
        }
        match word.split_once('=') {
            None if word == "purge" => Ok(Self::Purge),
            None if word == "trim" => Ok(Self::Call(Remedy::Trim)),
            Some(("prof_active", "true")) => Ok(Self::Profiler),
            Some(("prof_active", _)) => Err("need prof_active=true: it is false again at the end".to_owned()),
            Some(("arena-max", number)) => match number.parse() {
                Ok(arenas @ 1..=4096) => Ok(Self::Call(Remedy::ArenaMax(arenas))),
                _ => Err(format!("{number} is not a valid number of arenas; need 1 to 4096")),
            },
            _ => {
                Err("need purge, trim, arena-max=N, dirty_decay_ms=N, muzzy_decay_ms=N, background_thread=true or \
                     prof_active=true"
                    .to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_true_or_false_are_told_so() {
        for word in ["background_thread=on", "background_thread"] {
            let why = word.parse::<RemedyArg>().unwrap_err();
            assert!(why.contains("background_thread=true or background_thread=false"), "{why}");
        }
        assert_eq!("background_thread=false".parse(), Ok(RemedyArg::Background(Background(false))));
        assert_eq!("prof_active=true".parse(), Ok(RemedyArg::Profiler));
        assert!("prof_active=false".parse::<RemedyArg>().is_err());
    }
}
