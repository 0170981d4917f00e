//! Debug information from servers, for builds of which nothing is found here.
//!
//! No server is asked unless `DEBUGINFOD_URLS` says so: build ids tell what runs here. Servers are
//! believed as little as the target: what they send is bounded in time and size, and taken only if
//! it is of the very build. It goes through the cache that all debuginfod clients of a user share;
//! what was not had is remembered for the session only.
//!
//! ```text
//! settings --> transfer --> cache --> a file that any other reader would open
//! ```

mod cache;
mod settings;
mod transfer;

use std::{
    collections::HashMap,
    fs::File,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use heapattach_process::proc::build_id::BuildId;

use crate::{files::elf::Allowance, printable::printable};
use cache::Cache;
use heapattach_text::quantity;
pub use settings::Settings;
use transfer::{Connection, Progress, TransferError};

/// So many files are fetched at the same time.
const AT_ONCE: usize = 8;
/// No honest program has more modules whose names are wanted and not here.
const BUILDS_LIMIT: usize = 256;
/// Bytes that come in one session.
const MOST_FETCHED: u64 = 4 << 30;
/// How often it is told how it goes.
const PERIOD: Duration = Duration::from_millis(200);

/// Which servers to ask; none, if the user names none.
#[derive(Clone, Debug, Default)]
pub struct Debuginfod(Option<Arc<Client>>);

impl Debuginfod {
    /// The one of this process's environment.
    pub fn of_environment() -> Self {
        Self::new(Settings::of(|name| std::env::var_os(name)))
    }

    /// One with these settings.
    pub fn new(settings: Option<Settings>) -> Self {
        Self(settings.map(|settings| Arc::new(Client::new(&settings))))
    }

    /// Whether there is a server to ask.
    pub fn is_in_use(&self) -> bool {
        self.0.is_some()
    }

    /// Fetches debug information, several files at once, each unless that was tried before. Returns
    /// when all was had or not, or when `watch`, which hears how it goes, wants no more of it.
    pub fn fetch(&self, wanted: Vec<BuildId>, watch: &mut dyn FnMut(&str) -> bool) {
        if let Some(client) = &self.0 {
            client.fetch(wanted, watch);
        }
    }

    /// The debug information of a build, if it was fetched.
    pub fn open(&self, id: &BuildId) -> Option<File> {
        let client = self.0.as_ref()?;
        let is_here = client.outcomes().get(id).is_some_and(|outcome| outcome.is_none());
        client.cache.as_ref().filter(|_| is_here)?.open(id)
    }

    /// Why that of a build was not had.
    pub fn remark(&self, id: Option<&BuildId>) -> Option<String> {
        let why = self.0.as_ref()?.outcomes().get(id?)?.clone()?;
        Some(format!("debuginfod: {why}"))
    }
}

/// What was tried already: a build that is here, or why it is not.
type Outcomes = HashMap<BuildId, Option<String>>;

#[derive(Debug)]
struct Client {
    servers: Vec<Server>,
    cache: Option<Cache>,
    outcomes: Mutex<Outcomes>,
    progress: Progress,
}

#[derive(Debug)]
struct Server {
    connection: Connection,
    /// Without the passwords that URLs may hold.
    name: String,
    /// Why it is not asked any more.
    failed: OnceLock<String>,
}

impl Client {
    fn new(settings: &Settings) -> Self {
        let servers = settings.servers.iter().map(|url| Server {
            connection: Connection::new(url, settings),
            name: printable(url.rsplit_once('@').map_or(url, |(_, place)| place)),
            failed: OnceLock::new(),
        });
        let progress = Progress {
            bytes: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            allowance: Allowance::of(MOST_FETCHED),
        };
        let cache = settings.cache.clone().map(Cache::at);
        Self { servers: servers.collect(), cache, outcomes: Mutex::default(), progress }
    }

    fn outcomes(&self) -> MutexGuard<'_, Outcomes> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fetch(self: &Arc<Self>, mut wanted: Vec<BuildId>, watch: &mut dyn FnMut(&str) -> bool) {
        let mut outcomes = self.outcomes();
        wanted.retain(|id| {
            let is_new = !outcomes.contains_key(id) && outcomes.len() < BUILDS_LIMIT;
            let is_here = is_new && self.cache.as_ref().is_some_and(|c| c.open(id).is_some());
            if is_new {
                // Until the end of its transfer tells otherwise.
                let why = (!is_here).then(|| TransferError::Interrupted.to_string());
                outcomes.insert(id.clone(), why);
            }
            is_new && !is_here
        });
        drop(outcomes);
        if wanted.is_empty() || self.progress.is_over.load(Relaxed) {
            return;
        }
        let (all, mut done) = (wanted.len(), 0);
        let (queue, (sender, ended)) = (Arc::new(Mutex::new(wanted)), channel());
        for _ in 0..AT_ONCE.min(all) {
            let (client, queue, sender) = (Arc::clone(self), Arc::clone(&queue), sender.clone());
            // Not joined: one that waits for a silent server ends at its timeout, or with us. Where
            // no thread can be had the others do its part; without any, nothing is fetched.
            let _ = thread::Builder::new().spawn(move || client.work(&queue, &sender));
        }
        drop(sender);
        loop {
            let bytes = quantity::bytes(self.progress.bytes.load(Relaxed));
            if !watch(&format!("debug information: {done} of {all} files, {bytes}")) {
                self.progress.is_over.store(true, Relaxed);
                return;
            }
            match ended.recv_timeout(PERIOD) {
                Ok((id, outcome)) => {
                    done += 1;
                    self.outcomes().insert(id, outcome);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn work(&self, queue: &Mutex<Vec<BuildId>>, ended: &Sender<(BuildId, Option<String>)>) {
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while !self.progress.is_over.load(Relaxed)
            && let Some(id) = next()
        {
            let outcome = self.ask_all(&id);
            if ended.send((id, outcome)).is_err() {
                return;
            }
        }
    }

    /// Asks one server after the other; answers why none of them had it.
    fn ask_all(&self, id: &BuildId) -> Option<String> {
        let Some(cache) = &self.cache else {
            return Some("there is no folder to keep it; set DEBUGINFOD_CACHE_PATH".to_owned());
        };
        let mut why = Vec::new();
        for server in &self.servers {
            let told = match server.failed.get() {
                Some(failed) => failed.clone(),
                None => match server.connection.fetch(id, cache, &self.progress) {
                    Ok(()) => return None,
                    Err(error) => {
                        let told = printable(&error.to_string());
                        if error.is_of_server() {
                            let _ = server.failed.set(told.clone());
                        }
                        told
                    }
                },
            };
            why.push(format!("{}: {told}", server.name));
        }
        Some(why.join("; "))
    }
}
