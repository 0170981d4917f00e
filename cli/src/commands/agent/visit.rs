//! A look at one process that is due: another heapattach makes it, as a user would, and writes down what it found.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use heapattach_agent::{Key, Look, Scheduled};
use heapattach_files::whole_file;
use nix::{
    fcntl::Flock,
    sys::{
        resource::{UsageWho, getrusage},
        signal::{Signal, kill},
        time::TimeVal,
    },
    unistd::Pid,
};
use serde_json::Value;

use super::{events::now, look_lock};

/// No honest result is longer.
const LONGEST: u64 = 64 << 20;
/// A look that takes longer is told to end: others wait for it.
const MOST: Duration = Duration::from_secs(600);
/// So long a census looks for waste.
const WASTE: &str = "2s";

/// A look that goes on.
#[derive(Debug)]
pub struct Visit {
    /// The process.
    pub key: Key,
    /// What it is called.
    pub name: String,
    /// By which rule.
    pub rule: String,
    /// At what.
    pub look: Look,
    /// Why it was told to end, if it was.
    pub told: Option<String>,
    /// Where a census keeps its moment, once it is whole.
    pub moment: Option<PathBuf>,
    /// And until then.
    unfinished: Option<PathBuf>,
    child: Child,
    began: Instant,
    result: PathBuf,
    _lock: Flock<File>,
}

/// What became of one.
#[derive(Debug)]
pub struct Visited {
    /// How it ended.
    pub status: ExitStatus,
    /// Processor time of all its processes.
    pub processor: Duration,
    /// For how many milliseconds the process was stopped.
    pub stopped_ms: f64,
    /// Why there is no result.
    pub error: Option<String>,
    /// What it found.
    pub result: Value,
}

impl Visit {
    /// Begins one; a census stops the process for so long at most, as far as that is foreseen.
    pub fn begin(
        one: &Scheduled<'_>,
        folder: &Path,
        spool: &Path,
        most_stopped: Duration,
    ) -> io::Result<Self> {
        let (key, look) = (one.process.key, one.look);
        let result = folder.join(format!("{}.{}.json", key.pid, look.name()));
        let _ = fs::remove_file(&result);
        let mut json = OsString::from("--json=");
        json.push(&result);
        let lock = look_lock::take(folder.parent().unwrap_or(folder))?;
        let mut command = Command::new(std::env::current_exe()?);
        let [moment, unfinished] = match look {
            Look::Allocator => {
                command.arg("allocator");
                [None, None]
            }
            Look::Census => {
                let name = format!("{}-{}-{}.heapattach-moment", one.rule.name, key.pid, now());
                let path = spool.join(name);
                let most = format!("{}ms", most_stopped.as_millis());
                command.args(["heap", "--redact", "--waste-limit", WASTE, "--max-pause", &most]);
                // Its form is told by its end.
                let mut unfinished = whole_file::spare(spool).into_os_string();
                unfinished.push(".heapattach-moment");
                command.arg("-o").arg(&unfinished);
                [Some(path), Some(unfinished.into())]
            }
        };
        command.args(["-p", &key.pid.to_string()]).arg(json);
        command.stdin(Stdio::from(lock.try_clone()?)).stdout(Stdio::null());
        command.stderr(File::create(result.with_extension("log"))?);
        let child = command.spawn()?;
        let (name, rule) = (one.process.name.clone(), one.rule.name.clone());
        Ok(Self {
            key,
            name,
            rule,
            look,
            told: None,
            moment,
            unfinished,
            child,
            began: Instant::now(),
            result,
            _lock: lock,
        })
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Has it end; what it did in the process it undoes first.
    pub fn end(&mut self, why: &str) {
        if self.told.is_none() {
            self.told = Some(why.to_owned());
            let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
        }
    }

    /// Has it end if it takes too long.
    pub fn end_if_late(&mut self) {
        if self.began.elapsed() > MOST {
            self.end("it took more than ten minutes");
        }
    }

    /// What became of it, once it has ended; its files are removed, but for the moment.
    pub fn ended(&mut self) -> Option<Visited> {
        // Of children that were waited for: between the two it is this one and those that it waited for.
        let before = of_children();
        let status = match self.child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status,
            Err(_) => ExitStatus::from_raw(Signal::SIGKILL as i32),
        };
        let processor = of_children().saturating_sub(before);
        let (result, log) = (self.read(), self.result.with_extension("log"));
        // A process whose allocator is not known has a result, too.
        let error = match &result {
            Some(result) => result["error"].as_str().map(str::to_owned),
            None => {
                let says = fs::read_to_string(&log).unwrap_or_default();
                Some(says.lines().last().unwrap_or("it said nothing").to_owned())
            }
        };
        let error = self.told.clone().or(error).or_else(|| self.keep_moment().err());
        let result = result.unwrap_or_default();
        let stopped_ms = result["moment"]["stopped_us"].as_f64().unwrap_or(0.0) / 1000.0;
        let _ = (fs::remove_file(&self.result), fs::remove_file(log));
        if let Some(unfinished) = self.unfinished.as_ref().filter(|_| error.is_some()) {
            let _ = fs::remove_file(unfinished);
        }
        Some(Visited { status, processor, stopped_ms, error, result })
    }

    /// What is whole gets its name.
    fn keep_moment(&self) -> Result<(), String> {
        let Some((from, to)) = self.unfinished.as_ref().zip(self.moment.as_ref()) else {
            return Ok(());
        };
        fs::rename(from, to).map_err(|error| format!("{} is not there: {error}", to.display()))
    }

    fn read(&self) -> Option<Value> {
        let mut text = Vec::new();
        File::open(&self.result).ok()?.take(LONGEST).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

fn of_children() -> Duration {
    let Ok(all) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Duration::ZERO };
    let time = |time: TimeVal| {
        let seconds = Duration::from_secs(time.tv_sec().unsigned_abs());
        seconds + Duration::from_micros(time.tv_usec().unsigned_abs())
    };
    time(all.user_time()) + time(all.system_time())
}
