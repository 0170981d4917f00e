//! The files that names are read from: modules, and what distributions strip from them.

pub(crate) mod debug_data;
pub(crate) mod debug_file;
#[cfg_attr(not(feature = "debuginfod"), path = "debuginfod/absent.rs")]
pub(crate) mod debuginfod;
pub(crate) mod elf;
pub(crate) mod mapped_file;
pub(crate) mod packages;
pub(crate) mod root;
pub(crate) mod surroundings;
pub(crate) mod symbol_table;
