//! Writing a session down while it lasts.

pub(crate) mod compaction;
pub(crate) mod cut;
pub(crate) mod session_writer;
pub(crate) mod write_queue;
pub(crate) mod writer;
