//! Names of code at the end of a session. They are looked for in files, and a disk may give nothing any
//! more: the target is detached by then, and the user can ask for the result without names.

use std::{
    sync::mpsc::{RecvTimeoutError, channel},
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
    // A thread that waits for a disk cannot be ended: it keeps what it works on.
    let mut own = std::mem::take(symbols);
    let (answer, told) = channel();
    let look = move || {
        let code = Code::of(addresses.into_iter(), &mut own);
        // The thread that asked may be gone.
        let _ = answer.send((code, own));
    };
    thread::Builder::new().name("names".to_owned()).spawn(look).ok()?;
    loop {
        match told.recv_timeout(PAUSE) {
            Ok((code, own)) => {
                *symbols = own;
                return Some(code);
            }
            Err(RecvTimeoutError::Timeout) if goes_on() => {}
            Err(_) => return None,
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
