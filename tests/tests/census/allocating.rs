//! A program that allocates, with the allocator that is wanted.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};

use heapattach_tests::{compile::Source, skip::skip};

const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";

/// A program that allocates, and then rests or goes on.
pub struct Allocating(Child, Lines<BufReader<ChildStdout>>);

impl Allocating {
    /// With these arguments and this environment; it has its blocks when this returns, if it rests.
    pub fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Option<Self> {
        Self::of("own_numbers.c", arguments, environment)
    }

    /// Another program that says `done`.
    pub fn of(source: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Option<Self> {
        Self::built(&Source::new(source), arguments, environment)
    }

    /// The same, built as it is to be.
    pub fn built(
        source: &Source,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Option<Self> {
        let program = source.build()?;
        let mut command = Command::new(program);
        command.args(arguments).envs(environment.iter().copied());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(output.by_ref().map_while(Result::ok).any(|line| line == "done"), "{command:?}");
        Some(Self(child, output))
    }

    pub fn jemalloc(arguments: &[&str], settings: &str) -> Option<Self> {
        if !Path::new(JEMALLOC).exists() {
            skip(&format!("no {JEMALLOC}"), "apt-get install libjemalloc2");
            return None;
        }
        Self::start(arguments, &[("LD_PRELOAD", JEMALLOC), ("MALLOC_CONF", settings)])
    }

    pub fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Allocating {
    /// Whether it lives: it aborts if a block of its is not as it was left.
    pub fn is_well(&mut self) -> bool {
        self.0.try_wait().expect("a child of ours").is_none()
    }

    /// How many blocks it has allocated and found right since its start, as it tells itself.
    pub fn turns(&mut self) -> u64 {
        self.0.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it listens");
        let line = self.1.next().expect("an answer").expect("an answer");
        line.parse().expect("a number")
    }

    /// Ends its input, and waits for its end.
    pub fn end(mut self) -> ExitStatus {
        drop(self.0.stdin.take());
        self.0.wait().expect("a child of ours")
    }
}

impl Drop for Allocating {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
