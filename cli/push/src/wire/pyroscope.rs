//! Pyroscope: `push.v1.PushRequest`, one series, one profile with all types.
//!
//! `__delta__` is "false", as one of its versions subtracts else: what was allocated comes as deltas already.

use heapattach_export::protobuf::Message;

use super::Request;
use crate::{
    labels::Labels,
    window::{BOTH, Limits, Window},
};

/// Pyroscope's defaults.
const LIMITS: Limits = Limits { samples: 16_000, bytes: 4 << 20 };

/// A request.
pub fn request(labels: &Labels, window: &Window<'_>, identity: &str) -> Request {
    let mut series = Message::default();
    let labels = labels.clone().with("__name__", "memory").with("__delta__", "false");
    for (name, value) in labels.iter() {
        let mut label = Message::default();
        label.bytes(1, name.as_bytes());
        label.bytes(2, value.as_bytes());
        series.message(1, &label);
    }
    let mut sample = Message::default();
    sample.bytes(1, &window.pprof(BOTH, "inuse_space", true, LIMITS));
    sample.bytes(2, identity.as_bytes());
    series.message(2, &sample);
    let mut push = Message::default();
    push.message(1, &series);
    let is_compressed = false;
    Request { kind: "application/proto", is_compressed, body: push.as_bytes().to_vec() }
}
