//! What stands for the real one in a command built without it.

use std::time::Duration;

use super::Envelope;
use crate::{address::Address, built_in::not_built_in, reply::Reply, wire::Request};

/// Cannot be had.
#[derive(Debug)]
pub enum Transport {}

impl Transport {
    /// Answers what is missing.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: &Address, _: Option<&[u8]>) -> Result<Self, String> {
        Err(not_built_in())
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn send(&self, _: &Envelope<'_>, _: &Request, _: Duration) -> Result<Reply, String> {
        match *self {}
    }
}
