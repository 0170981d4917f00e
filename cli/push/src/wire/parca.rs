//! Parca: `WriteRawRequest` as JSON, one series with two profiles.
//!
//! Parca takes every type of a profile that has a duration for what happened in that time, and calls it `delta`: what is
//! in use comes in a profile without one.

use heapattach_export::Names;
use serde_json::json;

use super::Request;
use crate::{
    labels::Labels,
    secret::base64,
    window::{ALLOCATED, LIVE, Limits, Window},
};

/// Parca has no limit of its own but that of a request, 64 MiB: two profiles, in base64, stay far below.
const LIMITS: Limits = Limits { samples: 100_000, bytes: 16 << 20 };

/// A request.
pub fn request(labels: &Labels, window: &Window<'_>) -> Request {
    let labels = labels.clone().with("__name__", "memory");
    let labels: Vec<_> =
        labels.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    let live = window.pprof(LIVE, "inuse_space", false, LIMITS);
    let allocated = window.pprof(ALLOCATED, "alloc_space", true, LIMITS);
    let samples = [live, allocated].map(|profile| json!({ "rawProfile": base64(&profile) }));
    let series = json!({ "labels": { "labels": labels }, "samples": samples });
    // It looks names up by addresses as they come: these are those of the file then.
    let is_normalized = window.names == Names::ByServer;
    let body = json!({ "series": [series], "normalized": is_normalized }).to_string().into_bytes();
    Request { kind: "application/json", is_compressed: false, body }
}
