//! A peer that attaches to a program, by a debugger, and stays.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use super::{dress::Folder, kit::Kit};
use crate::deadline::poll;

/// How long a debugger may take to bring in a library.
const PATIENCE: Duration = Duration::from_secs(20);

/// A peer that is attached; dropped, its processes end.
#[derive(Debug)]
pub(super) struct Peer {
    child: Child,
    _folder: Folder,
}

impl Peer {
    /// By a debugger; heaptrack's script stays and reads.
    pub(super) fn heaptrack(kit: &Kit, pid: i32) -> Result<Self, String> {
        kit.gdb.as_ref()?;
        let mut command = Command::new(kit.heaptrack.as_ref()?);
        let folder = Folder::new("heaptrack")?;
        command.arg("-o").arg(folder.path.join("out")).arg("-p").arg(pid.to_string());
        let log = folder.path.join("log");
        let peer = Self::start(command, folder, |log, _| log.contains("injection finished"))?;
        // It says so too where the debugger has failed, as on processors newer than the debugger.
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let is_there = maps.contains("libheaptrack");
        is_there.then_some(peer).ok_or_else(|| format!("it was not brought in: {}", read(&log)))
    }

    /// By a debugger; memray's command ends when it has.
    pub(super) fn memray(kit: &Kit, pid: i32) -> Result<Self, String> {
        kit.gdb.as_ref()?;
        let mut command = Command::new(kit.memray.as_ref()?);
        let folder = Folder::new("memray")?;
        command.args(["-m", "memray", "attach", "--method", "gdb", "--native", "-f", "-o"]);
        command.arg(folder.path.join("out")).arg(pid.to_string());
        Self::start(command, folder, |_, has_ended| has_ended)
    }

    fn start(
        mut command: Command,
        folder: Folder,
        is_attached: impl Fn(&str, bool) -> bool,
    ) -> Result<Self, String> {
        let log = folder.path.join("log");
        let talk = File::create(&log).map_err(|error| error.to_string())?;
        let copy = talk.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(copy).stderr(talk);
        let child = command.current_dir(&folder.path).process_group(0).spawn();
        let child = child.map_err(|error| format!("{command:?}: {error}"))?;
        let mut peer = Self { child, _folder: folder };
        let attached = poll(PATIENCE, || {
            let end = peer.child.try_wait().unwrap_or(None);
            let said = read(&log);
            if end.is_some_and(|status| !status.success()) {
                return Some(Err(said));
            }
            is_attached(&said, end.is_some()).then_some(Ok(()))
        });
        attached.unwrap_or_else(|| Err(format!("not attached in time: {}", read(&log))))?;
        Ok(peer)
    }
}

fn read(log: &Path) -> String {
    String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned()
}

impl Drop for Peer {
    fn drop(&mut self) {
        // All of the group: what a script waits for does not end with it. A process that has
        // ended is reaped here only, so the number is still theirs.
        let pid = self.child.id();
        let _ = killpg(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
        let _ = self.child.wait();
        // What heaptrack's script would have removed; its name has the number of the script.
        let _ = fs::remove_file(format!("/tmp/heaptrack_fifo{pid}"));
    }
}
