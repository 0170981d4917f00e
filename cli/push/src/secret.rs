//! What opens a backend: read from a file, sent as a header line, shown nowhere.

use std::fmt;

/// A token is not longer.
pub const LONGEST: u64 = 4096;

/// A token, or a user with a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    text: String,
    header: String,
}

impl Secret {
    /// Out of the text of a file. With a colon it is `USER:PASSWORD`: no token has one.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub fn of(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("it is empty; need a token, or USER:PASSWORD".to_owned());
        }
        if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err("need one line of letters, digits and signs".to_owned());
        }
        let header = match text.contains(':') {
            true => format!("Basic {}", base64(text.as_bytes())),
            false => format!("Bearer {text}"),
        };
        Ok(Self { text: text.to_owned(), header })
    }

    /// The value of `Authorization`.
    pub fn header(&self) -> &str {
        &self.header
    }

    /// A text without it, whatever a backend sends back.
    pub fn hide_in(&self, text: &str) -> String {
        let password = self.text.split_once(':').map_or("", |(_, password)| password);
        let encoded = self.header.split_once(' ').map_or("", |(_, encoded)| encoded);
        let parts = [self.text.as_str(), encoded, password];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.fold(text.to_owned(), |text, part| text.replace(part, "***"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// As RFC 4648 has it.
pub fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let number = part.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let number = number << (8 * (3 - part.len()));
        for place in 0..4 {
            let sign = (number >> (18 - 6 * place)) & 63;
            out.push(if place > part.len() { '=' } else { char::from(SIGNS[sign as usize]) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn tokens_are_sent_as_such_and_users_with_their_passwords() {
        assert_eq!(Secret::of("abc.def\n").unwrap().header(), "Bearer abc.def");
        assert_eq!(Secret::of("a:b").unwrap().header(), "Basic YTpi");
        for wrong in ["", "\n", "a\nb", "ä"] {
            assert!(Secret::of(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_a_backend_repeats_is_hidden() {
        let secret = Secret::of("user:geheim").unwrap();
        let told = secret.hide_in("no user:geheim, Basic dXNlcjpnZWhlaW0=, geheim");
        assert_eq!(told, "no ***, Basic ***, ***");
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
