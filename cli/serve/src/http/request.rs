//! A request, out of bytes that may be anything.

use super::Query;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Tell.
    Get,
    /// Tell how it would be told.
    Head,
    /// Look up what is in the body.
    Post,
    /// Something else.
    Other,
}

/// The head of a request, and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub method: Method,
    /// To what: the path, as it came.
    pub path: String,
    /// With which parameters.
    pub query: Query,
    headers: Vec<(String, String)>,
    /// What came behind.
    pub body: Vec<u8>,
}

impl Request {
    /// Out of the head, without the empty line at its end; `None` if it is none.
    pub fn parse(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
            return None;
        }
        let method = match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            _ => Method::Other,
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !path.starts_with('/') {
            return None;
        }
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
            is_name.then(|| (name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers = lines.map(header).collect::<Option<Vec<_>>>()?;
        Some(Self {
            method,
            path: path.to_owned(),
            query: Query::of(query),
            headers,
            body: Vec::new(),
        })
    }

    /// The values of a header line, by its name in small letters.
    pub fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.headers.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }

    /// How long the body is; `None` if that is not said, or not in one way.
    pub fn length(&self) -> Option<usize> {
        let mut lengths = self.header("content-length").map(|text| text.parse().ok());
        match (lengths.next(), lengths.next(), self.header("transfer-encoding").next()) {
            (None, _, None) => Some(0),
            (Some(Some(length)), None, None) => Some(length),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_method_a_path_and_headers() {
        let head = b"GET /debug/pprof/heap?seconds=5 HTTP/1.1\r\nHost: localhost:1\r\nX:y";
        let request = Request::parse(head).unwrap();
        assert_eq!((request.method, request.path.as_str()), (Method::Get, "/debug/pprof/heap"));
        assert_eq!(request.query.get("seconds"), Some("5"));
        assert_eq!(request.header("host").collect::<Vec<_>>(), ["localhost:1"]);
        assert_eq!(request.length(), Some(0));
    }

    #[test]
    fn what_is_none_is_refused() {
        let heads: [&[u8]; 7] = [
            b"",
            b"GET",
            b"GET / HTTP/2",
            b"GET / HTTP/1.1 x",
            b"GET x HTTP/1.1",
            b"GET / HTTP/1.1\r\nno colon",
            b"GET /\xff HTTP/1.1",
        ];
        for head in heads {
            assert_eq!(Request::parse(head), None, "{}", String::from_utf8_lossy(head));
        }
        let twice = b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1";
        let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked";
        for head in [&twice[..], chunked] {
            assert_eq!(Request::parse(head).unwrap().length(), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn bytes_are_no_panic(head in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let mut whole = b"GET / HTTP/1.1\r\n".to_vec();
            let _ = Request::parse(&head);
            whole.extend(head);
            let _ = Request::parse(&whole).map(|request| request.length());
        }
    }
}
