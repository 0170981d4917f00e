//! Everything that touches another process: finding out what can be hooked, stopping it for some
//! milliseconds, putting the payload in, and giving everything back.
//!
//! ```text
//! proc, linker, module -> survey -> plan       the target runs, nothing is touched
//!                                    |
//! stopped -> remote_call -> install -> patch   it is stopped, a few milliseconds
//!                                    |
//!                                 session      it runs, we count and keep looking for new modules
//!                                    |
//! stopped ---------------------->  undo        also for what a killed heapattach left
//! ```
//!
//! Only system calls are made in the target, by a borrowed thread; everything else is written from
//! outside. If its user wants the target to load the hooks ([`loader`]), no thread is borrowed for
//! that either. Whatever is read from the target is hostile: bounded, checked, never a panic.

pub mod addr;
pub mod arch;
pub mod asked;
pub mod attach;
pub mod constant;
pub mod counts;
mod denial;
pub mod entry;
pub mod event;
pub mod failure;
pub mod family;
pub mod fault;
pub mod forecast;
pub mod functions;
pub mod gap;
pub mod heartbeat;
pub mod home;
pub mod install;
pub mod keeper;
mod kernel;
pub mod lease;
pub mod leftovers;
pub mod linker;
pub mod loader;
mod loading;
mod machine;
pub mod mailbox;
pub mod memory;
pub mod module;
pub mod obstacle;
pub mod offspring;
pub mod own_checker;
mod parting;
pub mod patch;
pub mod payload_image;
pub mod places;
pub mod plan;
pub mod preflight;
mod prepare;
pub mod proc;
pub mod ptrace;
pub mod python;
pub mod quiet;
pub mod remote_call;
pub mod ring;
pub mod root;
pub mod rseq;
mod sequence;
pub mod session;
pub mod shared;
mod shelter;
pub mod slots;
pub mod snapshot;
pub mod stacks;
pub mod start;
pub mod stopped;
pub mod stream;
pub mod stub_page;
pub mod survey;
pub mod symbol_file;
pub mod tables;
pub mod target;
mod thread_pointer;
pub mod undo;
pub mod unwind;
mod user_dispatch;
pub mod vdso;
pub mod wait;
pub mod ward;
