//! Standard output is data, standard error is talk. A reader that goes away is no error.

use std::io::Write;

/// Prints a line of data.
pub fn print(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Tells the user something.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "heapattach: {text}");
}
