//! Who may ask: looked at before anything else.
//!
//! On an address of this machine alone the name that was asked for must be one of this machine's: a page of
//! another site that has its name lead here ("DNS rebinding") does not know it. Elsewhere a token is needed.

use std::sync::Arc;

use crate::{
    answer::{Answer, Status},
    http::Request,
    link::Link,
    token::Token,
};

/// Who is let in.
#[derive(Clone, Debug, Default)]
pub struct Door {
    /// Names besides those of this machine.
    pub hosts: Vec<String>,
    /// What is to be known, if anything.
    pub token: Option<Token>,
    /// How a browser comes to know it.
    pub link: Option<Arc<Link>>,
    /// Whether others than this machine can ask: then every name is right, and a token is needed.
    pub is_public: bool,
}

impl Door {
    /// What to answer instead, if the request is not let in, or comes by the link and goes on without it.
    pub fn refusal(&self, request: &Request, is_private: bool) -> Option<Answer> {
        if !is_private && !self.is_public && !self.knows_host(request) {
            let why = "asked under a name that is not this machine's; see --allow-host";
            return Some(Answer::no(Status::Misdirected, why));
        }
        let is_own = |origin: &str| {
            let host = origin.split_once("://").map_or(origin, |(_, host)| host);
            request.header("host").next() == Some(host)
        };
        if !request.header("origin").all(is_own)
            || request.header("sec-fetch-site").any(|site| site == "cross-site")
        {
            return Some(Answer::no(Status::Forbidden, "asked by a page of another site"));
        }
        if let Some(entry) = self.link.as_ref().and_then(|link| link.entry(request)) {
            return Some(entry);
        }
        let token = self.token.as_ref()?;
        let cookies = self.link.iter().flat_map(|link| link.told(request));
        if told(request).any(|other| token.is(&other)) || cookies.into_iter().any(|c| token.is(c)) {
            return None;
        }
        if self.link.is_some() {
            let why = "need the link that heapattach printed; the one that opened a browser leads in once";
            return Some(Answer::no(Status::Unauthorized, why));
        }
        let no = Answer::no(Status::Unauthorized, "need the token of --token-file");
        Some(no.with("WWW-Authenticate", "Basic realm=\"heapattach\""))
    }

    fn knows_host(&self, request: &Request) -> bool {
        let mut hosts = request.header("host");
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let own = ["localhost", "127.0.0.1", "[::1]"];
        own.iter().any(|own| own.eq_ignore_ascii_case(name))
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Tokens that come with a request: as they are, or as the password, or the name, of a user.
fn told(request: &Request) -> impl Iterator<Item = String> {
    request.header("authorization").flat_map(|value| {
        let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return vec![rest.to_owned()];
        }
        let text = base64(rest).filter(|_| scheme.eq_ignore_ascii_case("basic"));
        let text = text.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let (name, password) = text.split_once(':').unwrap_or((&text, ""));
        vec![name.to_owned(), password.to_owned()]
    })
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut out, mut bits, mut have) = (Vec::new(), 0_u32, 0);
    for sign in text.trim_end_matches('=').bytes() {
        let value = match sign {
            b'A'..=b'Z' => sign - b'A',
            b'a'..=b'z' => sign - b'a' + 26,
            b'0'..=b'9' => sign - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have).to_le_bytes()[0]);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(lines: &str) -> Request {
        Request::parse(format!("GET / HTTP/1.1\r\n{lines}").as_bytes()).unwrap()
    }

    fn status(door: &Door, lines: &str) -> Option<Status> {
        door.refusal(&asked(lines), false).map(|answer| answer.status)
    }

    #[test]
    fn only_names_of_this_machine_lead_in() {
        let door = Door { hosts: vec!["Box.lan".to_owned()], ..Door::default() };
        for own in ["localhost:7070", "127.0.0.1", "[::1]:80", "[::1]", "LOCALHOST", "box.lan:1"] {
            assert_eq!(status(&door, &format!("Host: {own}")), None, "{own}");
        }
        for other in ["evil.example:7070", "localhost.evil", "", "::1", "box.lan.evil:1"] {
            let status = status(&door, &format!("Host: {other}"));
            assert_eq!(status, Some(Status::Misdirected), "{other}");
        }
        assert_eq!(status(&door, "Host: localhost\r\nHost: evil"), Some(Status::Misdirected));
        assert!(door.refusal(&asked("Host: x"), true).is_none(), "a socket has no name");
    }

    #[test]
    fn pages_of_other_sites_are_shown_the_door() {
        let door = Door::default();
        let host = "Host: localhost:1\r\n";
        assert_eq!(status(&door, &format!("{host}Origin: http://localhost:1")), None);
        for line in [
            "Origin: http://localhost:2",
            "Origin: null",
            "Origin: http://evil.example",
            "Sec-Fetch-Site: cross-site",
        ] {
            assert_eq!(status(&door, &format!("{host}{line}")), Some(Status::Forbidden), "{line}");
        }
    }

    #[test]
    fn a_token_comes_in_three_ways() {
        let token = Token::of(" 0123456789abcdef\n");
        assert!(Token::of("short").is_none());
        let door = Door { token, is_public: true, ..Door::default() };
        for line in [
            "Authorization: Bearer 0123456789abcdef",
            "Authorization: basic MDEyMzQ1Njc4OWFiY2RlZjo=",
            "Authorization: Basic eDowMTIzNDU2Nzg5YWJjZGVm",
        ] {
            assert_eq!(status(&door, line), None, "{line}");
        }
        for line in ["X: y", "Authorization: Bearer 0123456789abcdeg", "Authorization: Basic !"] {
            assert_eq!(status(&door, line), Some(Status::Unauthorized), "{line}");
        }
    }
}
