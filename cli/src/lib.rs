//! The command: what the user types, the two processes of a session, and what they do to a target.
//!
//! ```text
//! args -> commands -> fork +-> tracer -> watch: injector::Session ... hook_counts, result -> report
//!                          |      |  one JSON object a line (client::message)
//!                          +-> client: signals, progress      -> view, JSON
//!                              recording -> ledger -> view, export
//! ```
//!
//! | room | what it does |
//! |---|---|
//! | `args`, `commands` | what is typed, and what each command does |
//! | `client` | the half of a session that the user talks to; what both halves say to each other |
//! | `tracer`, `check_tracer` | the half that stops the target |
//! | `watch` | one session, from the attach to its result |
//! | `check` | checks: what is reachable at one moment, and what is told of it |
//! | `family` | several processes at once |
//!
//! What is known of a session, what it means and how it is told lies in crates below this one, each of
//! which knows less: `report`, `verdict`, `view`, `export`, and those that they are made of. Only here is
//! there a command line (clap), and only here are exit statuses given (`exit_status`).

mod args;
mod check;
mod check_result;
mod check_tracer;
mod choose_process;
mod client;
mod commands;
mod exit_status;
mod family;
mod fork;
mod open_recording;
mod output;
mod own_cost;
mod payload;
mod terminal;
mod tracer;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, error::ErrorKind};

use crate::exit_status::Exit;
use args::{Cli, Command};
use output::complain;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            let asked = !error.use_stderr();
            return if asked { Exit::Done } else { Exit::Usage }.into();
        }
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
        (Some(Command::Report(args)), _) => commands::report::report(args),
        (Some(Command::Diff(args)), _) => commands::diff::diff(args),
        (Some(Command::Completions(args)), _) => commands::completions::completions(args),
        (Some(Command::Man(args)), _) => commands::man::man(args),
        (Some(Command::Doctor(args)), _) => commands::doctor::doctor(args),
        (Some(Command::Status(args)), _) => commands::status::status(args),
        (Some(Command::Detach(args)), _) => commands::detach::detach(args),
        (None, Some(pid)) => commands::attach::attach(pid, &cli.attach),
        (None, None) => {
            let mut command = Cli::command();
            let what = "give a process with -p PID (--name, --cgroup, --container), or a command";
            let _ = command.error(ErrorKind::MissingRequiredArgument, what).print();
            Exit::Usage
        }
    };
    exit.into()
}
