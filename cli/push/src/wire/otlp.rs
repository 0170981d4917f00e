//! OpenTelemetry: `ExportProfilesServiceRequest`, four profiles of one value each.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use heapattach_export::otlp::{SentRows, request_rows};

use super::Request;
use crate::{fold::fold, labels::Labels, window::Window};

/// A collector takes 20 MiB by default.
const BYTES: usize = 16 << 20;
const SAMPLES: usize = 100_000;

/// A request.
pub fn request(labels: &Labels, window: &Window<'_>) -> Request {
    // The names that its conventions have for ours; the process is told by its number anyway.
    let labels = labels.iter().filter_map(|(name, value)| match name {
        "service_name" => Some(("service.name", value)),
        "hostname" => Some(("host.name", value)),
        "pid" => None,
        name => Some((name, value)),
    });
    let labels: Vec<_> = labels.collect();
    let Window { ledger, rows, time_nanos, duration_nanos, names, .. } = *window;
    let mut most = SAMPLES;
    loop {
        let (rows, _) = fold(rows.to_vec(), most);
        let began_ns = time_nanos.saturating_sub(duration_nanos);
        let sent = SentRows { ledger, rows: &rows, began_ns, lasted_ns: duration_nanos, names };
        let body = request_rows(&sent, &labels);
        if body.len() <= BYTES || rows.len() <= 1 {
            return Request {
                kind: "application/x-protobuf",
                is_compressed: true,
                body: compressed(&body),
            };
        }
        most = rows.len() / 2;
    }
}

fn compressed(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // To memory: nothing can go wrong.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}
