//! What backends want to be sent, a file a backend.

mod otlp;
mod parca;
mod pyroscope;

use std::hash::{BuildHasher, RandomState};

use crate::{address::Backend, labels::Labels, window::Window};

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the body is.
    pub kind: &'static str,
    /// Whether the body is compressed, as a whole, by gzip.
    pub is_compressed: bool,
    /// The body.
    pub body: Vec<u8>,
}

/// What is sent of a window of a process.
pub fn request(backend: Backend, labels: &Labels, window: &Window<'_>) -> Request {
    match backend {
        Backend::Pyroscope => pyroscope::request(labels, window, &identity()),
        Backend::Parca => parca::request(labels, window),
        Backend::Otlp => otlp::request(labels, window),
    }
}

/// A name that nothing else has, in the form of a UUID of version 4.
fn identity() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    let number = u128::from(random()) << 64 | u128::from(random());
    let hex = format!("{number:032x}");
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_differ_and_have_the_form_of_a_uuid() {
        let (one, other) = (identity(), identity());
        assert_ne!(one, other);
        let lengths: Vec<_> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{one}");
    }
}
