//! What happens to a recording, as it happens, for a page that shows it: server-sent events.
//!
//! ```text
//! changed                        there is more than was told last
//! quiet {"seconds":, "has_writer":}   there is not; whether a process has the recording open, if that is known
//! end                            there will be no more: the reader takes what came last, and goes
//! ```

use std::{
    io::{self, Read, Write},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{listen::Stream, page_source::FileState, stop::Stop, target::Target};

/// Between two looks at the file.
const PERIOD: Duration = Duration::from_millis(500);
/// So often it is said that nothing is new.
const QUIET: Duration = Duration::from_secs(5);
/// So long a reader may take what came last.
pub const LAST: Duration = Duration::from_secs(5);

/// Writes events until the reader goes, or all is over.
pub fn stream(stream: &mut Stream, target: &Target, stop: &Stop) {
    // A reader that is gone is none.
    let _ = tell(stream, target, stop);
}

fn tell(stream: &mut Stream, target: &Target, stop: &Stop) -> io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
          X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
    )?;
    let (mut known, mut since, mut told) = (None, Instant::now(), Instant::now());
    while !stop.is_closing() && !target.is_over() {
        let now = FileState::of(target.path());
        if now.is_some() && now != known {
            (known, since, told) = (now, Instant::now(), Instant::now());
            event(stream, "changed", "{}")?;
        } else if told.elapsed() >= QUIET {
            told = Instant::now();
            let has_writer = target.has_writer();
            let about = json!({ "seconds": since.elapsed().as_secs(), "has_writer": has_writer });
            event(stream, "quiet", &about.to_string())?;
        }
        stop.wait_closing(PERIOD);
    }
    event(stream, "end", "{}")?;
    stream.set_timeouts(LAST, LAST);
    stream.read(&mut [0]).map(drop)
}

fn event(stream: &mut Stream, name: &str, data: &str) -> io::Result<()> {
    stream.write_all(format!("event: {name}\ndata: {data}\n\n").as_bytes())?;
    stream.flush()
}
