//! Asks a server over HTTP, as little of it as `heapattach serve` speaks: one question a connection. What comes
//! back is hostile: bounded in bytes and time.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

/// A server that does not answer for so long does not answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// An answer is not longer.
const MOST: u64 = 5 << 20;
/// Where a server listens unless that is said.
const PORT: u16 = 7070;

/// Whom to ask, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `127.0.0.1:7070`.
    pub host: String,
    /// What stands behind it; without a slash at its end.
    pub path: String,
    /// What the server wants to be told.
    pub token: Option<String>,
    /// Where its socket is, if it has none of TCP.
    pub socket: Option<PathBuf>,
}

/// A connection.
trait Connection: Read + Write {}

impl<C: Read + Write> Connection for C {}

/// An answer that says that all is well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    headers: Vec<(String, String)>,
    /// What it says.
    pub body: Vec<u8>,
}

impl Address {
    /// As it is typed: `http://127.0.0.1:7070`, `http://SECRET@HOST/p/4711`, `unix:/run/heap.sock`.
    pub fn parse(text: &str, token: Option<&str>) -> Option<Self> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            let (host, path, token) =
                ("localhost".to_owned(), path.into(), token.map(str::to_owned));
            return Some(Self { host, path: String::new(), token, socket: Some(path) });
        }
        let rest = text.strip_prefix("http://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (own, host) = match authority.rsplit_once('@') {
            Some((own, host)) => (Some(own.trim_end_matches(':')), host),
            None => (None, authority),
        };
        let plain = |text: &str| text.chars().all(|sign| sign.is_ascii_graphic());
        let is_sound = !host.is_empty() && plain(rest);
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if has_port { host.to_owned() } else { format!("{host}:{PORT}") };
        let (path, token) = (path.trim_end_matches('/').to_owned(), own.or(token));
        is_sound.then(|| Self { host, path, token: token.map(str::to_owned), socket: None })
    }

    /// Asks for what is below its path.
    ///
    /// # Errors
    /// In words, if there is no answer or a refusal.
    pub fn get(&self, path: &str) -> Result<Answer, String> {
        let failed = |error: std::io::Error| format!("{} does not answer: {error}", self.name());
        let mut stream = self.connect().map_err(failed)?;
        let token = self.token.as_ref();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let (own, host, token) = (&self.path, &self.host, token.unwrap_or_default());
        let request =
            format!("GET {own}{path} HTTP/1.1\r\nHost: {host}\r\n{token}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut bytes = Vec::new();
        stream.take(MOST).read_to_end(&mut bytes).map_err(failed)?;
        answer(&bytes).map_err(|why| format!("{}: {why}", self.name()))
    }

    /// As it is told.
    pub fn name(&self) -> String {
        match &self.socket {
            Some(path) => format!("unix:{}", path.display()),
            None => format!("http://{}", self.host),
        }
    }

    fn connect(&self) -> io::Result<Box<dyn Connection>> {
        if let Some(path) = &self.socket {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            return Ok(Box::new(stream));
        }
        let unknown = || io::Error::other("there is no such host");
        let at = self.host.to_socket_addrs()?.next().ok_or_else(unknown)?;
        let stream = TcpStream::connect_timeout(&at, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Box::new(stream))
    }
}

impl Answer {
    /// The value of a header line.
    pub fn header(&self, name: &str) -> Option<&str> {
        let is_it = |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        self.headers.iter().find(is_it).map(|(_, value)| value.as_str())
    }
}

fn answer(bytes: &[u8]) -> Result<Answer, String> {
    let no = || "the answer is not valid HTTP".to_owned();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(no)?;
    let head = str::from_utf8(&bytes[..end]).map_err(|_| no())?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).ok_or_else(no)?;
    let body = bytes[end + 4..].to_vec();
    if !status.starts_with("200 ") {
        let why: String = String::from_utf8_lossy(&body).chars().take(200).collect();
        return Err(format!("{status}: {}", why.trim()));
    }
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let headers: Vec<_> = lines.filter_map(header).collect();
    let answer = Answer { headers, body };
    let length = answer.header("Content-Length").and_then(|length| length.parse::<usize>().ok());
    match length {
        Some(length) if length != answer.body.len() => Err("the answer was cut off".to_owned()),
        _ => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_are_more_than_an_answer_or_an_error(bytes in prop::collection::vec(0..128_u8, 0..200)) {
            let head = b"HTTP/1.1 200 OK\r\n";
            let _ = (answer(&bytes), answer(&[head, &bytes[..]].concat()));
        }
    }

    #[test]
    fn an_address_has_a_host_a_path_and_perhaps_a_secret() {
        let parsed = |text| Address::parse(text, None);
        let plain = parsed("http://localhost/").unwrap();
        assert_eq!((plain.host.as_str(), plain.path.as_str()), ("localhost:7070", ""));
        let whole = parsed("http://secret@10.0.0.1:80/p/4711").unwrap();
        assert_eq!((whole.host.as_str(), whole.path.as_str()), ("10.0.0.1:80", "/p/4711"));
        assert_eq!(whole.token.as_deref(), Some("secret"));
        assert_eq!(parsed("http://"), None);
        assert_eq!(parsed("http://a\r\nb"), None);
        assert_eq!(parsed("ftp://a"), None);
        let socket = parsed("unix:/run/heap.sock").unwrap();
        assert_eq!(socket.socket.as_deref(), Some("/run/heap.sock".as_ref()));
        assert_eq!(socket.name(), "unix:/run/heap.sock");
    }

    #[test]
    fn an_answer_is_taken_only_if_it_is_whole_and_good() {
        let whole = answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nhi").unwrap();
        assert_eq!((whole.body.as_slice(), whole.header("x-a")), (&b"hi"[..], Some("b")));
        let cut = answer(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi").unwrap_err();
        assert!(cut.contains("cut off"), "{cut}");
        let no = answer(b"HTTP/1.1 403 Forbidden\r\n\r\nno\n").unwrap_err();
        assert_eq!(no, "403 Forbidden: no");
        assert!(answer(b"").is_err() && answer(b"\xff\r\n\r\n").is_err());
    }
}
