//! One session, from the attach to its result: what is read meanwhile, and what becomes of it.

pub(crate) mod announced;
pub(crate) mod end;
pub(crate) mod event_loop;
pub(crate) mod files;
pub(crate) mod heading;
pub(crate) mod hook_counts;
pub(crate) mod inheritance;
pub(crate) mod intake;
pub(crate) mod kernel_list;
pub(crate) mod limits;
pub(crate) mod memory_course;
pub(crate) mod names;
pub(crate) mod notes;
pub(crate) mod observation;
pub mod options;
pub(crate) mod own_mapped;
mod pace;
pub(crate) mod result;
pub(crate) mod ring_owners;
pub(crate) mod runtime_reports;
pub(crate) mod schedule;
pub(crate) mod session_start;
pub(crate) mod spoken;
pub(crate) mod stack_dump;
pub(crate) mod stacks;
pub(crate) mod title;
pub(crate) mod triggers;

pub use files::{Files, deliver};
pub use hook_counts::{add_window, module_name};
pub use stack_dump::StackList;
