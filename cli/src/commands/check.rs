//! `heapattach check`.

use heapattach_injector::{own_checker, preflight};

use crate::{
    args::CheckArgs,
    exit::Exit,
    front::{self, Mode},
    gate::Gate,
    inspector,
    output::{complain, print},
    pause::{self, Load},
    spawn::{self, Side},
};

/// What programs include to tell of themselves.
const HEADER: &str = include_str!("../../include/heapattach.h");

/// Has a process, or a program from its start, checked for lost blocks.
pub fn check(args: &CheckArgs) -> Exit {
    if args.print_header {
        return print(HEADER.trim_end(), Exit::Done);
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
    match args.pid {
        Some(pid) => attach(pid, args, &gate),
        None => run(args, &gate),
    }
}

fn attach(pid: i32, args: &CheckArgs, gate: &Gate<'_>) -> Exit {
    let target = match preflight::open(pid, args.force) {
        Ok(target) => target,
        Err(refusal) => {
            let exit = if refusal.unsupported { Exit::Unsupported } else { Exit::Refused };
            return gate.refuse(pid, &format!("{refusal} (target: untouched)"), exit);
        }
    };
    if let Some(name) = own_checker::of(&target) {
        let why = format!(
            "process {pid} was built with {name}, whose own check does the work when it ends; need \
             one built without; nothing is done (target: untouched)"
        );
        return gate.refuse(pid, &why, Exit::Unsupported);
    }
    let load = Load::of(&target.process);
    if let Err(refusal) = pause::choose(args.snapshot, &load, args.max_pause, true) {
        return gate.refuse(pid, &format!("{refusal} (target: untouched)"), Exit::Refused);
    }
    match spawn::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            inspector::attach(line, &target, args, &gate.rules);
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => {
            drop(target);
            match front::follow(line, tracer, Mode::Attach, None) {
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
    match spawn::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            inspector::run(line, args, &gate.rules);
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => match front::follow(line, tracer, Mode::Run, None) {
            Some(report) => gate.conclude(report),
            None => {
                let why = "the tracing process died; the program, if it was started, runs on";
                gate.refuse(0, why, Exit::RunFailed)
            }
        },
        Err(error) => {
            let why = format!("the tracing process could not be started: {error}");
            gate.refuse(0, &why, Exit::RunFailed)
        }
    }
}
