//! How a peer attaches: heaptrack, by a debugger.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use super::redis::{Probe, Turn};
use crate::{
    deadline::poll,
    real::{Server, installed},
};

const SESSION: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(30);

/// `heaptrack -p`; `None` where it or its debugger is not installed.
///
/// Only its attach: where `sh` is dash, Ctrl-C ends its script without undoing anything, and ending
/// what the script waits for takes the reader from a target that still writes.
pub(super) fn heaptrack(server: &Server, probe: &Probe) -> Option<Turn> {
    let program = installed("heaptrack")?;
    installed("gdb")?;
    let log = server.path().join("heaptrack.log");
    let talk = File::create(&log).ok()?;
    probe.longest_gap();
    let began = Instant::now();
    let mut command = Command::new(program);
    command.arg("-o").arg(server.path().join("heaptrack")).arg("-p").arg(server.pid().to_string());
    command.stdin(Stdio::null()).stdout(talk.try_clone().ok()?).stderr(talk);
    let mut child = command.current_dir(server.path()).process_group(0).spawn().ok()?;
    let group = Pid::from_raw(child.id().cast_signed());
    let says = |what: &str| fs::read_to_string(&log).is_ok_and(|log| log.contains(what));
    let attached = poll(PATIENCE, || says("injection finished").then(|| began.elapsed()));
    thread::sleep(SESSION);
    let attach_gap = probe.longest_gap();
    let died = !probe.answers();
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait();
    let attach = attached.unwrap_or(PATIENCE);
    Some(Turn { attach, attach_gap, detach: None, died })
}
