//! Names of code at the end of a session. They are looked for in files, and a disk may give nothing any
//! more: the target is detached by then, and the user can ask for the result without names.

use std::{
    fmt::{self, Display, Formatter},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel},
    },
    thread,
    time::Duration,
};

use heapattach_recording::names::Code;
use heapattach_symbols::Symbols;
use heapattach_text::quantity;

/// Between two questions whether the user still waits.
const PAUSE: Duration = Duration::from_millis(100);

/// What is said of names that the user did not wait for.
pub const NOT_AWAITED: &str = "names of functions: the files that they are in gave nothing, and were not \
                               waited for any longer";

/// The code at these addresses, with names as far as they are known. `goes_on` is asked now and then, with how
/// far it got; if it denies, what is still looked for stays without a name, and so is `None`.
pub fn look_up(
    symbols: &mut Symbols,
    addresses: Vec<u64>,
    mut goes_on: impl FnMut(Far) -> bool,
) -> Option<Code> {
    let (mut own, all) = (std::mem::take(symbols), addresses.len());
    let done = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&done);
    let look = move || (Code::of_counting(addresses.into_iter(), &mut own, &count), own);
    let mut goes_on = || goes_on(Far { done: done.load(Relaxed), all });
    let (code, own) = Job::begin(look)?.wait(&mut goes_on)?;
    *symbols = own;
    Some(code)
}

/// How many addresses have been looked for, and of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    done: usize,
    all: usize,
}

impl Display for Far {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let [done, all] = [self.done, self.all].map(|number| quantity::count(number as u64));
        write!(out, "looking for names: {done} of {all} addresses")
    }
}

/// Work that reads files for names. A thread that waits for a disk cannot be ended: it keeps what it works
/// on, and nothing else waits for it.
#[derive(Debug)]
pub struct Job<T>(Receiver<T>);

impl<T: Send + 'static> Job<T> {
    /// Begins with it; `None` if there can be no thread.
    pub fn begin(work: impl FnOnce() -> T + Send + 'static) -> Option<Self> {
        let (answer, told) = channel();
        let work = move || {
            // The thread that asked may be gone.
            let _ = answer.send(work());
        };
        thread::Builder::new().name("names".to_owned()).spawn(work).ok()?;
        Some(Self(told))
    }

    /// What came of it, if it is done; `Err` if its thread failed.
    ///
    /// # Errors
    /// The thread failed.
    pub fn poll(&self) -> Result<Option<T>, RecvTimeoutError> {
        match self.0.try_recv() {
            Ok(done) => Ok(Some(done)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
        }
    }

    /// Waits for it, as long as `goes_on`, which is asked now and then, does not deny.
    pub fn wait(self, goes_on: &mut dyn FnMut() -> bool) -> Option<T> {
        loop {
            match self.0.recv_timeout(PAUSE) {
                Ok(done) => return Some(done),
                Err(RecvTimeoutError::Timeout) if goes_on() => {}
                Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_it_got_is_told_in_numbers() {
        let far = Far { done: 1234, all: 56_789 };
        assert_eq!(far.to_string(), "looking for names: 1 234 of 56 789 addresses");
    }

    #[test]
    fn names_come_back_with_what_found_them() {
        let mut symbols = Symbols::new();
        let code = look_up(&mut symbols, vec![4096], |_| true).unwrap();
        assert!(code.find(4096).is_some());
    }
}
