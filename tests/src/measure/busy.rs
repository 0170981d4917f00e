//! Processes that want a processor all the time, beside what is measured.

use std::process::{Child, Command, Stdio};

/// It looks now and then whether the test still is: none outlives it.
const SPIN: &str = "while kill -0 $PPID 2>/dev/null; do \
                    i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; done";

/// So many of them; dropped, they end.
#[derive(Debug)]
pub struct Busy(Vec<Child>);

impl Busy {
    /// Starts them.
    ///
    /// # Panics
    /// If there is no shell.
    #[must_use]
    pub fn processes(number: usize) -> Self {
        let start = |_| {
            let mut shell = Command::new("sh");
            shell.args(["-c", SPIN]).stdin(Stdio::null()).spawn().expect("there is a shell")
        };
        Self((0..number).map(start).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
