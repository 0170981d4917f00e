//! Why a file of a moment cannot be read.

use std::{io, path::PathBuf};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum MomentError {
    /// The operating system says no.
    #[error("{path} cannot be read")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause, as the system states it.
        #[source]
        source: io::Error,
    },
    /// Another kind of file.
    #[error("{0} is not a valid moment file of heapattach")]
    Alien(PathBuf),
    /// Made by a later heapattach.
    #[error(
        "{path} is a moment file of version {version}, and this heapattach reads {known}; use a newer one"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: String,
        /// What can be read.
        known: u32,
    },
    /// It is not whole, or was made to do harm.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}
