//! As much of HTTP/1.1 as is needed: one request a connection, answered and closed.

mod connection;
mod query;
mod request;

pub use connection::{answer, read};
pub use query::Query;
pub use request::{Method, Request};
