//! Reads a moment, and says why it cannot be read.

use std::path::Path;

use heapattach_moment::Moment;
use heapattach_text::error_chain::with_causes;

use crate::{exit_status::Exit, output::complain};

/// What a file has; or the end of the command, with the reason told.
///
/// # Errors
/// The exit status.
pub fn open(path: &Path) -> Result<Moment, Exit> {
    heapattach_moment::read(path).map_err(|error| {
        complain(&with_causes(&error));
        Exit::Failed
    })
}
