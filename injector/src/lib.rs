//! The engine: attaches to another process, watches it, and detaches. It stops the process for some
//! milliseconds, puts the payload in, and gives everything back.
//!
//! ```text
//! preflight, module -> hook: survey, plan       the target runs, nothing is touched
//!                                  |
//! trace: stopped -> installation -> hook: patch  it is stopped, a few milliseconds
//!                                  |
//!                     session, records           it runs, we count and keep looking for new modules
//!                                  |
//! trace: stopped -------------> session: undo    also for what a killed heapattach left
//! ```
//!
//! | room | what it does |
//! |---|---|
//! | [`arch`] | all that is particular to a processor |
//! | [`cache`] | files that make a later session cheaper |
//! | [`module`] | symbols and slots of what is loaded |
//! | [`trace`] | stops threads, follows families, watches ends |
//! | [`preflight`], [`refusal`] | whether an attach is allowed and would work |
//! | [`home`] | what lies in a target while a session lasts, and its journal |
//! | [`hook`] | which functions are hooked, and how |
//! | [`installation`] | changes the target, and changes it back |
//! | [`loader`] | the other way in: the target's own loader loads the hooks |
//! | [`unwind`], [`python`] | what stacks are followed by |
//! | [`records`] | what is read while the target runs |
//! | [`session`], [`options`] | attach, watch, detach; what a killed session left |
//! | [`snapshot`] | the whole memory at one moment, for checks |
//!
//! Only system calls are made in the target, by a borrowed thread; everything else is written from
//! outside. If its user wants the target to load the hooks ([`loader`]), no thread is borrowed for
//! that either. Whatever is read from the target is hostile: bounded, checked, never a panic. It knows no
//! recording, no report and no command line.

pub mod arch;
pub mod cache;
pub mod home;
pub mod hook;
pub mod installation;
pub mod loader;
pub mod module;
pub mod options;
pub mod preflight;
pub mod python;
pub mod records;
pub mod refusal;
pub mod session;
pub mod snapshot;
pub mod trace;
pub mod unwind;
