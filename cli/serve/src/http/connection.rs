//! Bytes in and out of a connection, within bounds of size and time.

use std::{
    io::{self, Read, Write},
    time::{Duration, Instant},
};

use super::{Method, Request};
use crate::{
    answer::{Answer, Status},
    listen::Stream,
};

/// The head of a request is not longer.
const MOST_HEAD: usize = 8 << 10;
/// Nor is the body: some thousand addresses.
const MOST_BODY: usize = 1 << 20;
/// A request comes whole within this.
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer is taken as slowly as this, at most.
const TAKING: Duration = Duration::from_secs(30);

/// Reads a request; what to answer if there is none.
pub fn read(stream: &mut Stream) -> Result<Request, Answer> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() >= MOST_HEAD {
            return Err(Answer::no(Status::TooLarge, "more than 8 KiB of header lines"));
        }
        more(stream, &mut bytes, MOST_HEAD, until)?;
    };
    let bad = || Answer::no(Status::BadRequest, "this is not a valid request");
    let mut request = bytes.get(..end).and_then(Request::parse).ok_or_else(bad)?;
    let length = request.length().ok_or_else(bad)?;
    if length > MOST_BODY {
        return Err(Answer::no(Status::TooLarge, "more than 1 MiB of a body"));
    }
    let whole = end + 4 + length;
    while bytes.len() < whole {
        more(stream, &mut bytes, whole, until)?;
    }
    request.body = bytes[end + 4..whole].to_vec();
    Ok(request)
}

/// Reads what comes next, up to so many bytes in all.
fn more(
    stream: &mut Stream,
    bytes: &mut Vec<u8>,
    most: usize,
    until: Instant,
) -> Result<(), Answer> {
    let late = || Answer::no(Status::Timeout, "a request has 10 s");
    let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    stream.set_timeouts(left.ok_or_else(late)?, TAKING);
    let mut buffer = [0; 4096];
    let room = buffer.len().min(most.saturating_sub(bytes.len()).max(1));
    match stream.read(&mut buffer[..room]) {
        Ok(0) => Err(Answer::no(Status::BadRequest, "the request ends in its middle")),
        Ok(read) => {
            bytes.extend(&buffer[..read]);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(_) => Err(late()),
    }
}

/// Writes an answer, without its body if only the head was asked for.
///
/// # Errors
/// Those of the connection.
pub fn answer(stream: &mut Stream, answer: &Answer, method: Method) -> io::Result<()> {
    let Answer { status, kind, headers, body } = answer;
    let mut head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
        status.line(),
        body.len()
    );
    for (name, value) in headers {
        let value: String = value.chars().filter(|sign| !sign.is_control()).collect();
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    stream.write_all(head.as_bytes())?;
    if method != Method::Head {
        stream.write_all(body)?;
    }
    stream.flush()
}
