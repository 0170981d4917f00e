//! Where profiles are sent, as it is typed: `pyroscope+https://HOST:PORT/PREFIX`.

use std::fmt;

/// What takes the profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Grafana Pyroscope.
    Pyroscope,
    /// Parca.
    Parca,
    /// A collector of OpenTelemetry.
    Otlp,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pyroscope, Self::Parca, Self::Otlp];

    /// What its addresses begin with.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pyroscope => "pyroscope",
            Self::Parca => "parca",
            Self::Otlp => "otlp",
        }
    }

    /// Whether it names code that has none, by addresses and build ids.
    pub fn names_code(self) -> bool {
        match self {
            // By its version and what it was set up for; in others all functions are without names.
            Self::Pyroscope => false,
            Self::Parca | Self::Otlp => true,
        }
    }

    /// Where it takes profiles.
    fn path(self) -> &'static str {
        match self {
            Self::Pyroscope => "/push.v1.PusherService/Push",
            Self::Parca => "/api/profiles/writeraw",
            Self::Otlp => "/v1development/profiles",
        }
    }
}

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// What is there.
    pub backend: Backend,
    /// Whether it is a secret way.
    pub is_secret: bool,
    /// Host and port.
    pub authority: String,
    prefix: String,
}

impl Address {
    /// Out of a text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = "need pyroscope+https://HOST:PORT, parca+... or otlp+..., of https or http";
        let (backend, url) = text.split_once('+').ok_or_else(|| form.to_owned())?;
        let named = Backend::ALL.into_iter().find(|known| known.name() == backend);
        let backend = named.ok_or_else(|| form.to_owned())?;
        let (scheme, rest) = url.split_once("://").ok_or_else(|| form.to_owned())?;
        let is_secret = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(form.to_owned()),
        };
        if rest.contains(['?', '#']) || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("need an address without `?`, `#` and spaces".to_owned());
        }
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            // It is not repeated.
            return Err(
                "a password in an address shows in `ps`; need --push-token-file FILE".to_owned()
            );
        }
        let (host, port) = split_port(authority)?;
        if host.is_empty() || port == Some(0) {
            return Err(form.to_owned());
        }
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        Ok(Self { backend, is_secret, authority: authority.to_owned(), prefix })
    }

    /// Where requests go.
    pub fn url(&self) -> String {
        let Self { authority, prefix, .. } = self;
        format!("{}://{authority}{prefix}{}", self.scheme(), self.backend.path())
    }

    /// The host without its port.
    pub fn host(&self) -> &str {
        split_port(&self.authority).map_or("", |(host, _)| host)
    }

    /// Whether that is this machine by its name.
    pub fn is_local(&self) -> bool {
        let host = self.host();
        host.eq_ignore_ascii_case("localhost") || host.starts_with("127.") || host == "[::1]"
    }

    fn scheme(&self) -> &'static str {
        if self.is_secret { "https" } else { "http" }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backend, authority, prefix, .. } = self;
        write!(f, "{}+{}://{authority}{prefix}", backend.name(), self.scheme())
    }
}

/// Host and port; of an address of version 6 the host is in brackets.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), String> {
    let end = match authority.find(']') {
        Some(end) if authority.starts_with('[') => end + 1,
        Some(_) => return Err(format!("`{authority}` is not a host")),
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, rest) = authority.split_at(end);
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Ok((host, None)),
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            let number = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
            Ok((host, Some(number)))
        }
        _ => Err(format!("`{authority}` is not a host with a port")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_what_is_there_and_how_to_go_there() {
        for (text, url) in [
            ("pyroscope+https://a.example", "https://a.example/push.v1.PusherService/Push"),
            ("pyroscope+http://a:4040/base/", "http://a:4040/base/push.v1.PusherService/Push"),
            ("parca+http://[::1]:7070", "http://[::1]:7070/api/profiles/writeraw"),
            ("otlp+http://a:4318", "http://a:4318/v1development/profiles"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.url(), url);
            assert_eq!(address.to_string(), text.trim_end_matches('/'));
        }
        let local = |text: &str| Address::parse(text).unwrap().is_local();
        assert!(
            local("parca+http://[::1]:1")
                && local("parca+http://localhost")
                && !local("parca+http://a")
        );
    }

    #[test]
    fn passwords_in_addresses_are_refused_and_not_repeated() {
        let why = Address::parse("parca+http://me:geheim@host").unwrap_err();
        assert!(why.contains("--push-token-file") && !why.contains("geheim"), "{why}");
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        for wrong in [
            "",
            "http://a",
            "jaeger+http://a",
            "parca+ftp://a",
            "parca+http://",
            "parca+http://:80",
            "parca+http://a:0",
            "parca+http://a:99999",
            "parca+http://a:x",
            "parca+http://a?b",
            "parca+http://a b",
            "parca+http://a]:1",
            "parca+http://[::1]x",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
