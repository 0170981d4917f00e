//! Which proxy a request goes through, as `curl(1)` takes it from the environment.

use ureq::{Proxy, http::Uri};

use crate::address::Address;

/// The proxy of an address.
///
/// # Errors
/// If a variable names what is not a proxy; its value is not repeated, it may hold a password.
pub fn of(
    address: &Address,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, String> {
    // Of HTTP_PROXY in capitals programs that answer requests beware: a header line could set it. No request sets
    // our environment.
    let names = match address.is_secret {
        true => ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        false => ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let value = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let Some((name, url)) = names.into_iter().find_map(|name| Some((name, value(name)?))) else {
        return Ok(None);
    };
    let exceptions = value("no_proxy").or_else(|| value("NO_PROXY")).unwrap_or_default();
    if is_excepted(address.host(), &exceptions) {
        return Ok(None);
    }
    let proxy = Proxy::new(url.trim()).ok().filter(|proxy| {
        // SOCKS would need another feature of the library.
        Proxy::uri(proxy).host().is_some() && is_http(proxy.uri())
    });
    let why = || format!("{name} does not name a proxy of http or https");
    proxy.map(Some).ok_or_else(why)
}

fn is_http(uri: &Uri) -> bool {
    matches!(uri.scheme_str(), None | Some("http" | "https"))
}

/// Whether a host is named in a list of hosts and domains.
fn is_excepted(host: &str, list: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    list.split([',', ' ']).map(|word| word.trim().to_ascii_lowercase()).any(|word| {
        let word = word.trim_start_matches('.').trim_start_matches('[').trim_end_matches(']');
        let is_below = || host.strip_suffix(word).is_some_and(|rest| rest.ends_with('.'));
        word == "*" || !word.is_empty() && (host == word || is_below())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(address: &str, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let address = Address::parse(address).unwrap();
        let variable = |name: &str| {
            let found = variables.iter().find(|one| one.0 == name);
            found.map(|one| one.1.to_owned())
        };
        Ok(of(&address, variable)?.map(|proxy| format!("{}:{}", proxy.host(), proxy.port())))
    }

    #[test]
    fn secret_and_open_ways_have_proxies_of_their_own() {
        let both = [("https_proxy", "http://s:1"), ("HTTP_PROXY", "h:2")];
        assert_eq!(proxy("parca+https://a.example", &both), Ok(Some("s:1".to_owned())));
        assert_eq!(proxy("parca+http://a.example", &both), Ok(Some("h:2".to_owned())));
        assert_eq!(proxy("parca+http://a.example", &both[..1]), Ok(None));
        assert_eq!(
            proxy("parca+http://a", &[("ALL_PROXY", "http://x:3")]),
            Ok(Some("x:3".to_owned()))
        );
    }

    #[test]
    fn excepted_hosts_are_gone_to_directly() {
        for (host, list, is_excepted) in [
            ("a.example", "example", true),
            ("a.example", ".example,b", true),
            ("aexample", "example", false),
            ("127.0.0.1", "localhost, 127.0.0.1", true),
            ("[::1]", "::1", true),
            ("a", "*", true),
            ("a", "", false),
        ] {
            assert_eq!(super::is_excepted(host, list), is_excepted, "{host} {list}");
        }
    }

    #[test]
    fn what_is_not_a_proxy_is_told_without_its_password() {
        let why = proxy("parca+http://a", &[("http_proxy", "socks5://me:geheim@x:1")]).unwrap_err();
        assert!(why.starts_with("http_proxy ") && !why.contains("geheim"), "{why}");
    }
}
