//! Where a target's figures come from.

use std::path::PathBuf;

use super::{
    recording::{News, RecordingSource},
    server::ServerSource,
};

/// One source.
#[derive(Debug)]
pub enum Source {
    /// What another command writes, or wrote.
    File(RecordingSource),
    /// What a session of this command writes, and where it says what there is to say.
    Session(RecordingSource, PathBuf),
    /// What `heapattach serve` serves.
    Server(ServerSource),
}

impl Source {
    /// What is new.
    ///
    /// # Errors
    /// Why nothing can be known.
    pub fn look(&mut self) -> Result<News, String> {
        match self {
            Self::File(file) | Self::Session(file, _) => file.look(),
            Self::Server(server) => server.look(),
        }
    }

    /// Where its session says what there is to say.
    pub fn log(&self) -> Option<PathBuf> {
        match self {
            Self::File(_) | Self::Server(_) => None,
            Self::Session(_, log) => Some(log.clone()),
        }
    }

    /// Whether nothing comes after its end: a server may begin anew, and a session still says how it ended.
    pub fn ends(&self) -> bool {
        match self {
            Self::File(_) => true,
            Self::Session(..) | Self::Server(_) => false,
        }
    }

    /// Whether a failure is worth a word: the file of a session that begins is not there yet.
    pub fn tells_failures(&self) -> bool {
        match self {
            Self::File(_) | Self::Server(_) => true,
            Self::Session(..) => false,
        }
    }
}
