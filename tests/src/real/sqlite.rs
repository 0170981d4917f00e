//! An interactive sqlite3 that is fed from here, and makes and drops the same table again and again.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use super::{StartError, installed};

const CURE: &str = "apt-get install sqlite3";
/// A running sqlite3; dropped, it is ended.
#[derive(Debug)]
pub struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Where it is.
///
/// # Errors
/// If it is not installed.
pub fn program() -> Result<PathBuf, StartError> {
    installed("sqlite3").ok_or(StartError::Missing(CURE))
}

impl Shell {
    /// Starts what runs [`program`].
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(mut command: Command) -> Result<Self, StartError> {
        command.arg(":memory:").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = (input.expect("piped"), BufReader::new(output.expect("piped")));
        Ok(Self { child, input, output })
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Makes and drops so many rows, with strings and an index: all of it by malloc and free.
    ///
    /// # Panics
    /// If it ends.
    pub fn work(&mut self, rows: u64) {
        let sql = format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, value INT); \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) \
             INSERT INTO t SELECT i, printf('row %d %x', i, i * 7919), i % 1000 FROM n; \
             CREATE INDEX v ON t(value); \
             SELECT sum(length(upper(name) || value)) FROM t; \
             SELECT count(*) FROM (SELECT value, group_concat(name) FROM t GROUP BY value); \
             DROP TABLE t; SELECT 'done';"
        );
        writeln!(self.input, "{sql}").expect("sqlite3 reads");
        let mut line = String::new();
        while line.trim_end() != "done" {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).expect("text"), 0, "sqlite3 ended");
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
