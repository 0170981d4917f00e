//! One file, fetched from one server and checked.

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use heapattach_process::proc::build_id::BuildId;
use ureq::{
    Agent,
    http::Uri,
    tls::{RootCerts, TlsConfig},
};

use super::{
    cache::{Cache, Part},
    settings::Settings,
};
use crate::files::elf::Allowance;

/// A server that sends less in one timeout has stalled.
const LEAST: u64 = 100 << 10;
/// More lead in circles.
const REDIRECTS: u32 = 5;
const PIECE: usize = 64 << 10;

/// Why a file was not had.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The server has another answer than the file.
    #[error("{}", match .0 { 404 => "it has none of this build (404)".to_owned(), n => format!("status {n}") })]
    Status(u16),
    /// It is not repeated: some hold passwords.
    #[error("its name is not a URL of http or https")]
    BadUrl,
    /// The server cannot be talked with.
    #[error("{0}")]
    Http(ureq::Error),
    /// It does next to nothing.
    #[error("it sent less than {} kB in {}", LEAST >> 10, seconds(*.0))]
    Stalled(Duration),
    /// The server or the network is slow.
    #[error("it took longer than {} (DEBUGINFOD_MAXTIME)", seconds(*.0))]
    TooLong(Duration),
    /// There is no end to it.
    #[error("its file is larger than {0} bytes (DEBUGINFOD_MAXSIZE)")]
    TooLarge(u64),
    /// The connection broke.
    #[error("its file ended after {got} of {announced} bytes")]
    Truncated { got: u64, announced: u64 },
    /// It may be a web page, meant for a browser.
    #[error("what it sent is not a whole ELF file")]
    NoElf,
    /// Wrong names are worse than none.
    #[error("what it sent is of another build ({0})")]
    OtherBuild(String),
    /// All files together.
    #[error("it was not tried, as so much was fetched already")]
    Enough,
    /// The user has no more patience.
    #[error("interrupted")]
    Interrupted,
    /// The file has no place.
    #[error("cannot write below {}; set DEBUGINFOD_CACHE_PATH to a folder of yours", .0.display())]
    Cache(PathBuf, #[source] io::Error),
}

impl TransferError {
    /// Whether the server would not do better with another file.
    pub fn is_of_server(&self) -> bool {
        matches!(self, Self::Stalled(_) | Self::Http(_))
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

/// What all transfers of a session have in common.
#[derive(Debug)]
pub struct Progress {
    /// Bytes that came.
    pub bytes: AtomicU64,
    /// No more files are wanted.
    pub is_over: AtomicBool,
    /// What may still come.
    pub allowance: Allowance,
}

/// A way to talk with a server.
#[derive(Debug)]
pub struct Connection {
    agent: Agent,
    url: String,
    timeout: Option<Duration>,
    longest: Duration,
    largest: u64,
}

impl Connection {
    /// To the server at `url`; nothing is sent yet.
    pub fn new(url: &str, settings: &Settings) -> Self {
        let Settings { timeout, longest, largest, .. } = *settings;
        // The certificates of this machine: many servers are a company's own.
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .user_agent(concat!("heapattach/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            // One who asked for a secret way is not led to an open one.
            .https_only(url.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https")))
            .max_redirects(REDIRECTS)
            // A server may close one that waits just as the next request is on its way.
            .max_idle_connections(0)
            .max_idle_connections_per_host(0)
            .timeout_global(Some(longest))
            .timeout_resolve(timeout)
            .timeout_connect(timeout)
            .timeout_recv_response(timeout)
            .timeout_per_read(timeout)
            .timeout_per_write(timeout);
        let agent = config.build().new_agent();
        Self { agent, url: url.to_owned(), timeout, longest, largest }
    }

    /// Brings the debug information of a build into the cache.
    ///
    /// # Errors
    /// If anything is wrong with the server or its file; then the cache is as before.
    pub fn fetch(
        &self,
        id: &BuildId,
        cache: &Cache,
        progress: &Progress,
    ) -> Result<(), TransferError> {
        let url = format!("{}/buildid/{id}/debuginfo", self.url);
        let response = self.agent.get(url).call().map_err(|error| match self.explain(error) {
            // It has not even begun.
            TransferError::TooLong(time) => TransferError::Stalled(time),
            error => error,
        })?;
        if response.status() != 200 {
            return Err(TransferError::Status(response.status().as_u16()));
        }
        let body = response.into_body();
        let announced = body.content_length();
        if announced.is_some_and(|size| size > self.largest) {
            return Err(TransferError::TooLarge(self.largest));
        }
        let unwritable = |error| TransferError::Cache(cache.path().to_owned(), error);
        let mut part = cache.begin(id).map_err(unwritable)?;
        let got = self.receive(body.into_reader(), &mut part, progress, unwritable)?;
        if let Some(announced) = announced.filter(|announced| got != *announced) {
            return Err(TransferError::Truncated { got, announced });
        }
        match part.build().map_err(unwritable)? {
            None => return Err(TransferError::NoElf),
            Some(found) if found.as_ref() != Some(id) => {
                let found = found.map_or_else(|| "of none".to_owned(), |id| id.to_string());
                return Err(TransferError::OtherBuild(found));
            }
            Some(_) => {}
        }
        part.keep().map_err(unwritable)
    }

    fn receive(
        &self,
        mut body: impl Read,
        part: &mut Part,
        progress: &Progress,
        unwritable: impl Fn(io::Error) -> TransferError,
    ) -> Result<u64, TransferError> {
        let (mut piece, mut got) = (vec![0; PIECE], 0_u64);
        let (mut since, mut got_before) = (Instant::now(), 0);
        loop {
            let length = match body.read(&mut piece) {
                Ok(length) => length,
                // An end before the announced one; how much is lacking is told by the caller.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                Err(error) => return Err(self.explain(error.into())),
            };
            let Some(bytes) = piece.get(..length).filter(|bytes| !bytes.is_empty()) else {
                return Ok(got);
            };
            got = got.saturating_add(length as u64);
            progress.bytes.fetch_add(length as u64, Relaxed);
            if progress.is_over.load(Relaxed) {
                return Err(TransferError::Interrupted);
            }
            if got > self.largest {
                return Err(TransferError::TooLarge(self.largest));
            }
            progress.allowance.take(length as u64).ok_or(TransferError::Enough)?;
            part.write(bytes).map_err(&unwritable)?;
            // A byte now and then keeps any timeout of single reads away.
            if let Some(timeout) = self.timeout.filter(|timeout| since.elapsed() >= *timeout) {
                if got - got_before < LEAST {
                    return Err(TransferError::Stalled(timeout));
                }
                (since, got_before) = (Instant::now(), got);
            }
        }
    }

    fn explain(&self, error: ureq::Error) -> TransferError {
        match (error, self.timeout) {
            (ureq::Error::Timeout(ureq::Timeout::Global), _) => {
                TransferError::TooLong(self.longest)
            }
            (ureq::Error::Timeout(_), Some(timeout)) => TransferError::Stalled(timeout),
            (ureq::Error::BadUri(_) | ureq::Error::Http(_), _) => TransferError::BadUrl,
            (error, _) => TransferError::Http(error),
        }
    }
}
