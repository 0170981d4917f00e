//! Profiles of live sessions, sent to who collects them.
//!
//! ```text
//! ledger -> rows -> told (what came since) -> window (as large as is taken) -> wire: a request a backend
//!        every 15 s, in one thread            -> outbox (bounded) -> sender: a thread a backend -> transport
//! ```
//!
//! ```
//! use heapattach_push::{Address, Backend};
//!
//! let address = Address::parse("pyroscope+https://profiles.example:4040")?;
//! assert_eq!(address.backend, Backend::Pyroscope);
//! # Ok::<(), String>(())
//! ```
//!
//! Knows no process, no file but by what it is given, and no command line. No backend is believed: answers are bounded
//! in time and size, and what they say is printable before it is shown. What cannot be sent is counted and told; it
//! never holds a session up. A secret is in no message.

mod address;
mod built_in;
mod fold;
mod http_date;
mod labels;
mod outbox;
mod pusher;
mod reply;
mod secret;
mod sender;
mod told;
mod transport;
mod window;
mod wire;

pub use address::{Address, Backend};
pub use built_in::{IS_BUILT_IN, not_built_in};
pub use labels::{Label, Labels, check as check_labels};
pub use outbox::{Bounds, Counts};
pub use pusher::{Pusher, Source, State, Watch};
pub use secret::{LONGEST as LONGEST_SECRET, Secret};
pub use sender::{Destination, Effects};
