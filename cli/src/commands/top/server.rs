//! A process that `heapattach serve` looks at: a copy of its recording is kept here, and grows as that does. A
//! server that goes away is asked again and again.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

use heapattach_files::{
    input,
    output_file::{Readers, begin_anew},
};
use heapattach_text::printable::printable;
use heapattach_top::Subject;
use serde::Deserialize;

use super::{
    recording::{News, RecordingSource},
    web::Address,
};

/// Header lines that say which file it is, and where its bytes are from.
const FILE: &str = "X-Heapattach-File";
const FROM: &str = "X-Heapattach-From";
/// A token is not longer.
const LONGEST_TOKEN: u64 = 4096;
/// So much is in one answer at most; if it is, there may be more.
const PIECE: usize = 4 << 20;
/// No copy is larger, nor are more processes of one server looked at.
const MOST: u64 = 4 << 30;
const PROCESSES: usize = 64;

/// A process of a server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Which.
    pub subject: Subject,
    address: Address,
}

/// The copy.
#[derive(Debug)]
pub struct ServerSource {
    server: Server,
    copy: PathBuf,
    /// Once there is something to copy.
    out: Option<File>,
    /// Which file it is a copy of, and how much of it there is.
    file: String,
    length: u64,
    recording: RecordingSource,
}

#[derive(Deserialize)]
struct Group {
    labels: Labels,
}

#[derive(Deserialize)]
struct Labels {
    service_name: String,
    pid: String,
}

/// The secret in a file.
///
/// # Errors
/// If it cannot be read.
pub fn token(file: Option<&Path>) -> Result<Option<String>, String> {
    let text = file.map(|file| input::text(file, LONGEST_TOKEN)).transpose()?;
    Ok(text.map(|text| text.trim().to_owned()))
}

/// The processes that a server looks at, or the one that its address names.
///
/// # Errors
/// If it does not answer, or lets us not in.
pub fn find(text: &str, token: Option<&str>) -> Result<Vec<Server>, String> {
    let whole = Address::parse(text, token);
    let whole = whole
        .ok_or_else(|| format!("`{text}` is not valid: http://HOST:PORT[/p/PID], or unix:PATH"))?;
    let wanted = whole.path.strip_prefix("/p/").and_then(|pid| pid.parse::<i32>().ok());
    let root = Address { path: String::new(), ..whole };
    let told = root.get("/sd")?;
    let groups: Vec<Group> = serde_json::from_slice(&told.body)
        .map_err(|error| format!("{text}: not an answer of heapattach serve: {error}"))?;
    let servers = groups.into_iter().take(PROCESSES).filter_map(|Group { labels }| {
        let pid = labels.pid.parse::<i32>().ok()?;
        let address = Address { path: format!("/p/{pid}"), ..root.clone() };
        let from = format!("{}{}", address.name(), address.path);
        let name = printable(&labels.service_name);
        Some(Server { subject: Subject { name, pid, from, is_own: false }, address })
    });
    let servers: Vec<_> =
        servers.filter(|server| wanted.is_none_or(|pid| server.subject.pid == pid)).collect();
    match servers.is_empty() {
        true => Err(format!("{text}: no such process is looked at there")),
        false => Ok(servers),
    }
}

impl ServerSource {
    /// Of a process; its copy lies in this folder, under this number.
    pub fn new(server: Server, folder: &Path, number: usize) -> Self {
        let copy = folder.join(format!("server-{number}.heapattach"));
        let recording = RecordingSource::new(&copy);
        Self { server, copy, out: None, file: String::new(), length: 0, recording }
    }

    /// What is new since the last time.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn look(&mut self) -> Result<News, String> {
        while self.fetch()? {}
        self.recording.look()
    }

    /// Fetches a piece; whether there may be more.
    fn fetch(&mut self) -> Result<bool, String> {
        let path = format!("/recording?file={}&from={}", self.file, self.length);
        let answer = self.server.address.get(&path)?;
        let file = answer.header(FILE).unwrap_or_default().to_owned();
        let from = answer.header(FROM).and_then(|from| from.parse::<u64>().ok());
        let is_sound = file.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let is_next = file == self.file && from == Some(self.length);
        if file.is_empty() || !is_sound || !is_next && from != Some(0) {
            return Err("the server answers what is not a recording".to_owned());
        }
        if !is_next {
            // Another file has taken its place: so does its copy.
            self.out = None;
            (self.file, self.length) = (file, 0);
            self.recording = RecordingSource::new(&self.copy);
        }
        if answer.body.is_empty() {
            return Ok(false);
        }
        let grown = self.length.saturating_add(answer.body.len() as u64);
        if grown > MOST {
            return Err("the recording is larger than 4 GiB".to_owned());
        }
        let mut out = match self.out.take() {
            Some(out) => out,
            None => begin_anew(&self.copy, Readers::Owner).map_err(|error| error.to_string())?,
        };
        // A piece that was written in part would be asked for again: then all is copied anew.
        if let Err(error) = out.write_all(&answer.body) {
            (self.file, self.length) = (String::new(), 0);
            return Err(format!("{}: {error}", self.copy.display()));
        }
        self.out = Some(out);
        self.length = grown;
        Ok(answer.body.len() >= PIECE)
    }
}
