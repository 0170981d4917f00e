//! Analysis and conversation: what the user types, the two processes of a session, and the report.
//!
//! ```text
//! args -> commands -> spawn +-> tracer -> observation: injector::Session ... compose -> report
//!                           |      |  one JSON object a line (message)
//!                           +-> front: signals, progress      -> text or JSON
//!                               recording -> ledger -> view, export, html
//! ```

mod announced;
mod args;
mod artifact;
mod census;
mod check;
mod check_report;
mod clock;
mod commands;
mod compose;
mod desk;
mod ending;
mod exit;
mod expense;
mod export;
mod family_report;
mod findings;
mod follower;
mod front;
mod gaps;
mod gate;
mod growth;
mod guard;
mod hidden;
mod household;
mod html;
mod hush;
mod inscription;
mod inspection;
mod inspector;
mod interpreter_report;
pub mod ledger;
mod line;
mod look;
mod member;
mod message;
mod naming;
mod observation;
mod output;
mod pause;
mod payload;
pub mod profile;
mod progress;
mod quantity;
mod quick;
mod reading;
mod recorder;
pub mod recording;
mod report;
mod retained;
mod root_arg;
mod roster;
mod round_report;
mod site_report;
mod spawn;
mod stack_list;
mod stack_report;
#[cfg(all(test, target_arch = "x86_64"))]
mod steps_for_tests;
mod suppression;
mod symbols;
mod terrain;
mod text;
mod timeline;
mod tracer;
mod trie;
mod view;
mod vigil;
mod watchman;
mod which;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, error::ErrorKind};

use args::{Cli, Command};
use exit::Exit;
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
