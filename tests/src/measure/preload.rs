//! How a peer records from the start: heaptrack's library, preloaded, without its interpreter.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use nix::{sys::stat::Mode, unistd::mkfifo};

use crate::{fixture::Launch, skip::skip};

/// Where distributions put it.
const PLACES: [&str; 4] = [
    "/usr/lib/heaptrack",
    "/usr/lib/x86_64-linux-gnu/heaptrack",
    "/usr/lib64/heaptrack",
    "/usr/local/lib/heaptrack",
];

/// What it writes, read and thrown away by a process of its own; dropped, that ends.
#[derive(Debug)]
pub(super) struct Preload {
    library: PathBuf,
    fifo: PathBuf,
    reader: Child,
}

impl Preload {
    /// `None` (reported as skipped) where it is not installed.
    pub(super) fn new() -> Option<Self> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let library = PLACES.map(|place| Path::new(place).join("libheaptrack_preload.so"));
        let Some(library) = library.into_iter().find(|library| library.is_file()) else {
            skip("no heaptrack here", "apt-get install heaptrack");
            return None;
        };
        let name =
            format!("heapattach-peer-{}-{}", std::process::id(), SERIAL.fetch_add(1, Relaxed));
        let fifo = std::env::temp_dir().join(name);
        mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).expect("a pipe among temporary files");
        let mut reader = Command::new("cat");
        let reader = reader.arg(&fifo).stdin(Stdio::null()).stdout(Stdio::null());
        let reader = reader.spawn().expect("cat runs everywhere");
        Some(Self { library, fifo, reader })
    }

    /// The fixture itself must be the first process: the library takes itself out of the
    /// environment.
    pub(super) fn under(&self, launch: Launch) -> Launch {
        launch.env("LD_PRELOAD", &self.library).env("DUMP_HEAPTRACK_OUTPUT", &self.fifo)
    }
}

impl Drop for Preload {
    fn drop(&mut self) {
        let _ = self.reader.kill();
        let _ = self.reader.wait();
        let _ = fs::remove_file(&self.fifo);
    }
}
