//! What happens, as it happens: server-sent events, one a second.

use std::{io::Write, time::Duration};

use heapattach_ledger::Metric;
use serde_json::json;

use crate::{listen::Stream, stop::Stop, target::Target};

/// Between two events.
const PERIOD: Duration = Duration::from_secs(1);

/// Writes events until the reader goes, or all is over.
pub fn stream(stream: &mut Stream, target: &Target, stop: &Stop) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
                Connection: close\r\n\r\n";
    if stream.write_all(head.as_bytes()).is_err() {
        return;
    }
    while !stop.is_closing() && !target.is_over() {
        let event = target.ledger().map(|ledger| {
            let total = |metric| ledger.total.measure(metric).bytes.value;
            let moment = ledger.moments.last();
            json!({
                "at_ms": ledger.about.lasted_ms.max(moment.map_or(0, |moment| moment.at_ms)),
                "live": total(Metric::Live),
                "allocated": total(Metric::Allocated),
                "mapped_live": ledger.total.mapped_live,
                "resident": moment.and_then(|moment| moment.rss),
                "marks": target.marks().len(),
            })
        });
        let text =
            event.map_or_else(|_| ": nothing yet\n\n".to_owned(), |e| format!("data: {e}\n\n"));
        if stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).is_err() {
            return;
        }
        stop.wait_closing(PERIOD);
    }
}
