//! The payload at work, in this very process.
#![cfg(target_arch = "x86_64")]

mod audit;
mod cfi;
mod chosen;
mod counting;
mod flow;
mod fork;
mod instructions;
mod kernel;
mod mapped;
mod originals;
mod pages_that_go;
mod placed;
mod records;
mod registers;
mod samples;
mod sampling;
mod section;
mod signals;
mod stacks;
mod steps;
mod storm;
mod unwinding;
