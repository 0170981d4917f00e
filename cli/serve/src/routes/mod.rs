//! What can be asked for.

mod changes;
mod discovery;
mod events;
mod gperftools;
mod metrics;
mod page;
mod pprof;
mod recording;

use std::{sync::Arc, time::Duration};

use crate::{
    answer::{Answer, Status, kind},
    figures::Figures,
    http::{Method, Request},
    listen::Stream,
    stop::Stop,
    target::Target,
    target_list::TargetList,
};

pub use changes::LAST;

/// Longer is not waited for.
const LONGEST: Duration = Duration::from_secs(3600);

/// What is not told of a slot.
const ONLY_A_SLOT: &str = "it is watched for a slot, so that what is in use is not known: \
                           /debug/pprof/heap has what survived of the slot, /metrics what was allocated";

/// What the routes answer out of.
#[derive(Debug)]
pub struct Sources {
    /// The processes.
    pub targets: TargetList,
    /// Whether their command lines are told.
    pub show_args: bool,
    /// What is told among the figures besides.
    pub figures: Option<Figures>,
}

/// Writes events until the reader goes, or all is over.
pub type WriteEvents = fn(&mut Stream, &Target, &Stop);

/// What a request is of: all, or one process, and what of it.
pub enum Asked<'r> {
    /// Everything there is.
    All(&'r str),
    /// Of one process.
    One(Arc<Target>, &'r str),
}

impl Sources {
    /// Which process a path is of.
    pub fn asked<'r>(&self, path: &'r str) -> Option<Asked<'r>> {
        let Some(rest) = path.strip_prefix("/p/") else {
            return Some(match self.targets.only() {
                Some(only) => Asked::One(only, path),
                None => Asked::All(path),
            });
        };
        let (pid, _) = rest.split_once('/')?;
        let pid_length = pid.len();
        let pid: i32 = pid.parse().ok()?;
        Some(Asked::One(self.targets.find(pid)?, &rest[pid_length..]))
    }

    /// What writes events to a reader that asked for such.
    pub fn stream(&self, request: &Request) -> Option<(Arc<Target>, WriteEvents)> {
        match (request.method, self.asked(&request.path)?) {
            (_, Asked::One(target, _)) if target.fixed_page().is_some() || target.is_slot() => None,
            (Method::Get, Asked::One(target, "/events")) => Some((target, events::stream)),
            (Method::Get, Asked::One(target, "/changes")) => Some((target, changes::stream)),
            _ => None,
        }
    }

    /// The answer to a request that was let in.
    pub fn answer(&self, request: &Request, stop: &Stop) -> Answer {
        let posts = request.path.ends_with("/pprof/symbol");
        match request.method {
            Method::Get | Method::Head => {}
            Method::Post if posts => {}
            Method::Post | Method::Other => {
                let allowed = if posts { "GET, HEAD, POST" } else { "GET, HEAD" };
                let no = Answer::no(Status::MethodNotAllowed, "this can only be read");
                return no.with("Allow", allowed);
            }
        }
        match self.asked(&request.path) {
            None => Answer::no(Status::NotFound, "no such process is looked at; see /sd"),
            Some(asked) => self.of(&asked, request, stop),
        }
    }

    fn of(&self, asked: &Asked<'_>, request: &Request, stop: &Stop) -> Answer {
        let (Asked::All(path) | Asked::One(_, path)) = asked;
        match *path {
            "/healthz" => return Answer::ok(kind::TEXT, "ok\n"),
            "/sd" => return discovery::answer(self, request),
            "/metrics" => {
                let one = match asked {
                    Asked::One(target, _) => Some(target.clone()),
                    Asked::All(_) => None,
                };
                let targets = one.map_or_else(|| self.targets.now(), |one| vec![one]);
                // They are of no process: only with those of all.
                let figures = self.figures.as_ref().filter(|_| request.path == "/metrics");
                return metrics::answer(&targets, figures, request);
            }
            _ => {}
        }
        let Asked::One(target, path) = asked else {
            return match *path {
                "/" => page::list(self),
                _ => Answer::no(Status::NotFound, "several processes are looked at: /p/PID/..."),
            };
        };
        if let Some(page) = target.fixed_page() {
            return match *path {
                "/" => page::fixed(page),
                _ => {
                    Answer::no(Status::NotFound, "this is a moment: it has a page and nothing else")
                }
            };
        }
        if target.is_slot() {
            return match *path {
                "/debug/pprof/heap" | "/debug/pprof/allocs" => pprof::slot(target, request),
                "/debug/pprof/cmdline" => gperftools::cmdline(target, self.show_args, '\0'),
                _ => Answer::no(Status::NotFound, ONLY_A_SLOT),
            };
        }
        match *path {
            "/" => page::of(target, stop),
            "/data" => page::data(target, stop),
            "/recording" => recording::of(target, request, self.show_args),
            "/debug/pprof/heap" => pprof::heap(target, request, stop),
            "/debug/pprof/allocs" => pprof::allocs(target, request, stop),
            "/debug/pprof/delta_heap" => pprof::delta_heap(target, request, stop),
            "/pprof/heap" => gperftools::heap(target),
            "/pprof/growth" => gperftools::growth(target),
            "/debug/pprof/cmdline" => gperftools::cmdline(target, self.show_args, '\0'),
            "/pprof/cmdline" => gperftools::cmdline(target, self.show_args, '\n'),
            "/debug/pprof/symbol" | "/pprof/symbol" => gperftools::symbol(target, request),
            _ => Answer::no(Status::NotFound, "there is no such thing here"),
        }
    }
}

/// While nothing is known of a process.
fn unknown(why: &str) -> Answer {
    Answer::no(Status::Unavailable, format!("nothing is recorded yet: {why}"))
}

/// The `seconds` of a request.
fn seconds(request: &Request) -> Result<Option<Duration>, Answer> {
    let no = |why: String| Answer::no(Status::BadRequest, why);
    let seconds = request.query.number("seconds");
    let seconds = seconds.map_err(|text| no(format!("`{text}` are no seconds")))?;
    let time = seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
    match time.filter(|time| *time > LONGEST) {
        Some(_) => Err(no("more than 3600 seconds are not waited for".to_owned())),
        None => Ok(time),
    }
}
