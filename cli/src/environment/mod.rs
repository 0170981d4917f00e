//! Variables of the environment by which other tools are told what to do: they are understood as options
//! of ours, where a command is one that they are meant for.
//!
//! ```text
//! run:   MALLOC_CONF, _RJEM_MALLOC_CONF (jemalloc), HEAPPROFILE and its kin (gperftools)
//! check: LSAN_OPTIONS (LeakSanitizer)
//!   -> options of ours -> those that the command line does not speak of go before it
//! ```
//!
//! What has no counterpart is named, so that it is not taken for heeded. The program has its environment
//! as it is.

mod heap_profile;
mod lsan;
mod malloc_conf;

use std::{env, ffi::OsString, path::PathBuf};

use clap::{ArgMatches, Command};

use crate::config_file::{Asked, Files, Section, merge};

/// What variables say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    /// The variable.
    variable: &'static str,
    /// As options of ours.
    options: Vec<Asked>,
    /// What has no counterpart, as it was written.
    untaken: Vec<String>,
}

impl Said {
    fn ask(&mut self, option: &str, value: impl Into<Option<String>>) {
        let values = value.into().into_iter().collect();
        self.options.push(Asked { option: option.to_owned(), values });
    }
}

/// The words of a command line with the options of the environment among them, and a line of each variable.
#[derive(Debug)]
pub struct Dialects {
    /// What is to be parsed.
    pub words: Vec<OsString>,
    /// The variables that were read, and the options that were taken from them.
    pub told: Vec<String>,
}

/// Adds what the environment says to a command line that was understood without it.
///
/// # Errors
/// With the variable, and what is wrong with it.
pub fn take(
    command: &Command,
    matches: &ArgMatches,
    words: Vec<OsString>,
) -> Result<Dialects, String> {
    let value = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let said = match Section::of(matches) {
        Some(Section::Run) => [malloc_conf::read(&value), heap_profile::read(&value)],
        Some(Section::Check) => [lsan::read(&value), None],
        Some(Section::Attach) | None => [None, None],
    };
    let (mut words, mut told) = (words, Vec::new());
    for Said { variable, options, untaken } in said.into_iter().flatten() {
        // What an earlier variable said is given by then.
        let matches = command.clone().try_get_matches_from(&words);
        let Some(matches) = matches.ok() else { break };
        let Some(section) = Section::of(&matches) else { break };
        let own = section.command(command);
        let merged = merge(options, own, Section::matches(&matches), Files::Anywhere)
            .map_err(|error| format!("{variable}: {error}"))?;
        told.extend(line(variable, &merged.told, &untaken));
        let at = section.words_before().min(words.len());
        let later = words.split_off(at);
        words.extend(merged.options);
        words.extend(later);
    }
    Ok(Dialects { words, told })
}

fn line(variable: &str, taken: &[String], untaken: &[String]) -> Option<String> {
    let not = match untaken {
        [] => String::new(),
        _ => format!("not taken: {}", untaken.join(" ")),
    };
    match (taken, untaken) {
        ([], []) => None,
        ([], _) => Some(format!("read {variable}: {not}")),
        (_, []) => Some(format!("read {variable}: {}", taken.join(" "))),
        _ => Some(format!("read {variable}: {}; {not}", taken.join(" "))),
    }
}

/// A recording's name begins with this; what a tool would write elsewhere is written there.
fn prefix(value: &str) -> String {
    PathBuf::from(value).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_and_what_not_is_one_line() {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let told = |a: &[&str], b: &[&str]| line("X", &words(a), &words(b));
        assert_eq!(told(&[], &[]), None);
        assert_eq!(told(&["--all"], &[]).as_deref(), Some("read X: --all"));
        assert_eq!(told(&["--all"], &["a:1"]).as_deref(), Some("read X: --all; not taken: a:1"));
        assert_eq!(told(&[], &["a:1"]).as_deref(), Some("read X: not taken: a:1"));
    }
}
