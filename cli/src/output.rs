//! Standard output is data, standard error is talk. A reader that goes away is not an error, a full disk
//! is one.

use std::io::{ErrorKind, Write};

use crate::exit_status::Exit;

/// Prints data; answers `exit`, unless it says that all went well and the data could not be written.
pub fn print(text: &str, exit: Exit) -> Exit {
    let mut output = std::io::stdout().lock();
    match writeln!(output, "{text}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain(&format!("the report cannot be written to standard output: {error}"));
            if exit == Exit::Done { Exit::Failed } else { exit }
        }
        _ => exit,
    }
}

/// Tells the user something.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "heapattach: {text}");
}
