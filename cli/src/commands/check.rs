//! `heapattach check`.

use heapattach_injector::{
    attach,
    moment::{sanitizer, unseen_writes},
};

use crate::{
    args::CheckArgs,
    check_result::Gate,
    exit_status::Exit,
    output::{complain, print},
    payload,
    terminal::Terminal,
};
use heapattach_session::{
    check::snapshot_choice::{self, Load, Means},
    check_tracer,
    client::{
        claim::Claim,
        front::{self, Mode},
    },
    fork::{self, Side},
};

/// What programs include to tell of themselves.
const HEADER: &str = include_str!("../../include/heapattach.h");

/// What is said to a check of nothing.
const NOTHING_TO_CHECK: &str = "\
a check needs a program or a process:
  heapattach check -- CMD ARGS              a program, from its start to its end
  heapattach check -p PID --duration 60s    a running process: what it allocates meanwhile
`heapattach check -h` has more";

/// Has a process, or a program from its start, checked for leaked blocks.
pub fn check(args: &CheckArgs) -> Exit {
    if args.print_header {
        return print(HEADER.trim_end(), Exit::Done);
    }
    if args.pid.is_none() && args.command.is_empty() {
        complain(NOTHING_TO_CHECK);
        return Exit::Usage;
    }
    if let Some(refusal) = args.refusal() {
        complain(&refusal);
        return Exit::Usage;
    }
    let gate = match Gate::open(args) {
        Ok(gate) => gate,
        Err(error) => {
            complain(&error);
            return Exit::Usage;
        }
    };
    if let Err(error) = gate.look_at_files() {
        complain(&error);
        return if args.pid.is_some() { Exit::Failed } else { Exit::RunFailed };
    }
    match args.pid {
        Some(pid) => attach(pid, args, &gate),
        None => run(args, &gate),
    }
}

fn attach(pid: i32, args: &CheckArgs, gate: &Gate<'_>) -> Exit {
    let target = match attach::open(pid, args.force) {
        Ok(target) => target,
        Err(refusal) => {
            let exit = if refusal.unsupported { Exit::Unsupported } else { Exit::Refused };
            return gate.refuse(pid, &format!("{refusal} (target: untouched)"), exit);
        }
    };
    if let Some(name) = sanitizer::of(&target) {
        let why = format!(
            "process {pid} was built with {name}, whose own check does the work when it ends; need \
             one built without; nothing is done (target: untouched)"
        );
        return gate.refuse(pid, &why, Exit::Unsupported);
    }
    let load = Load::of(&target.process);
    let means = Means { clone: true, not_early: unseen_writes(&target.process) };
    if let Err(refusal) =
        snapshot_choice::choose(args.snapshot.into(), &load, args.max_pause, &means)
    {
        return gate.refuse(pid, &format!("{refusal} (target: untouched)"), Exit::Refused);
    }
    let claim = Claim::new().ok();
    match fork::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            if let Some(claim) = claim {
                target.permit.ask_first(claim.question(line.try_clone().ok()));
            }
            let options = args.options();
            let image = payload::image_for(options.growth);
            check_tracer::attach(line, &target, &options, &gate.rules, image);
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => {
            drop(target);
            let mut terminal = Terminal::new(gate.verbosity(), None, args.duration);
            match front::follow(line, tracer, Mode::Attach, &mut terminal, claim) {
                Some(report) if report.is_untouched_by_wish() => {
                    let why = "interrupted before the target was stopped (target: untouched)";
                    gate.refuse(pid, why, Exit::Interrupted)
                }
                Some(report) => gate.conclude(report),
                None => {
                    let why = format!(
                        "the tracing process died; the target runs on, perhaps with hooks that \
                         pass everything through; clean up with `heapattach detach -p {pid}`"
                    );
                    gate.refuse(pid, &why, Exit::Left)
                }
            }
        }
        Err(error) => {
            let why = format!("the tracing process could not be started: {error}");
            gate.refuse(pid, &why, Exit::Failed)
        }
    }
}

fn run(args: &CheckArgs, gate: &Gate<'_>) -> Exit {
    match fork::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            let options = args.options();
            let image = payload::image_for(options.growth);
            check_tracer::run(line, &args.command, &options, &gate.rules, image);
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => {
            let mut terminal = Terminal::new(gate.verbosity(), None, args.duration);
            match front::follow(line, tracer, Mode::Run, &mut terminal, None) {
                Some(report) => gate.conclude(report),
                None => {
                    let why = "the tracing process died; the program, if it was started, runs on";
                    gate.refuse(0, why, Exit::RunFailed)
                }
            }
        }
        Err(error) => {
            let why = format!("the tracing process could not be started: {error}");
            gate.refuse(0, &why, Exit::RunFailed)
        }
    }
}
