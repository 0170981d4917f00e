//! How requests go over the wire.

#[cfg(not(feature = "http"))]
mod absent;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod proxy;

#[cfg(not(feature = "http"))]
pub use absent::Transport;
#[cfg(feature = "http")]
pub use http::Transport;

use std::time::Duration;

use crate::secret::Secret;

/// A request may take so long, whatever the other side does.
pub const LONGEST: Duration = Duration::from_secs(30);

/// What goes with every request.
#[derive(Debug)]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "what stands for it sends nothing"))]
pub struct Envelope<'a> {
    /// Where.
    pub url: &'a str,
    /// What opens it.
    pub secret: Option<&'a Secret>,
    /// Whose it is, where one backend has several.
    pub tenant: Option<&'a str>,
}
