//! What lies around a module's file: where the rest of what is known of it may be.

use std::{path::PathBuf, sync::Arc};

use heapattach_process::cache::Cache;

use crate::files::{debuginfod::Debuginfod, elf::Allowance, root::Root};

/// Where the rest of one module's debug information may be.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Of the module.
    pub path: PathBuf,
    /// The trees to look in, the target's first.
    pub roots: Vec<Arc<Root>>,
    /// What all may take.
    pub allowance: Allowance,
    /// What was fetched.
    pub debuginfod: Debuginfod,
    /// Names that earlier sessions found, where those are kept.
    pub cache: Option<Arc<Cache>>,
    /// Whether variables are asked for, too.
    pub has_variables: bool,
}
