//! Tests of all of it together: by live processes, by hostile files, beside other programs.

mod containers;
#[cfg(feature = "debuginfod")]
mod debuginfod;
#[cfg(feature = "debuginfod")]
pub mod debuginfod_server;
mod declared;
pub mod folder;
#[cfg(target_arch = "x86_64")]
mod growth;
mod hostile;
#[cfg(target_arch = "x86_64")]
mod instructions;
pub mod live;
mod peers;
mod short_names;
mod speed;
