//! One file a command.

pub mod agent;
pub mod allocator;
pub mod attach;
pub mod check;
pub mod completions;
pub mod detach;
pub mod diff;
pub mod doctor;
pub mod forked;
pub mod heap;
pub mod help;
pub mod man;
pub mod report;
pub mod run;
pub mod schema;
pub mod serve;
pub mod status;
pub mod top;
pub mod view;
