//! bpftrace that counts malloc and free of one program.
//!
//! Last of all and alone: where its version takes `-p` for a filter of what it tells only, its probes
//! make every process of the machine slower.

use std::{
    fs::File,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::deadline::poll;
use crate::peers::{
    attempt::attempt,
    book::Place,
    dress::{Dress, Folder},
    figure::Figure,
    part::Run,
    work::loop_of,
};

const PART: &str = "uprobes";
const TOOL: &str = "bpftrace: uprobes of malloc and free, counted";
/// A pair takes microseconds then.
const SHARE: u64 = 20;
const ROUNDS: u32 = 3;
/// Probes are put in, and taken out, one after the other.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn measure(run: &mut Run<'_>) {
    let work = loop_of(1, 10_000);
    let name = work.name();
    eprintln!("uprobes: {name}");
    let at = Place { part: PART, work: &name, tool: TOOL };
    let done = attempt(|| {
        let mut subject = work.start(&Dress::default())?;
        let operations = work.operations() / SHARE;
        for round in 0..ROUNDS.min(run.options.rounds) {
            let plain = subject.work(operations)?;
            let probes = Probes::start(run, subject.pid()?)?;
            let with = subject.work(operations)?;
            probes.end()?;
            run.book.note(at, Figure::TIMES, round, with.cpu_ns / plain.cpu_ns);
        }
        Ok(())
    });
    done.unwrap_or_else(|why| run.book.fail(at, &why));
}

struct Probes {
    child: Child,
    _folder: Folder,
}

impl Probes {
    fn start(run: &Run<'_>, pid: i32) -> Result<Self, String> {
        let program = run.kit.bpftrace.as_ref()?;
        let library = library_of(pid).ok_or("the program has no C library")?;
        let folder = Folder::new("probes")?;
        let log = folder.path.join("log");
        let script = format!(
            "BEGIN {{ printf(\"ready\\n\"); }} uprobe:{library}:malloc,uprobe:{library}:free \
             {{ @calls = count(); }}"
        );
        let talk = File::create(&log).map_err(|error| error.to_string())?;
        let copy = talk.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(["-p", &pid.to_string(), "-e", &script]).stdin(Stdio::null());
        let child = command.stdout(copy).stderr(talk).process_group(0).spawn();
        let mut probes = Self { child: child.map_err(|error| error.to_string())?, _folder: folder };
        let read = || std::fs::read_to_string(&log).unwrap_or_default();
        let ready = poll(PATIENCE, || {
            let has_ended = !matches!(probes.child.try_wait(), Ok(None));
            (has_ended || read().contains("ready")).then_some(!has_ended)
        });
        if ready == Some(true) { Ok(probes) } else { Err(format!("no probes: {}", read())) }
    }

    /// As by Ctrl-C: a SIGKILL may leave its probes in.
    fn end(mut self) -> Result<(), String> {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, Signal::SIGINT).map_err(|error| error.to_string())?;
        let end = poll(PATIENCE, || self.child.try_wait().unwrap_or(None));
        end.map(|_| ()).ok_or_else(|| "bpftrace does not end".to_owned())
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn library_of(pid: i32) -> Option<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let mut libraries = paths.filter(|path| path.contains("/libc.so") || path.contains("/libc-"));
    libraries.next().map(str::to_owned)
}
