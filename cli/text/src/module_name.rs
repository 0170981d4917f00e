//! Names of modules that are not files.

/// Code that an interpreter of Python runs.
pub const PYTHON: &str = "[python]";
