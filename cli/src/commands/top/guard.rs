//! A process that outlives this one, to restore the terminal if this is killed while it is raw: no signal
//! handler runs on SIGKILL.
//!
//! ```text
//! top: starts the guard, writes a folder -- reads "ready" -- takes the terminal ... releases it -- writes DONE -- ends
//! guard: notes the terminal's settings -- writes "ready" -- waits for the end of its input
//!        DONE came last: ends.  Else: restores the settings, leaves the other screen, removes the folder
//! ```

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read, Write, stderr, stdin, stdout},
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use nix::{
    sys::termios::{LocalFlags, OutputFlags, SetArg, Termios, tcgetattr, tcsetattr},
    unistd::setsid,
};

use crate::exit_status::Exit;

/// The terminal is as it was: nothing is to be done.
const DONE: u8 = b'.';
/// Behind the name of the folder.
const END: u8 = 0;
/// Nothing longer is told.
const LONGEST: u64 = 1 << 16;
const READY: &[u8] = b"ready\n";
/// No mouse, no other screen, a cursor, no colours.
const RESTORE: &str = "\u{1b}[?1006l\u{1b}[?1015l\u{1b}[?1003l\u{1b}[?1002l\u{1b}[?1000l\u{1b}[?1049l\u{1b}[?25h\u{1b}[0m\r\n";
const KILLED: &str = "heapattach: top was killed; the terminal is restored, and its sessions detach by themselves\r\n";

/// The guard of this process.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    to: Option<ChildStdin>,
}

impl Guard {
    /// Starts it, and waits until it knows how the terminal is.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(folder: Option<&Path>) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["top", "--guard-terminal"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut told = Vec::new();
        let mut from = child.stderr.take();
        // It closes its end when all is said.
        from.as_mut().map_or(Ok(0), |from| from.take(4096).read_to_end(&mut told))?;
        let mut to = child.stdin.take();
        let folder = folder.map_or(&[][..], |folder| folder.as_os_str().as_bytes());
        to.as_mut().map_or(Ok(()), |to| to.write_all(&[folder, &[END]].concat()))?;
        if told.ends_with(READY) {
            return Ok(Self { child, to });
        }
        let _ = child.kill().and_then(|()| child.wait());
        Err(io::Error::other("the settings of the terminal cannot be noted"))
    }

    /// The terminal is as it was.
    pub fn dismiss(&mut self) {
        if let Some(mut to) = self.to.take() {
            let _ = to.write_all(&[DONE]);
        }
        let _ = self.child.wait();
    }
}

/// What the guard does.
pub fn run() -> Exit {
    // Neither Ctrl-C nor the end of the terminal's first process is for it.
    let _ = setsid();
    let Ok(before) = tcgetattr(stdout().as_fd()) else { return Exit::Failed };
    let is_told = stderr().write_all(READY).is_ok();
    // The process that started it waits for the end of that.
    let closed = fs::File::open("/dev/null")
        .and_then(|null| nix::unistd::dup2_stderr(null.as_fd()).map_err(io::Error::from));
    if !is_told || closed.is_err() {
        return Exit::Failed;
    }
    let mut told = Vec::new();
    let _ = stdin().take(LONGEST).read_to_end(&mut told);
    let (folder, rest) = told.split_at(told.iter().position(|byte| *byte == END).unwrap_or(0));
    if rest.last() != Some(&DONE) {
        restore(&before);
        if !folder.is_empty() {
            // Sessions write on into files without a name until they have ended.
            let _ = fs::remove_dir_all(OsStr::from_bytes(folder));
        }
    }
    Exit::Done
}

/// Only what is still raw is changed: a shell may have taken the terminal by now.
fn restore(before: &Termios) {
    let out = stdout();
    let is_raw = |now: &Termios| {
        !now.output_flags.contains(OutputFlags::OPOST)
            && !now.local_flags.contains(LocalFlags::ISIG)
    };
    if tcgetattr(out.as_fd()).is_ok_and(|now| is_raw(&now)) {
        let _ = tcsetattr(out.as_fd(), SetArg::TCSANOW, before);
    }
    let mut out = out.lock();
    let _ = out.write_all(RESTORE.as_bytes()).and_then(|()| out.write_all(KILLED.as_bytes()));
    let _ = out.flush();
}
