//! Tests of all of it together: made-up programs whose truth is known, many runs, hostile events, costs.

#[cfg(target_arch = "x86_64")]
mod growth;
mod hostile;
#[cfg(target_arch = "x86_64")]
mod instructions;
mod mixes;
pub(crate) mod models;
mod throughput;
mod truth;
