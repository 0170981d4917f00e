//! What is answered.

/// A status with its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Here it is.
    Ok,
    /// It is elsewhere.
    SeeOther,
    /// It makes no sense.
    BadRequest,
    /// A token is needed.
    Unauthorized,
    /// Asked by a page of another site.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// It cannot be done to it.
    MethodNotAllowed,
    /// It took too long to say.
    Timeout,
    /// More than is read.
    TooLarge,
    /// Asked under a name that is not ours.
    Misdirected,
    /// More connections than are served, or nothing is known yet.
    Unavailable,
}

impl Status {
    /// Its number and words.
    pub fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::SeeOther => "303 See Other",
            Self::BadRequest => "400 Bad Request",
            Self::Unauthorized => "401 Unauthorized",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::Timeout => "408 Request Timeout",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::Misdirected => "421 Misdirected Request",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

/// Content types.
pub mod kind {
    /// Bytes; some readers of pprof take nothing else.
    pub const BYTES: &str = "application/octet-stream";
    /// Words.
    pub const TEXT: &str = "text/plain; charset=utf-8";
    /// The format of Prometheus.
    pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
    /// The format that followed it.
    pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    /// JSON.
    pub const JSON: &str = "application/json";
    /// A page.
    pub const HTML: &str = "text/html; charset=utf-8";
}

/// An answer as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How it went.
    pub status: Status,
    /// What the body is.
    pub kind: &'static str,
    /// Header lines besides.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A good one.
    pub fn ok(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: Status::Ok, kind, headers: Vec::new(), body: body.into() }
    }

    /// Why not.
    pub fn no(status: Status, why: impl Into<String>) -> Self {
        let body = (why.into() + "\n").into_bytes();
        Self { status, kind: kind::TEXT, headers: Vec::new(), body }
    }

    /// With another header line.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}
