//! Why a recording cannot be read, or not be written.

use std::{io, path::PathBuf};

/// What went wrong with the file of a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The operating system says no.
    #[error("{path} cannot be {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried: opened, created, written, read.
        what: &'static str,
        /// The cause, as the system states it.
        #[source]
        source: io::Error,
    },
    /// Nothing is written over.
    #[error("{0} is there already; give another name, or --force to write over it")]
    Exists(PathBuf),
    /// Another kind of file.
    #[error("{0} is not a valid recording of heapattach")]
    Alien(PathBuf),
    /// Made by a later heapattach.
    #[error(
        "{path} is a recording of version {version}, and this heapattach reads {known}; use a newer one"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: String,
        /// What can be read.
        known: u32,
    },
    /// Not even its beginning is whole.
    #[error("{0} is damaged from its beginning on, or nothing was recorded yet")]
    Empty(PathBuf),
}
