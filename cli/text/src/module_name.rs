//! Names of modules that are no files.

/// Code that an interpreter of Python runs.
pub const PYTHON: &str = "[python]";
