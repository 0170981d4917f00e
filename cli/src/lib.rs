//! The command: what the user types, what is shown to the user, and how it ends.
//!
//! ```text
//! args -> commands -> session: watch or check, in a process of its own
//!            |             \-> what happens -> terminal
//!            +---------- Report -> view, JSON, check_result
//!            +-------- recording -> ledger -> view, export
//! ```
//!
//! | room | what it does |
//! |---|---|
//! | `args`, `commands` | what is typed, and what each command does |
//! | `config_file` | options of heapattach.toml, which go before those that are typed |
//! | `environment` | variables of other tools, which are understood as options |
//! | `choose_process` | which process is meant |
//! | `terminal` | what is shown while a session lasts |
//! | `open_recording`, `check_result` | recordings and the results of checks on their way to the user |
//! | `guide` | chapters for the terminal, `man` and the web |
//! | `json_schema` | what the JSON of each command looks like |
//! | `moment` | moments on their way to the user, and files of them |
//! | `sessions`, `fork_server` | several sessions of `serve`, `top`, `view` and `agent`, each a process forked from one |
//! | `source_files` | lines of source for the page |
//! | `tables` | recordings as tables for columnar engines |
//! | `next_command` | what opens a file that was written |
//! | `payload` | what is put into targets, built with this command |
//! | `version` | which build this is, of which source |
//!
//! Everything that is done with a process, and what is known of it and told, lies in crates below this
//! one, each of which knows less. Only here is there a command line (clap), and only here are exit statuses
//! given (`exit_status`). From the bottom up:
//!
//! | crate | its job |
//! |---|---|
//! | [`text`](heapattach_text) | numbers, names, patterns and errors, as people read and type them |
//! | [`files`](heapattach_files) | files that others may have made or may read, opened with care |
//! | [`process`](heapattach_process) | a process or a core, read and never stopped; addresses and events |
//! | [`entry`](heapattach_entry) | what is hooked, and how a function's entry is patched, as arithmetic |
//! | [`injector`](heapattach_injector) | the engine: attach, watch, detach, moments of memory |
//! | [`abi`](heapattach_abi) | the contract between the engine and what runs in the target |
//! | [`payload`](../heapattach_payload/index.html) | what runs in the target |
//! | [`profile`](../heapattach_profile/index.html) | what events add up to, with intervals |
//! | [`ledger`](heapattach_ledger) | a finished profile with its names |
//! | [`symbols`](heapattach_symbols) | what an address of code means |
//! | [`recording`](heapattach_recording) | sessions on disk: written while they last, read as ledgers |
//! | [`reach`](heapattach_reach) | who holds whom, and what no pointer leads to |
//! | [`census`](../heapattach_census/index.html) | every block that an allocator knows |
//! | [`golang`](../heapattach_golang/index.html) | Go programs, as their runtime knows them |
//! | [`verdict`](heapattach_verdict) | what a ledger means: growth, advice, what all memory is |
//! | [`report`](heapattach_report) | the result of a session as data, and what a pipeline concludes |
//! | [`moment`](heapattach_moment) | a census on disk, and what changed between several |
//! | [`session`](heapattach_session) | a session with a live process, from the attach to its result |
//! | [`view`](heapattach_view) | all of it as text for people and as JSON for scripts |
//! | [`export`](heapattach_export) | a ledger as files of other tools, and as a page |
//! | [`top`](heapattach_top) | what is shown live, and what keys do |
//! | [`serve`](heapattach_serve) | profiles and figures over HTTP |
//! | [`push`](heapattach_push) | profiles sent to who collects them |
//! | [`agent`](heapattach_agent) | which processes of a machine are watched, when, at what cost |
//!
//! Each begins with lines that run, and says what it never knows. Which uses which is drawn in the guide
//! (`heapattach help map`), with one command followed through all of them.

