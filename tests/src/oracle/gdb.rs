//! gdb as another witness, which unwinds by code of its own.
//!
//! heapattach traces the process only during its short stops, so gdb can trace it in between. It stops
//! it wherever the oracle's library notes a stack, and walks that from frame to frame.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{Oracle, Table, parse, recorded::OUTERMOST};
use crate::deadline::{PATIENCE, poll};

/// gdb, attached to a process.
#[derive(Debug)]
pub struct Gdb {
    child: Child,
    pid: i32,
    stacks: PathBuf,
    talk: PathBuf,
}

impl Gdb {
    /// Whether there is one, with the language its script is in.
    #[must_use]
    pub fn is_there() -> bool {
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-ex", "python print(1)"]).stdin(Stdio::null());
        gdb.output().is_ok_and(|output| output.stdout == b"1\n")
    }

    /// Attaches it to a process at rest that the oracle watches.
    ///
    /// # Panics
    /// If that does not succeed.
    #[must_use]
    pub fn attach(oracle: &Oracle, pid: i32) -> Self {
        let stacks = oracle.stacks_file(pid).with_extension(format!("{pid}.gdb"));
        let talk = stacks.with_extension("talk");
        let _ = fs::remove_file(&stacks);
        let sink = fs::File::create(&talk).expect("a folder of ours");
        let errors = sink.try_clone().expect("a second descriptor");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/oracle/gdb.py");
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-p", &pid.to_string(), "-x"]).arg(script);
        // It would ask the network for what it does not need.
        gdb.env("HEAPATTACH_GDB", &stacks).env_remove("DEBUGINFOD_URLS");
        gdb.stdin(Stdio::null()).stdout(sink).stderr(errors);
        let child = gdb.spawn().expect("gdb, which ran a moment ago");
        let mut this = Self { child, pid, stacks, talk };
        this.wait_for("to attach", |this| this.stacks.exists().then_some(()));
        this
    }

    /// What it saw in a process that is at rest again, and lets it go.
    ///
    /// # Panics
    /// If it does not.
    #[must_use]
    pub fn end(mut self, own: &Table) -> Table {
        kill(Pid::from_raw(self.pid), Signal::SIGINT).expect("a living process");
        let ended = |this: &mut Self| this.child.try_wait().expect("a child of ours");
        let status = self.wait_for("to end", ended);
        if !status.success() {
            self.fail(&format!("{status}"));
        }
        let text = fs::read_to_string(&self.stacks).expect("what it has written");
        let stacks = parse(&text).unwrap_or_else(|why| self.fail(&why));
        let mut table = Table { own: own.own.clone(), ..Table::default() };
        for stack in stacks {
            let callers = stack.frames.iter().skip_while(|frame| own.own.contains(frame));
            let callers: Vec<u64> = callers.copied().collect();
            *table.counts.entry(callers).or_default() += stack.allocations;
            table.unnoted += u64::from(stack.end != OUTERMOST);
        }
        table
    }

    fn wait_for<T>(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> Option<T>) -> T {
        match poll(PATIENCE, || condition(self)) {
            Some(found) => found,
            None => self.fail(&format!("waited in vain for gdb {what}")),
        }
    }

    fn fail(&self, what: &str) -> ! {
        panic!("gdb: {what}:\n{}", fs::read_to_string(&self.talk).unwrap_or_default());
    }
}

impl Drop for Gdb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
