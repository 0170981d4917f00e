//! Numbers, names, patterns and errors as people read and type them.
//!
//! Knows no process, no file and no clock.

pub mod command_line;
pub mod date;
pub mod error_chain;
pub mod glob;
pub mod module_name;
pub mod printable;
pub mod quantity;
pub mod short_name;
