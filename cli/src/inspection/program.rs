//! `heapattach check -- COMMAND`, in the tracing process: it is the program's parent, and passes its
//! status on.

use std::os::unix::net::UnixStream;

use heapattach_injector::{fault, keeper::Keeper, start, target::Target};

use crate::{
    args::{CheckArgs, Moment},
    compose::with_causes,
    exit::Exit,
    line::Line,
    message::Message,
    payload,
    report::Report,
    spawn::{self, exec_exit},
    suppression::Suppressions,
    tracer,
};

use super::{Inspection, end::End, options};

/// Starts the program and checks it.
pub fn run(line: UnixStream, args: &CheckArgs, rules: &Suppressions) {
    let mut line = Line::new(line);
    let mut report = Report::new(0, args.command.join(" ".as_ref()).to_string_lossy().into_owned());
    report.status = Exit::RunFailed.code();
    match spawn::fork_program(&args.command) {
        Ok(program) => {
            spawn::leave_session();
            report.pid = program.pid;
            line.send(&Message::Started(program.pid));
            match tracer::bring_up(&program) {
                Ok(target) => run_target(&mut line, &target, args, rules, &mut report),
                Err(error) => {
                    report.error = Some(with_causes(&error));
                    tracer::reap_soon(program.pid);
                    if let Some(errno) = program.exec_error() {
                        let name = args.command[0].to_string_lossy().into_owned();
                        let what = format!("`{name}` cannot be executed: {}", errno.desc());
                        report.error = Some(what);
                        report.status = exec_exit(errno).code();
                    }
                }
            }
        }
        Err(error) => report.error = Some(format!("the program could not be forked: {error}")),
    }
    fault::summary();
    line.send(&Message::Finished(Box::new(report)));
}

fn run_target(
    line: &mut Line,
    target: &Target,
    args: &CheckArgs,
    rules: &Suppressions,
    report: &mut Report,
) {
    let image = payload::image();
    let pid = target.process.pid();
    let held = match start::hold_at_start(target) {
        Ok(held) => held,
        Err(error) => {
            report.error = Some(with_causes(&error));
            tracer::end_program(pid);
            return;
        }
    };
    let watched = match args.at {
        Moment::Signal(signal) => Some(signal),
        Moment::Exit | Moment::ExitStart => None,
    };
    let mut keeper = match Keeper::begin(target, watched) {
        Ok(keeper) => keeper,
        Err(errno) => {
            report.error = Some(format!("the program cannot be kept traced: {}", errno.desc()));
            drop(held);
            tracer::end_program(pid);
            return;
        }
    };
    let marked = match args.at {
        Moment::ExitStart => keeper.mark_exit(),
        _ => Ok(()),
    };
    let mut inspection = Inspection::new(args, rules, target);
    match tracer::begin(target, image, options(args), Some(held)) {
        Ok(mut session) => {
            tracer::announce(line, &session, report, None);
            report.status = Exit::Done.code();
            let end = inspection.run(line, &mut session, Some(keeper), report);
            if let (Err(why), Some(check)) = (marked, &mut report.check) {
                check.blind.push(format!("not checked as exit began, but at its end: {why}"));
            }
            if let Some(exit) = tracer::wait_for_end(line, target) {
                report.exit = Some(exit);
                let own = exit.shell_code();
                if own != 0 {
                    report.status = own;
                }
            }
            report.why = match end {
                Some(End::Execed) => {
                    Some("it became another program before it could be".to_owned())
                }
                Some(End::Gone) => Some("it was gone before it could be".to_owned()),
                _ => None,
            };
            // What was not checked must not pass for clean.
            if report.check.is_none() && report.status == Exit::Done.code() {
                report.status = Exit::Incomplete.code();
            }
        }
        Err(failure) => {
            tracer::refuse(report, &failure);
            report.status = Exit::RunFailed.code();
            keeper.finish();
            tracer::end_program(pid);
        }
    }
}
