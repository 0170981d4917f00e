//! php-fpm with one worker, and a client that speaks FastCGI.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use heapattach_test_folder::Folder;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    compile::fixture,
    deadline::{PATIENCE, poll},
    skip::skip,
};

/// Numbers of FastCGI: version, kinds of records, role.
const VERSION: u8 = 1;
const BEGIN: u8 = 1;
const END: u8 = 3;
const PARAMETERS: u8 = 4;
const INPUT: u8 = 5;
const OUTPUT: u8 = 6;
const RESPONDER: u8 = 1;

/// php-fpm with one worker, on a socket in a folder; ended when it is dropped.
#[derive(Debug)]
pub struct PhpFpm {
    master: Child,
    /// The process that answers.
    pub worker: i32,
    /// Where its files are.
    pub folder: Folder,
}

impl PhpFpm {
    /// Starts it with such settings of PHP; `None` where there is none.
    ///
    /// # Panics
    /// If it does not come to answer in time.
    pub fn start(settings: &[&str]) -> Option<Self> {
        let installed = fs::read_dir("/usr/sbin").ok()?.filter_map(Result::ok);
        let is_it = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm"))
        };
        let Some(program) = installed.map(|entry| entry.path()).find(is_it) else {
            skip("no php-fpm here", "apt-get install php-fpm");
            return None;
        };
        let folder = Folder::new("php-fpm");
        let root = nix::unistd::geteuid().is_root();
        let owner = if root { "user = root\n" } else { "" };
        let place = folder.0.display();
        let configuration = format!(
            "[global]\ndaemonize = no\nerror_log = {place}/log\npid = {place}/pid\n[www]\n{owner}listen = \
             {place}/socket\npm = static\npm.max_children = 1\nphp_admin_flag[implicit_flush] = on\n"
        );
        fs::write(folder.0.join("conf"), configuration).expect("a file");
        let mut command = Command::new(program);
        command.args(["-n", "-F"]);
        settings.iter().for_each(|setting| {
            command.args(["-d", setting]);
        });
        command.args(root.then_some("-R")).arg("-y").arg(folder.0.join("conf"));
        let master = command.stderr(Stdio::null()).spawn().expect("php-fpm");
        let children = format!("/proc/{0}/task/{0}/children", master.id());
        let socket = folder.0.join("socket");
        let worker = poll(PATIENCE, || {
            let text = fs::read_to_string(&children).ok()?;
            let is_up = UnixStream::connect(&socket).is_ok();
            text.split_whitespace().next()?.parse().ok().filter(|_| is_up)
        });
        let log = fs::read_to_string(folder.0.join("log")).unwrap_or_default();
        let worker = worker.unwrap_or_else(|| panic!("no worker: {log}"));
        Some(Self { master, worker, folder })
    }

    /// Sends a request for such a fixture.
    ///
    /// # Panics
    /// If it is not taken.
    pub fn request(&self, file: &str, parameters: &[(&str, &str)]) -> Answer {
        let mut stream = UnixStream::connect(self.folder.0.join("socket")).expect("php-fpm");
        let script = fixture(file).canonicalize().expect("a fixture");
        let all =
            [("SCRIPT_FILENAME", script.to_str().expect("a name")), ("REQUEST_METHOD", "GET")];
        let mut pairs = Vec::new();
        for (name, value) in all.iter().chain(parameters) {
            for length in [name.len(), value.len()] {
                let length = u32::try_from(length).expect("short") | 1 << 31;
                pairs.extend(length.to_be_bytes());
            }
            pairs.extend(name.bytes().chain(value.bytes()));
        }
        let records = [
            (BEGIN, vec![0, RESPONDER, 0, 0, 0, 0, 0, 0]),
            (PARAMETERS, pairs),
            (PARAMETERS, vec![]),
            (INPUT, vec![]),
        ];
        for (kind, content) in records {
            let [high, low] = u16::try_from(content.len()).expect("short").to_be_bytes();
            let head = [VERSION, kind, 0, 1, high, low, 0, 0];
            stream.write_all(&[&head[..], &content].concat()).expect("it is read");
        }
        Answer(stream)
    }
}

impl Drop for PhpFpm {
    fn drop(&mut self) {
        // It ends its worker, which a SIGKILL would leave alone.
        let master = Pid::from_raw(self.master.id().cast_signed());
        let _ = kill(master, Signal::SIGTERM);
        let has_ended = poll(PATIENCE, || self.master.try_wait().ok().flatten());
        if has_ended.is_none() {
            let _ = (kill(Pid::from_raw(self.worker), Signal::SIGKILL), self.master.kill());
        }
    }
}

/// What it answers, as it comes: without the head.
#[derive(Debug)]
pub struct Answer(UnixStream);

impl Answer {
    /// The next record's kind and content.
    fn record(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 8];
        self.0.read_exact(&mut head).expect("an answer");
        let [_, kind, _, _, high, low, padding, _] = head;
        let mut content = vec![0; usize::from(u16::from_be_bytes([high, low]))];
        self.0.read_exact(&mut content).expect("an answer");
        let mut rest = vec![0; usize::from(padding)];
        self.0.read_exact(&mut rest).expect("an answer");
        (kind, content)
    }

    /// Reads all that is left of it.
    ///
    /// # Panics
    /// If there is no end.
    pub fn finish(mut self) {
        while self.record().0 != END {}
    }

    /// What is there as soon as it is enough, or all of it.
    ///
    /// # Panics
    /// If it is no answer.
    pub fn text(&mut self, is_enough: impl Fn(&str) -> bool) -> String {
        let mut all = String::new();
        loop {
            let (kind, content) = self.record();
            match kind {
                OUTPUT => all.push_str(&String::from_utf8_lossy(&content)),
                END => break,
                _ => panic!("a record of kind {kind}"),
            }
            if body(&all).is_some_and(&is_enough) {
                break;
            }
        }
        body(&all).unwrap_or_else(|| panic!("no head: {all}")).to_owned()
    }
}

fn body(answer: &str) -> Option<&str> {
    answer.split_once("\r\n\r\n").map(|(_, body)| body)
}
