//! A program that stops itself once it has done what it does.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use heapattach_process::proc::Process;

const DEADLINE: Duration = Duration::from_secs(60);

/// The program.
pub struct Stopped(Child);

impl Stopped {
    /// Starts it, and waits.
    pub fn start(file: &Path) -> Self {
        let mut command = Command::new(file);
        let this = Self(command.stdout(Stdio::null()).spawn().expect("just built"));
        this.wait();
        this
    }

    /// Its process.
    pub fn process(&self) -> Process {
        Process::open(self.0.id().cast_signed()).expect("it runs")
    }

    fn wait(&self) {
        let began = Instant::now();
        let status = format!("/proc/{}/status", self.0.id());
        while !fs::read_to_string(&status).expect("it runs").contains("State:\tT") {
            assert!(began.elapsed() < DEADLINE, "it does not stop itself");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
