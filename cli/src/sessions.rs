//! Sessions of a command that looks at them: each in a process of its own (`fork_server`), that ends with this one
//! whatever ends it.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder},
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
    process::ExitStatus,
    thread::sleep,
    time::Duration,
};

use heapattach_files::folder;

use crate::{
    choose_process::all,
    exit_status::Exit,
    fork_server::{Begin, ForkServer, Member},
    output::complain,
};

/// Between two looks whether all have ended.
const PAUSE: Duration = Duration::from_millis(5);

/// How they are begun.
#[derive(Clone, Debug)]
pub struct Options {
    /// For which command.
    pub of: &'static str,
    /// Mean bytes between samples.
    pub every: u64,
    /// About how large a recording may become.
    pub max_size: u64,
    /// Where recordings are kept; without it they are removed in the end.
    pub output: Option<PathBuf>,
    /// Whether what they say goes to a file beside the recording, not to the terminal.
    pub has_log: bool,
    /// Whether command lines stay out of the recordings.
    pub redacts: bool,
}

/// Sessions that write down what happens.
#[derive(Debug)]
pub struct Sessions {
    all: Vec<Session>,
    /// From the first session on.
    server: Option<ForkServer>,
    folder: PathBuf,
    options: Options,
}

/// One of them.
#[derive(Debug)]
pub struct Session {
    /// The process.
    pub pid: i32,
    /// What it is called.
    pub name: String,
    /// Where the session is written to.
    pub path: PathBuf,
    member: Member,
    ended: Option<ExitStatus>,
}

impl Sessions {
    /// Begins them; what cannot be attached to is told by its own process.
    pub fn begin(pids: &[i32], options: Options) -> Result<Self, String> {
        let own = format!("heapattach-{}-{}", options.of, std::process::id());
        let folder = options.output.clone().unwrap_or_else(|| std::env::temp_dir().join(own));
        let made = match options.output {
            // A folder of the user's.
            Some(_) => folder::make(&folder, 0o777),
            // One that no other process can have made.
            None => DirBuilder::new().mode(0o700).create(&folder),
        };
        made.map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        let mut sessions = Self { all: Vec::new(), server: None, folder, options };
        pids.iter().try_for_each(|pid| sessions.add(*pid))?;
        Ok(sessions)
    }

    /// Begins one more.
    pub fn add(&mut self, pid: i32) -> Result<(), String> {
        let name = all().find(|one| one.pid == pid).map(|one| one.short_name).unwrap_or_default();
        let path = self.folder.join(format!("{pid}.heapattach"));
        let member = self.start(pid, &path);
        let member = member.map_err(|error| format!("no session can be started: {error}"))?;
        self.all.push(Session { pid, name, path, member, ended: None });
        Ok(())
    }

    /// Readable when one has ended, if there was one.
    pub fn news(&self) -> Option<BorrowedFd<'_>> {
        self.server.as_ref().map(AsFd::as_fd)
    }

    /// All of them, in the order in which they were begun.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &Session> {
        self.all.iter()
    }

    /// Where recordings are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that is removed in the end.
    pub fn private(&self) -> Option<&Path> {
        self.options.output.is_none().then_some(self.folder.as_path())
    }

    /// Where recordings stay, if they do.
    pub fn kept(&self) -> Option<&Path> {
        self.options.output.as_ref().map(|_| self.folder.as_path())
    }

    /// Whether there were some, and all have ended; each end is told once.
    pub fn are_over(&mut self) -> bool {
        for session in &mut self.all {
            if session.ended.is_none() && session.is_over() && !self.options.has_log {
                complain(&format!("the session of process {} has ended", session.pid));
            }
        }
        !self.all.is_empty() && self.all.iter().all(|session| session.ended.is_some())
    }

    /// Looks which have ended.
    pub fn look(&mut self) {
        self.all.iter_mut().for_each(|session| {
            session.is_over();
        });
    }

    /// Has one end that goes on.
    pub fn end_one(&self, pid: i32) {
        self.going(pid).for_each(Member::end);
    }

    /// Has one mark this moment.
    pub fn mark(&self, pid: i32) {
        self.going(pid).for_each(Member::mark);
    }

    fn going(&self, pid: i32) -> impl Iterator<Item = &Member> {
        let going = self.all.iter().filter(move |one| one.pid == pid && one.ended.is_none());
        going.map(|one| &one.member)
    }

    /// Ends them, and waits until every process is as it was. Answers what went wrong with one, if anything.
    pub fn end(self) -> Option<Exit> {
        self.end_with(|| ())
    }

    /// The same; `last` is called when all have ended, while recordings are still there.
    pub fn end_with(mut self, last: impl FnOnce()) -> Option<Exit> {
        self.all.iter().filter(|one| one.ended.is_none()).for_each(|one| one.member.end());
        while !self.all.is_empty() && !self.are_over() {
            sleep(PAUSE);
        }
        last();
        if self.options.output.is_none() {
            let _ = fs::remove_dir_all(&self.folder);
        }
        self.all.iter().filter_map(|session| exit(session.ended?)).next()
    }

    fn start(&mut self, pid: i32, path: &Path) -> io::Result<Member> {
        let Options { every, max_size, has_log, redacts, .. } = &self.options;
        let mut words: Vec<OsString> = vec!["-p".into(), pid.to_string().into(), "-o".into()];
        words.push(path.into());
        words.extend(["--every".into(), every.to_string().into()]);
        words.extend(["--max-size".into(), max_size.to_string().into()]);
        words.extend(redacts.then(|| "--redact".into()));
        words.extend((!has_log).then(|| "--quiet".into()));
        let log = has_log.then(|| log(path));
        let begin = Begin { words, output: None, log, recording: path.to_owned() };
        ForkServer::of(&mut self.server)?.begin(begin)
    }
}

impl Session {
    /// How it has ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.ended
    }

    /// Where it says what there is to say.
    pub fn log(&self) -> PathBuf {
        log(&self.path)
    }

    fn is_over(&mut self) -> bool {
        self.ended = self.ended.or_else(|| self.member.ended());
        self.ended.is_some()
    }
}

fn log(path: &Path) -> PathBuf {
    path.with_extension("log")
}

/// A session that was ended by us, or with its process, went well.
pub fn exit(status: ExitStatus) -> Option<Exit> {
    match status.code() {
        Some(0 | 5 | 130) => None,
        Some(3) => Some(Exit::Refused),
        Some(4) => Some(Exit::Unsupported),
        Some(7) | None => Some(Exit::Left),
        Some(_) => Some(Exit::Failed),
    }
}
