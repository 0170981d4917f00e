//! End-to-end tests against live programs.
//!
//! A test starts a *fixture* (a small program of `fixtures/`, compiled on the spot), runs the
//! `heapattach` command on it as a user would, and then asks two witnesses that share no code with
//! the command: the fixture itself, through a [`page`] of counters it checks and writes, and the
//! [`fingerprint`] of the process before and after.
//!
//! ```text
//!            page (progress, errors, truth)
//!   test <───────────────────────────────── fixture <── ptrace ── heapattach
//!     │                                        ▲                      │
//!     ├── fingerprint (/proc, ELF files) ──────┘                      │
//!     └── command (exit code, report) <───────────────────────────────┘
//! ```
//!
//! Everything has a deadline; what misses it is reported with the state of every thread involved
//! ([`hang`]). What cannot run on a machine says so ([`skip`]) and fails there where `CI` is set.
//!
//! # Running
//!
//! `cargo test -p heapattach-tests` runs ten cycles of each hazard. The soak is the same tests with
//! more cycles, on one thread so that hazards do not share the processors, and if wanted on another
//! binary (which must be built with the feature `faults` for the fault tests):
//!
//! ```text
//! HEAPATTACH_CYCLES=500 cargo test --release -p heapattach-tests -- --nocapture --test-threads=1
//! ```
//!
//! `HEAPATTACH_SEED=N` repeats a run with a printed seed, `HEAPATTACH_UNDER_TEST=PATH` tests that
//! command instead of the one just built. `HEAPATTACH_CELL='Cpp Static'` picks the cells of the
//! [`matrix`] that have these words in their names.

pub mod attached;
pub mod barrage;
pub mod census;
pub mod check;
pub mod command;
pub mod compile;
pub mod deadline;
pub mod fingerprint;
pub mod fixture;
pub mod hang;
pub mod hanging_disk;
pub mod hazard;
pub mod hold;
pub mod json_schema;
pub mod libc_release;
pub mod matrix;
pub mod measure;
pub mod oracle;
pub mod page;
pub mod peers;
pub mod pty;
pub mod real;
pub mod recorded;
pub mod release;
pub mod report;
pub mod sample;
pub mod seed;
pub mod skip;
pub mod survey;
pub mod task;
pub mod toolchain;
pub mod trace;
pub mod truth;
pub mod uprobe;

pub use heapattach_test_folder::Folder;
