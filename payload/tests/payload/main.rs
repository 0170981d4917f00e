//! The payload at work, in this very process.
#![cfg(target_arch = "x86_64")]

mod counting;
mod mapped;
mod placed;
mod registers;
mod section;
mod signals;
mod sites;
mod steps;
