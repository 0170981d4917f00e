//! Checks in pipelines: limits, baselines, suppressions, and the files that other tools read.

mod attached;
mod files;
mod limits;
mod suppressions;
mod workflow;
