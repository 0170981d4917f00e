//! `heapattach check`.

use heapattach_injector::{own_checker, preflight};

use crate::{
    args::CheckArgs,
    exit::Exit,
    front::{self, Mode},
    gate::Gate,
    inspector,
    output::complain,
    pause::{self, Load},
    spawn::{self, Side},
};

/// Has a process, or a program from its start, checked for lost blocks.
pub fn check(args: &CheckArgs) -> Exit {
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
            complain(&format!("{refusal} (target: untouched)"));
            return if refusal.unsupported { Exit::Unsupported } else { Exit::Refused };
        }
    };
    if let Some(name) = own_checker::of(&target) {
        complain(&format!(
            "process {pid} was built with {name}, whose own check does the work when it ends; need \
             one built without; nothing is done (target: untouched)"
        ));
        return Exit::Unsupported;
    }
    let load = Load::of(&target.process);
    if let Err(refusal) = pause::choose(args.snapshot, &load, args.max_pause) {
        complain(&format!("{refusal} (target: untouched)"));
        return Exit::Refused;
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
                    complain(&format!(
                        "the tracing process died; the target runs on, perhaps with hooks that \
                         pass everything through; clean up with `heapattach detach -p {pid}`"
                    ));
                    Exit::Left
                }
            }
        }
        Err(error) => {
            complain(&format!("the tracing process could not be started: {error}"));
            Exit::Failed
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
                complain("the tracing process died; the program, if it was started, runs on");
                Exit::RunFailed
            }
        },
        Err(error) => {
            complain(&format!("the tracing process could not be started: {error}"));
            Exit::RunFailed
        }
    }
}
