//! The contract between the payload, which runs inside another process, and the injector,
//! which puts it there.
//!
//! ```text
//!   one mapping, R-X                  private pages,              memfd, shared
//!   (bytes of one ELF section)        zero after a fork           (region)
//!  ┌─────────────────────────┐       ┌─────────────────┐        ┌──────────────────────┐
//!  │ descriptor      (image) │   ┌──►│ Control         │───────►│ head                 │
//!  │ hooks            (kind) │   │   │ index of threads│───┐    │ rows          (row)  │
//!  │ slow paths              │   │   │         (index) │   └───►│ samples   (samples)  │
//!  │ sigreturn               │   │   └─────────────────┘        │ stacks     (stacks)  │
//!  │ cells: control, region ─┼───┘                              │ rings        (ring)  │
//!  │        orig[hook] ──────┼──► where the hooked function      └──────────────────────┘
//!  └─────────────────────────┘    goes on
//! ```
//!
//! Layouts, and the steps by which both sides share a ring: no code here touches memory itself. Every offset is asserted at compile
//! time, every address is a `u64`, and a change of any of it is a change of [`image::VERSION`].
#![no_std]
#![forbid(unsafe_code)]
// `heapattach_payload` is set by the build of the command alone; cargo does not know it.
#![allow(unexpected_cfgs)]

pub mod control;
pub mod copies;
pub mod flow;
pub mod form;
pub mod frame;
pub mod image;
pub mod index;
pub mod java;
pub mod kind;
pub mod late;
pub mod luajit;
pub mod memo;
pub mod nest;
pub mod protocol;
pub mod python;
pub mod region;
pub mod ring;
pub mod row;
pub mod samples;
pub mod stacks;
pub mod unwind;

/// Where this crate's sources lie, for the build that compiles them once more for the target.
#[cfg(not(heapattach_payload))]
pub const SOURCE_DIR: &str = env!("CARGO_MANIFEST_DIR");
