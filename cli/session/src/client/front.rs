//! The command's side of a session: it talks with the user, passes signals on, and has the report at
//! the end. It never touches the target; killing it makes the tracing process finish.

use std::{
    io::{BufRead, BufReader, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    path::PathBuf,
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use crate::{
    client::{
        claim::Claim,
        message::{Message, Request},
        talk::Talk,
    },
    own_memory,
};
use heapattach_ledger::Mark;
use heapattach_report::{Report, Trigger};
use heapattach_text::quantity;

/// What the user's signals mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Ctrl-C detaches.
    Attach,
    /// They are the program's.
    Run,
}

/// A tracing process that has told everything has this long to go.
const GOING: Duration = Duration::from_secs(10);

/// How often a process that is waited with is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Signals that end a command, and those that only the program of `run` may want.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
const PASSED_ON: [Signal; 5] =
    [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGALRM, Signal::SIGWINCH, Signal::SIGCONT];

/// Follows a session to its end; `None` if the tracing process died. With a `claim` a session that is
/// interrupted before the first stop ends at once.
///
/// Returns when that process is gone: until then the target may have a tracer.
pub fn follow(
    line: UnixStream,
    tracer: Pid,
    mode: Mode,
    talk: &mut dyn Talk,
    claim: Option<Claim>,
) -> Option<Report> {
    let report = converse(line, mode, talk, claim);
    if report.as_ref().is_some_and(Report::is_untouched_by_wish) {
        // It may be looking at the target still, but is never to stop it. It is our child, and not
        // waited for yet.
        let _ = kill(tracer, Signal::SIGKILL);
    }
    let deadline = Instant::now() + GOING;
    // If the user stops the tracing process by a signal, the command must not hang with it.
    while waitpid(tracer, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive)
        && Instant::now() < deadline
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    report
}

/// Tells what a session says that has no command besides: it is in this very process, which it lasts as long as.
pub fn teller(talk: &'static mut (impl Talk + Send)) -> impl FnMut(&Message) + Send {
    let mut front = Front {
        mode: Mode::Attach,
        program: None,
        interrupted: 0,
        fetching: false,
        talk,
        file: None,
        claim: None,
    };
    move |message| drop(front.hear(message.clone()))
}

/// Has the signals that end a session wait for [`follow`]: from here on something is to be tidied up.
pub fn hold_signals(mode: Mode) {
    let _ = signals_of(mode).thread_block();
}

/// Waits so long, or until a signal that ends a session; answers early if `goes_on` says no.
pub fn wait(time: Duration, goes_on: impl Fn() -> bool) {
    let until = Instant::now() + time;
    let signals = listen(Mode::Attach);
    while goes_on() {
        let rest = until.saturating_duration_since(Instant::now()).min(LOOK);
        if rest.is_zero() {
            return;
        }
        let mut fds: Vec<_> =
            signals.iter().map(|own| PollFd::new(own.as_fd(), PollFlags::POLLIN)).collect();
        let rest = PollTimeout::try_from(rest.max(Duration::from_millis(1)));
        let _ = poll(&mut fds, rest.unwrap_or(PollTimeout::ZERO));
        let heard = signals.as_ref().map(SignalFd::read_signal);
        if matches!(heard, Some(Ok(Some(own))) if own.ssi_signo != Signal::SIGUSR1 as u32) {
            return;
        }
    }
}

fn converse(
    line: UnixStream,
    mode: Mode,
    talk: &mut dyn Talk,
    claim: Option<Claim>,
) -> Option<Report> {
    let signals = listen(mode);
    talk.begin();
    let mut front =
        Front { mode, program: None, interrupted: 0, fetching: false, talk, file: None, claim };
    let mut reader = BufReader::new(line.try_clone().ok()?);
    // What the command line took; from here on this process waits.
    own_memory::trim();
    loop {
        if reader.buffer().is_empty() {
            let mut fds = vec![PollFd::new(line.as_fd(), PollFlags::POLLIN)];
            if let Some(signals) = &signals {
                fds.push(PollFd::new(signals.as_fd(), PollFlags::POLLIN));
            }
            let _ = poll(&mut fds, PollTimeout::NONE);
            let spoke = fds[0].revents().is_some_and(|events| !events.is_empty());
            drop(fds);
            while let Some(Ok(Some(signal))) = signals.as_ref().map(SignalFd::read_signal) {
                if front.take(&line, signal.ssi_signo, signal.ssi_code) == Told::NeverBegun {
                    front.talk.end();
                    return Some(Report::interrupted());
                }
            }
            if !spoke {
                continue;
            }
        }
        let mut text = String::new();
        // A line that is cut short, or none, is the end of the tracing process.
        if reader.read_line(&mut text).unwrap_or(0) == 0 {
            front.talk.end();
            return None;
        }
        // From bytes, as all others read reports: there is one reader of these in the file then, not two.
        if let Ok(message) = serde_json::from_slice(text.as_bytes())
            && let Some(report) = front.hear(message)
        {
            front.talk.end();
            return Some(report);
        }
    }
}

struct Front<'a, T: Talk + ?Sized> {
    mode: Mode,
    program: Option<i32>,
    interrupted: u32,
    fetching: bool,
    talk: &'a mut T,
    /// Where the session is written to.
    file: Option<PathBuf>,
    /// Until the target is stopped for the first time.
    claim: Option<Claim>,
}

/// What a signal has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// The session is over before the target was ever stopped.
    NeverBegun,
    /// It was passed on to the process that it is for.
    PassedOn,
}

