//! Which options a file may have: those that say how something is done, and for whom it is written.

use clap::{ArgMatches, Command};

/// The tables of the file: a command each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `heapattach -p PID`
    Attach,
    /// `heapattach run`
    Run,
    /// `heapattach check`
    Check,
}

/// Options of sessions. The files of these are the user's to name, each time.
const SESSION: &[&str] = &[
    "duration",
    "every",
    "all",
    "flow",
    "no-mmap",
    "on-full",
    "ring",
    "unwind",
    "verify",
    "scripts",
    "max-overhead",
    "max-memory",
    "max-stop",
    "follow-forks",
    "max-processes",
    "quiet",
    "hooks",
    "hook",
    "max-depth",
    "hide-frames",
    "no-record",
    "redact",
    "no-symbols",
    "max-size",
    "snapshot-every",
    "dump-on-growth",
    "dump-on-peak",
    "follow",
];

/// Options of checks.
const CHECK: &[&str] = &[
    "duration",
    "every",
    "warmup",
    "at",
    "follow-forks",
    "max-processes",
    "skip",
    "snapshot",
    "max-pause",
    "max-stop",
    "flow",
    "roots",
    "unaligned",
    "retained-by",
    "hooks",
    "hook",
    "max-depth",
    "hide-frames",
    "error-exitcode",
    "max-leak",
    "max-leak-per-stack",
    "max-growth",
    "max-peak",
    "max-live",
    "max-allocs",
    "fail-on",
    "baseline",
    "suppressions",
    "no-builtin-suppressions",
    "no-embedded-suppressions",
    "print-suppressions",
    "gen-suppressions",
    "fail-on-unused-suppressions",
    "json",
    "junit",
    "sarif",
    "github",
    "show",
    "quiet",
    "full-stacks",
];

/// Those whose values are files.
const FILES: &[&str] = &["baseline", "suppressions", "json", "junit", "sarif"];

/// Options that mean nothing without another one.
const NEEDS: &[(&str, &str)] = &[("skip", "follow-forks"), ("max-processes", "follow-forks")];

impl Section {
    /// The command that was typed, if a file may have options for it.
    pub fn of(matches: &ArgMatches) -> Option<Self> {
        match matches.subcommand_name() {
            None => Some(Self::Attach),
            Some("run") => Some(Self::Run),
            Some("check") => Some(Self::Check),
            Some(_) => None,
        }
    }

    /// As the file has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::Run => "run",
            Self::Check => "check",
        }
    }

    /// All of them.
    pub const ALL: [Self; 3] = [Self::Attach, Self::Run, Self::Check];

    /// What was given of its options.
    pub fn matches(matches: &ArgMatches) -> &ArgMatches {
        matches.subcommand().map_or(matches, |(_, given)| given)
    }

    /// Its definition.
    pub fn command(self, all: &Command) -> &Command {
        all.find_subcommand(self.name()).unwrap_or(all)
    }

    /// Words of the command line that come before its options.
    pub fn words_before(self) -> usize {
        if self == Self::Attach { 1 } else { 2 }
    }

    /// The options that a file may have for it.
    pub fn permitted(self) -> &'static [&'static str] {
        if self == Self::Check { CHECK } else { SESSION }
    }
}

/// Whether the value is a file.
pub fn is_file(option: &str) -> bool {
    FILES.contains(&option)
}

/// What it means nothing without.
pub fn needs(option: &str) -> Option<&'static str> {
    NEEDS.iter().find(|(one, _)| *one == option).map(|(_, needed)| *needed)
}

#[cfg(test)]
mod tests {
    use std::{any::TypeId, ffi::OsString, path::PathBuf};

    use clap::CommandFactory;

    use super::*;
    use crate::args::{Cli, json::JsonArg};

    #[test]
    fn every_option_is_one_of_its_command_and_every_file_is_known_as_one() {
        let mut all = Cli::command();
        all.build();
        for section in Section::ALL {
            let command = section.command(&all);
            for option in section.permitted() {
                let found = command.get_arguments().find(|arg| arg.get_long() == Some(option));
                let found = found.unwrap_or_else(|| panic!("{option} of {}", section.name()));
                let parsed = found.get_value_parser().type_id();
                let files = [TypeId::of::<PathBuf>(), TypeId::of::<JsonArg>()];
                assert_eq!(files.iter().any(|file| parsed == *file), is_file(option), "{option}");
                assert!(parsed != TypeId::of::<OsString>(), "{option} may be a command");
            }
        }
    }

    #[test]
    fn what_chooses_a_process_or_is_run_or_forces_something_is_not_for_files() {
        for option in ["pid", "name", "force", "output", "report", "update-baseline", "config"] {
            assert!(!Section::ALL.iter().any(|s| s.permitted().contains(&option)), "{option}");
        }
    }
}
