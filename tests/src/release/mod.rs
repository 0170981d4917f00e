//! What a release has, and where it must run.

pub mod files;
pub mod root_fs;