impl<T: Talk + ?Sized> Front<'_, T> {
    fn hear(&mut self, message: Message) -> Option<Report> {
        match message {
            Message::Started(pid) => self.program = Some(pid),
            Message::Attached { pid, command, functions, stopped_us, recording } => {
                self.file = recording;
                self.talk.attached();
                self.fetching = false;
                let stopped = quantity::time(Duration::from_secs_f64(stopped_us / 1e6));
                let ends = if self.mode == Mode::Attach { "; Ctrl-C detaches" } else { "" };
                self.talk.say(&format!(
                    "attached to {pid} ({command}), {functions} functions hooked, stopped for \
                     {stopped}{ends}"
                ));
            }
            Message::Reading { pid, command, what, recording } => {
                self.file = recording;
                self.talk.attached();
                self.fetching = false;
                let ends = if self.mode == Mode::Attach { "; Ctrl-C ends" } else { "" };
                self.talk.say(&format!("reading of {pid} ({command}) {what}{ends}"));
            }
            Message::Progress { calls, bytes } => self.talk.go_on(format!(
                "{} calls, {} allocated",
                quantity::count(calls),
                quantity::bytes(bytes)
            )),
            Message::Looking { done, all } => self.talk.go_on(format!(
                "looking for pointers: {} of {}",
                quantity::bytes(done),
                quantity::bytes(all)
            )),
            Message::Fetching(progress) => {
                self.fetching = true;
                self.talk.go_on(progress);
            }
            Message::Marked(mark) => self.marked(&mark),
            Message::Grows(growing) => {
                self.talk.say(&format!("process {}: {}", growing.pid, growing.trigger));
                self.talk.grows(growing);
            }
            Message::Reached { pid, trigger } => match trigger {
                Trigger::Rss { .. } => {
                    self.talk.say(&format!("process {pid}: {trigger}; detaching"));
                }
                // That was said.
                Trigger::Growth { .. } => self.talk.say("detaching"),
            },
            Message::Checked(round) => self.talk.say(&round.text()),
            Message::Detached => self.talk.say("detached; the program runs on"),
            Message::Remain(others) => {
                // The program is gone: signals can no longer be meant for it.
                (self.program, self.mode) = (None, Mode::Attach);
                let others = match others {
                    1 => "a process that it forked goes on".to_owned(),
                    many => format!("{many} processes that it forked go on"),
                };
                let text = format!("the program ended; {others}; Ctrl-C detaches");
                self.talk.say(&text);
            }
            Message::Finished(report) => return Some(*report),
        }
        None
    }

    /// A moment was marked: with `--follow` it is shown, else the user is told where it is.
    fn marked(&mut self, mark: &Mark) {
        if self.talk.show(self.file.as_deref(), mark) {
            return;
        }
        if let Some(file) = &self.file {
            let at = quantity::time(Duration::from_millis(mark.at_ms));
            let text = format!("marked {at} in {}: {}", file.display(), mark.why);
            self.talk.say(&text);
        }
    }

    fn take(&mut self, mut line: &UnixStream, number: u32, code: i32) -> Told {
        let Some(signal) = i32::try_from(number).ok().and_then(|n| Signal::try_from(n).ok()) else {
            return Told::PassedOn;
        };
        if ENDING.contains(&signal) && self.claim.take().is_some_and(|claim| claim.take()) {
            return Told::NeverBegun;
        }
        if self.fetching {
            self.talk.say("reporting without the debug information that is not here yet");
            let _ = line.write_all(&[Request::Detach as u8]);
        }
        match self.mode {
            Mode::Attach if self.fetching => {}
            Mode::Attach if signal == Signal::SIGUSR1 => {
                let _ = line.write_all(&[Request::Mark as u8]);
            }
            Mode::Attach => {
                self.interrupted += 1;
                if self.interrupted == 1 {
                    self.talk.say("detaching; the target stays as it was found");
                } else {
                    self.talk
                        .say("still detaching: it is done as soon as no thread is in our code");
                }
                let _ = line.write_all(&[Request::Detach as u8]);
            }
            // What the terminal sends it sends to the program, too.
            Mode::Run => {
                let from_terminal = code == libc::SI_KERNEL;
                if let Some(pid) = self.program.filter(|_| !from_terminal) {
                    let _ = kill(Pid::from_raw(pid), signal);
                }
            }
        }
        Told::PassedOn
    }
}

fn listen(mode: Mode) -> Option<SignalFd> {
    let mask = signals_of(mode);
    mask.thread_block().ok()?;
    heard_by(&mask)
}

fn signals_of(mode: Mode) -> SigSet {
    let mut mask: SigSet = ENDING.into_iter().collect();
    if mode == Mode::Attach {
        mask.add(Signal::SIGUSR1);
    } else {
        PASSED_ON.into_iter().for_each(|signal| mask.add(signal));
    }
    mask
}

fn heard_by(mask: &SigSet) -> Option<SignalFd> {
    SignalFd::with_flags(mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).ok()
}

/// From here on nothing is attached, and only the result is to be written: what takes it may never be
/// ready, and who waits for that must be able to end us. What came until now was meant for the
/// session.
pub fn let_signals_end_us() {
    let mask: SigSet = ENDING.into_iter().collect();
    let Some(earlier) = heard_by(&mask) else { return };
    while let Ok(Some(_)) = earlier.read_signal() {}
    let _ = mask.thread_unblock();
}
