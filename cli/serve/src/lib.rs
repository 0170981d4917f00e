//! The profiles and figures of sessions over HTTP, for those who scrape: pprof's readers, google-pprof,
//! Prometheus and what reads its formats, continuous profilers.
//!
//! ```text
//! recording that grows -> target (one ledger, shared by all who ask) -> route -> answer
//! connection -> request (bounded) -> door (host, origin, token) -> route
//! ```
//!
//! It only reads: sessions are others' business, and nothing that comes over HTTP can begin, change or end
//! one. What comes in is hostile: bounded in bytes, time and connections, and never a panic.

mod answer;
mod door;
mod figures;
mod http;
mod listen;
mod routes;
mod server;
mod target;

pub use door::{Door, Token};
pub use figures::{Figure, Figures};
pub use listen::{Address, Listener};
pub use server::{Options, Server, Stop};
pub use target::Target;
