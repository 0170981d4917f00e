//! The sessions of a server: a command a process, that ends with us whatever ends us.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread::sleep,
    time::Duration,
};

use heapattach_serve::Target;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{args::ServeArgs, choose_process::all, exit_status::Exit, output::complain};

/// Between two looks whether all have ended.
const PAUSE: Duration = Duration::from_millis(5);

/// Commands that write down what happens.
#[derive(Debug)]
pub struct Sessions {
    all: Vec<Session>,
    folder: PathBuf,
    is_kept: bool,
}

#[derive(Debug)]
struct Session {
    target: Arc<Target>,
    child: Child,
    ended: Option<ExitStatus>,
}

impl Sessions {
    /// Begins them; what cannot be attached to is told by its own command.
    pub fn begin(pids: &[i32], args: &ServeArgs) -> Result<Self, String> {
        let folder = match &args.output {
            Some(folder) => folder.clone(),
            None => std::env::temp_dir().join(format!("heapattach-serve-{}", std::process::id())),
        };
        let is_kept = args.output.is_some();
        let made = match is_kept {
            // A folder of the user's.
            true => fs::create_dir_all(&folder),
            // One that nobody else can have made.
            false => DirBuilder::new().mode(0o700).create(&folder),
        };
        made.map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        let mut sessions = Self { all: Vec::new(), folder, is_kept };
        let names: Vec<_> = all().filter(|one| pids.contains(&one.pid)).collect();
        for &pid in pids {
            let known = names.iter().find(|one| one.pid == pid);
            let name = known.map(|one| one.short_name.clone()).unwrap_or_default();
            let path = sessions.folder.join(format!("{pid}.heapattach"));
            let child = start(pid, &path, args);
            let child = child.map_err(|error| format!("no session can be started: {error}"))?;
            let target = Arc::new(Target::new(pid, name, path));
            sessions.all.push(Session { target, child, ended: None });
        }
        Ok(sessions)
    }

    /// What they look at.
    pub fn targets(&self) -> Vec<Arc<Target>> {
        self.all.iter().map(|session| session.target.clone()).collect()
    }

    /// Where recordings stay, if they do.
    pub fn kept(&self) -> Option<&Path> {
        self.is_kept.then_some(self.folder.as_path())
    }

    /// Whether there were some, and all have ended.
    pub fn are_over(&mut self) -> bool {
        for session in &mut self.all {
            if session.ended.is_none()
                && let Ok(Some(status)) = session.child.try_wait()
            {
                session.ended = Some(status);
                complain(&format!("the session of process {} has ended", session.target.pid));
            }
        }
        !self.all.is_empty() && self.all.iter().all(|session| session.ended.is_some())
    }

    /// Ends them, and waits until every process is as it was. Answers what went wrong with one, if anything.
    pub fn end(mut self) -> Option<Exit> {
        for session in self.all.iter().filter(|session| session.ended.is_none()) {
            let child = Pid::from_raw(session.child.id().cast_signed());
            let _ = kill(child, Signal::SIGINT);
        }
        while !self.all.is_empty() && !self.are_over() {
            sleep(PAUSE);
        }
        if !self.is_kept {
            let _ = fs::remove_dir_all(&self.folder);
        }
        self.all.iter().filter_map(|session| exit(session.ended?)).next()
    }
}

/// A session that was ended by us, or with its process, went well.
fn exit(status: ExitStatus) -> Option<Exit> {
    match status.code() {
        Some(0 | 5 | 130) => None,
        Some(3) => Some(Exit::Refused),
        Some(4) => Some(Exit::Unsupported),
        Some(7) | None => Some(Exit::Left),
        Some(_) => Some(Exit::Failed),
    }
}

fn start(pid: i32, path: &Path, args: &ServeArgs) -> std::io::Result<Child> {
    let own = std::env::current_exe()?;
    let mut command = Command::new(own);
    command.args(["-p", &pid.to_string(), "--quiet"]).arg("-o").arg(path);
    command.args(["--every", &args.every.to_string(), "--max-size", &args.max_size.to_string()]);
    command.args(["--ends-with", &std::process::id().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
}