mod args;
mod check_result;
mod choose_process;
mod commands;
mod config_file;
mod environment;
mod exit_status;
mod fork_server;
mod guide;
mod json_schema;
mod moment;
mod next_command;
mod open_recording;
mod output;
mod payload;
mod sessions;
mod source_files;
mod tables;
mod terminal;
mod version;

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory, Parser, error::ErrorKind};

use crate::exit_status::Exit;
use args::{Cli, Command};
use config_file::Configured;
use environment::Dialects;
use fork_server::After;
use output::complain;
use terminal::Verbosity;

/// What was typed, with the options of a file before it.
fn parse(words: Vec<OsString>) -> Result<Cli, Exit> {
    let told = |error: &clap::Error| {
        let _ = error.print();
        if error.use_stderr() { Exit::Usage } else { Exit::Done }
    };
    // What is missing may be in the file: what is wrong is told at the end.
    let mut command = Cli::command().ignore_errors(true);
    command.build();
    let matches = command.clone().try_get_matches_from(&words).map_err(|error| told(&error))?;
    let wrong = |error: String| {
        complain(&error);
        Exit::Usage
    };
    let Dialects { words, told: dialects } =
        environment::take(&command, &matches, words).map_err(wrong)?;
    let matches = command.clone().try_get_matches_from(&words).map_err(|error| told(&error))?;
    let configured = config_file::configure(&command, &matches, words).map_err(wrong)?;
    let Configured { words, told: file } = configured;
    let cli = Cli::try_parse_from(words).map_err(|error| {
        dialects.iter().chain(&file).for_each(|line| complain(line));
        told(&error)
    })?;
    if cli.verbosity() == Verbosity::Usual {
        dialects.iter().chain(&file).for_each(|line| complain(line));
    }
    Ok(cli)
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    // Not for people: no file and no variable has options for it.
    if words.get(1).is_some_and(|word| word == fork_server::WORD) {
        let exit = match fork_server::run() {
            After::Over(exit) => exit,
            After::Session(orders) => commands::forked::run(*orders),
        };
        return exit.into();
    }
    let cli = match parse(words) {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let pid = match &cli.command {
        Some(_) => None,
        None => match cli.attach.which.pid() {
            Ok(pid) => pid,
            Err(unclear) => {
                complain(&unclear.message);
                return unclear.exit.into();
            }
        },
    };
    let exit = match (&cli.command, pid) {
        (Some(Command::Run(args)), _) => commands::run::run(args),
        (Some(Command::Check(args)), _) => commands::check::check(args),
        (Some(Command::Heap(args)), _) => commands::heap::heap(args),
        (Some(Command::Allocator(args)), _) => commands::allocator::allocator(args),
        (Some(Command::Report(args)), _) => commands::report::report(args),
        (Some(Command::Top(args)), _) => commands::top::top(args),
        (Some(Command::View(args)), _) => commands::view::view(args),
        (Some(Command::Serve(args)), _) => commands::serve::serve(args),
        (Some(Command::Agent(args)), _) => commands::agent::agent(args),
        (Some(Command::Diff(args)), _) => commands::diff::diff(args),
        (Some(Command::Completions(args)), _) => commands::completions::completions(args),
        (Some(Command::Help(args)), _) => commands::help::help(args),
        (Some(Command::Schema(args)), _) => commands::schema::schema(args),
        (Some(Command::Man(args)), _) => commands::man::man(args),
        (Some(Command::Doctor(args)), _) => commands::doctor::doctor(args),
        (Some(Command::Status(args)), _) => commands::status::status(args),
        (Some(Command::Detach(args)), _) => commands::detach::detach(args),
        (None, Some(pid)) => commands::attach::attach(pid, &cli.attach),
        (None, None) => {
            let mut command = Cli::command();
            let what = "give a process (heapattach PID, heapattach NAME, --cgroup, --container), or a command; \
                        `heapattach -h` lists them";
            let _ = command.error(ErrorKind::MissingRequiredArgument, what).print();
            Exit::Usage
        }
    };
    exit.into()
}
