//! Signals to every thread of `fixtures/hazards/interrupted.c`, in stops above all.
//!
//! A thread is sent a signal only while it sits in its call and the one before has been dealt with,
//! so it is known what each signal must do: its handler runs, and the call returns or does not.
//!
//! Except for one moment that belongs to the kernel: a thread let go after a stop is led back to the
//! system call instruction, and a handler that runs just there returns into a call that then waits
//! for the next signal. It is so with every tracer and every SIGCONT, and rare: such a signal is
//! sent again, and more than a few of them are a failure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    deadline::{PATIENCE, poll},
    hang,
    page::{Page, Word},
    task::Task,
};

/// Where the fixture tells of its threads.
const TABLE: usize = 64;
const STRIDE: usize = 6;
/// How long to look out for a stop before shooting without one.
const LOOK_OUT: Duration = Duration::from_millis(30);
/// How long a thread takes at most to come back from a handler and into its next call.
const EARLY: Duration = Duration::from_secs(3);

/// What was sent, and dealt with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Signals.
    pub signals: u64,
    /// Those of them sent to a thread that a tracer had stopped.
    pub in_stops: u64,
    /// Those whose handler ran before the call was entered again.
    pub early: u64,
}

impl Sent {
    /// How many of the signals may find a thread just about to enter its call again. With a call
    /// restarted by hand, which swallows signals, it is each one of the stops'.
    fn may_be_early(&self) -> u64 {
        3 + self.signals / 2000
    }
}

/// A thread of ours that keeps sending.
#[derive(Debug)]
pub struct Barrage {
    sender: JoinHandle<Result<Sent, String>>,
    is_over: Arc<AtomicBool>,
}

/// A thread that sits in a call.
struct Sitter {
    task: Task,
    number: u64,
    signal: i32,
    /// Whether the signal makes its call return.
    returns: bool,
    row: usize,
    sent: u64,
}

impl Barrage {
    /// Starts sending to the threads `page` tells of, and counts those in stops in `hits`, too.
    pub fn start(process: i32, page: Arc<Page>, hits: Arc<AtomicU64>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let sender = thread::spawn(move || send(process, &page, &over, &hits));
        Self { sender, is_over }
    }

    /// Stops sending; every signal sent has been dealt with.
    ///
    /// # Panics
    /// If one was lost, or did not do to its call what it had to.
    pub fn end(self) -> Sent {
        self.is_over.store(true, SeqCst);
        match self.sender.join() {
            Ok(Ok(sent)) => sent,
            Ok(Err(trouble)) => panic!("{trouble}"),
            Err(_) => panic!("the sender of signals panicked"),
        }
    }
}

fn send(process: i32, page: &Page, is_over: &AtomicBool, hits: &AtomicU64) -> Result<Sent, String> {
    let count = usize::try_from(page.get(Word::Answer)).map_err(|e| e.to_string())?;
    let mut sitters = (0..count).map(|i| Sitter::read(process, page, i)).collect::<Vec<_>>();
    let mut sent = Sent::default();
    while !is_over.load(SeqCst) {
        for sitter in &sitters {
            sitter.wait(page, "sit in its call", || sitter.sits())?;
        }
        look_out(process, is_over);
        for sitter in &mut sitters {
            sitter.task.signal(sitter.signal).map_err(|e| format!("signal not sent: {e}"))?;
            sitter.sent += 1;
            sent.signals += 1;
            sent.in_stops += u64::from(sitter.task.state() == Some('t'));
        }
        hits.store(sent.in_stops, SeqCst);
        for sitter in &mut sitters {
            if poll(EARLY, || sitter.is_done(page).then_some(())).is_none()
                && sitter.was_early(page)
            {
                sitter.task.signal(sitter.signal).map_err(|e| format!("signal not sent: {e}"))?;
                sitter.sent += 1;
                sent.signals += 1;
                sent.early += 1;
            }
            sitter.wait(page, "deal with its signal", || sitter.is_done(page))?;
        }
        if sent.early > sent.may_be_early() {
            return Err(format!("calls go on waiting after a signal: {sent:?}"));
        }
    }
    Ok(sent)
}

/// Waits for a stop; they are short, so without sleeping.
fn look_out(process: i32, is_over: &AtomicBool) {
    let end = Instant::now() + LOOK_OUT;
    while Task::leader(process).state() != Some('t') && Instant::now() < end {
        if is_over.load(SeqCst) {
            return;
        }
        thread::yield_now();
    }
}

impl Sitter {
    fn read(process: i32, page: &Page, index: usize) -> Self {
        let row = TABLE + index * STRIDE;
        let number = |column: usize| page.raw(row + column);
        let small = |column| i32::try_from(number(column)).expect("an id or a signal");
        let task = Task { process, id: small(0) };
        Self { task, number: number(1), returns: number(2) != 0, signal: small(3), row, sent: 0 }
    }

    fn sits(&self) -> bool {
        // A sleep that a stop interrupted goes on under another number.
        let goes_on = nix::libc::SYS_restart_syscall.cast_unsigned();
        self.task.system_call().is_some_and(|number| number == self.number || number == goes_on)
    }

    fn is_done(&self, page: &Page) -> bool {
        let (handled, returned) = (page.raw(self.row + 4), page.raw(self.row + 5));
        handled == self.sent && (!self.returns || returned == self.sent)
    }

    /// Whether its handler has run, and it waits on in its call all the same.
    fn was_early(&self, page: &Page) -> bool {
        page.raw(self.row + 4) == self.sent && !self.is_done(page) && self.sits()
    }

    fn wait(&self, page: &Page, what: &str, holds: impl Fn() -> bool) -> Result<(), String> {
        if poll(PATIENCE, || holds().then_some(())).is_some() {
            return Ok(());
        }
        let (handled, returned) = (page.raw(self.row + 4), page.raw(self.row + 5));
        let Self { task, number, sent, returns, .. } = self;
        Err(format!(
            "thread {} (system call {number}, returns: {returns}) does not {what}: {sent} signals \
             sent, {handled} handled, {returned} when it last returned\n{}",
            task.id,
            hang::describe(task.process)
        ))
    }
}
