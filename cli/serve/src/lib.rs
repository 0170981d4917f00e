//! The profiles and figures of sessions over HTTP, for those who scrape: pprof's readers, google-pprof,
//! Prometheus and what reads its formats, continuous profilers.
//!
//! ```text
//! recording that grows -> target (one ledger, shared by all who ask) -> route -> answer
//! connection -> request (bounded) -> door (host, origin, token) -> route
//! ```
//!
//! ```
//! use std::{io::{Read, Write}, net::TcpStream, thread, time::Duration};
//! use heapattach_serve::{Address, Door, Listener, Options, Server, Stop, TargetList};
//!
//! let listener = Listener::bind(&Address::parse("127.0.0.1:0")?)?;
//! let (stop, host) = (Stop::default(), listener.url().replace("http://", ""));
//! let options = Options { targets: TargetList::default(), show_args: false, door: Door::default(), figures: None };
//! let server = Server::new(options, stop.clone());
//! let mut answer = String::new();
//! thread::scope(|scope| {
//!     scope.spawn(|| server.run(&listener));
//!     let mut stream = TcpStream::connect(&host).expect("it listens");
//!     write!(stream, "GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("it reads");
//!     stream.read_to_string(&mut answer).expect("it answers");
//!     stop.set();
//! });
//! assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok\n"), "{answer}");
//! # Ok::<(), String>(())
//! ```
//!
//! It knows no process and no command line, and only reads: sessions are others' business, and nothing that
//! comes over HTTP can begin, change or end one. What comes in is hostile: bounded in bytes, time and
//! connections, and never a panic.

mod answer;
mod door;
mod figures;
mod http;
mod link;
mod listen;
mod page_source;
mod routes;
mod server;
mod stop;
mod target;
mod target_list;
mod token;

pub use door::Door;
pub use figures::{Figure, Figures};
pub use link::Link;
pub use listen::{Address, Listener};
pub use page_source::Beside;
pub use server::{Options, Server};
pub use stop::Stop;
pub use target::Target;
pub use target_list::TargetList;
pub use token::Token;
