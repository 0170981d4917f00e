//! What a session leaves behind: made by the command, filled by the tracing process.

use std::path::Path;

use crate::{recorded::RecordedBlocks, watch::stack_dump::StackList};
use heapattach_recording::Store;

/// Where the session and its stacks are written to.
#[derive(Debug, Default)]
pub struct Files {
    /// The recording.
    pub store: Option<Store>,
    /// The stacks, if they are wanted.
    pub stacks: Option<StackList>,
    /// The blocks that are in use at the end, if they are wanted.
    pub blocks: Option<RecordedBlocks>,
}

impl Files {
    /// With room for stacks if a file of them is wanted.
    ///
    /// # Errors
    /// There is none.
    pub fn new(store: Option<Store>, stacks: Option<&Path>) -> Result<Self, String> {
        let stacks = stacks.map(|_| StackList::new()).transpose();
        let stacks = stacks.map_err(|error| format!("there is no room for stacks: {error}"))?;
        Ok(Self { store, stacks, blocks: None })
    }
}

/// Writes the stacks to the file that the user named.
///
/// # Errors
/// With its name, and why it could not be.
pub fn deliver(stacks: Option<&StackList>, path: Option<&Path>) -> Result<(), String> {
    stacks.zip(path).map_or(Ok(()), |(stacks, path)| stacks.deliver(path))
}
