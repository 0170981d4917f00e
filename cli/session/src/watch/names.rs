//! Names of code at the end of a session. They are looked for in files, and a disk may give nothing any
//! more: the target is detached by then, and the user can ask for the result without names.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel},
    thread,
    time::Duration,
};

use heapattach_recording::names::Code;
use heapattach_symbols::Symbols;

/// Between two questions whether the user still waits.
const PAUSE: Duration = Duration::from_millis(100);

/// What is said of names that the user did not wait for.
pub const NOT_AWAITED: &str = "names of functions: the files that they are in gave nothing, and were not \
                               waited for any longer";

/// The code at these addresses, with names as far as they are known. `goes_on` is asked now and then; if
/// it denies, what is still looked for stays without a name, and so is `None`.
pub fn look_up(
    symbols: &mut Symbols,
    addresses: Vec<u64>,
    mut goes_on: impl FnMut() -> bool,
) -> Option<Code> {
    let mut own = std::mem::take(symbols);
    let look = move || (Code::of(addresses.into_iter(), &mut own), own);
    let (code, own) = Job::begin(look)?.wait(&mut goes_on)?;
    *symbols = own;
    Some(code)
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
    fn names_come_back_with_what_found_them() {
        let mut symbols = Symbols::new();
        let code = look_up(&mut symbols, vec![4096], || true).unwrap();
        assert!(code.find(4096).is_some());
    }
}
