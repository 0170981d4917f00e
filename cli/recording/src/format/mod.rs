//! The bytes of a recording: blocks, and what is in them.

pub(crate) mod block;
pub(crate) mod coded_events;
pub(crate) mod coder;
pub(crate) mod disk;
pub(crate) mod hash;
pub(crate) mod heading;
pub(crate) mod numbers;
pub(crate) mod plain_events;
pub(crate) mod predictor;
pub(crate) mod recent;
pub(crate) mod recent_by_stack;
pub(crate) mod rows;
pub(crate) mod snapshot;
pub(crate) mod stack_source;
pub(crate) mod varint;
pub(crate) mod version1;
