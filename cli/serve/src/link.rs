//! The way in for a browser: a link with a secret, that becomes a cookie of this server alone.
//!
//! ```text
//! GET /?token=SECRET  ->  303 /, Set-Cookie: NAME=TOKEN; HttpOnly; SameSite=Strict
//! ```
//!
//! The secret leaves the address at once. One that others may have read meanwhile, in the arguments of the
//! program that opens the browser, leads in once.

use std::sync::{Mutex, PoisonError};

use crate::{
    answer::{Answer, Status},
    http::{Method, Request},
    token::Token,
};

/// A link.
#[derive(Debug)]
pub struct Link {
    token: Token,
    once: Mutex<Option<Token>>,
    /// Cookies are those of all ports of a machine: the name tells servers apart.
    cookie: String,
}

impl Link {
    /// By `token` as often as wanted, by `once` a single time; `server` is a name that no other server of this
    /// machine has.
    pub fn new(token: Token, once: Option<Token>, server: &str) -> Self {
        Self { token, once: Mutex::new(once), cookie: format!("heapattach-{server}") }
    }

    /// What is answered to a browser that follows the link.
    pub fn entry(&self, request: &Request) -> Option<Answer> {
        let told = request.query.get("token").filter(|_| request.method == Method::Get)?;
        if !self.token.is(told) && !self.is_first(told) {
            return None;
        }
        // A path with two slashes would be that of another server.
        let path = format!("/{}", request.path.trim_start_matches(['/', '\\']));
        let Self { token, cookie, .. } = self;
        let cookie = format!("{cookie}={}; Path=/; HttpOnly; SameSite=Strict", token.text());
        let answer = Answer::no(Status::SeeOther, "the page is at the address without the token");
        Some(answer.with("Location", path).with("Set-Cookie", cookie))
    }

    /// The token that a browser was given.
    pub fn told<'r>(&self, request: &'r Request) -> impl Iterator<Item = &'r str> {
        let pairs = request.header("cookie").flat_map(|value| value.split(';'));
        pairs.filter_map(move |pair| {
            let (name, value) = pair.split_once('=')?;
            (name.trim() == self.cookie).then(|| value.trim())
        })
    }

    fn is_first(&self, told: &str) -> bool {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        once.take_if(|once| once.is(told)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(head: &str) -> Request {
        Request::parse(head.as_bytes()).unwrap()
    }

    fn link() -> Link {
        let token = |letter: &str| Token::of(&letter.repeat(16)).unwrap();
        Link::new(token("a"), Some(token("b")), "7070")
    }

    fn header(answer: &Answer, name: &str) -> String {
        let found = answer.headers.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }

    #[test]
    fn the_link_becomes_a_cookie_and_leaves_the_address() {
        let answer = link().entry(&asked("GET /?token=aaaaaaaaaaaaaaaa HTTP/1.1")).unwrap();
        assert_eq!((answer.status, header(&answer, "Location").as_str()), (Status::SeeOther, "/"));
        let cookie = header(&answer, "Set-Cookie");
        assert_eq!(cookie, "heapattach-7070=aaaaaaaaaaaaaaaa; Path=/; HttpOnly; SameSite=Strict");
        let request = asked("GET / HTTP/1.1\r\nCookie: x=1; heapattach-7070=abc;heapattach-1=d");
        assert_eq!(link().told(&request).collect::<Vec<_>>(), ["abc"]);
    }

    #[test]
    fn one_of_the_secrets_leads_in_once_and_another_never() {
        let link = link();
        let once = asked("GET /?token=bbbbbbbbbbbbbbbb HTTP/1.1");
        assert!(link.entry(&once).is_some() && link.entry(&once).is_none());
        for head in [
            "GET / HTTP/1.1",
            "GET /?token= HTTP/1.1",
            "GET /?token=cccccccccccccccc HTTP/1.1",
            "POST /?token=aaaaaaaaaaaaaaaa HTTP/1.1",
        ] {
            assert!(link.entry(&asked(head)).is_none(), "{head}");
        }
    }

    #[test]
    fn it_leads_to_no_other_server() {
        for path in ["//evil.example/", "/\\evil.example/", "/\\/evil.example/"] {
            let answer =
                link().entry(&asked(&format!("GET {path}?token=aaaaaaaaaaaaaaaa HTTP/1.1")));
            assert_eq!(header(&answer.unwrap(), "Location"), "/evil.example/");
        }
    }
}
