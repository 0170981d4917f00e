//! Secrets that cannot be guessed.

use std::{fmt::Write, fs::File, io::Read};

use heapattach_serve::Token;

/// A new one, and its text; `None` if the system has no random numbers.
pub fn new() -> Option<(Token, String)> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).ok()?;
    let text = bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    Some((Token::of(&text)?, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_another() {
        let [(_, a), (_, b)] = [new().unwrap(), new().unwrap()];
        assert!(a != b && a.len() == 32 && a.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
