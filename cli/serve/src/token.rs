//! A secret, and how it is compared.

/// The secret that a reader has to know.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Of a text, without the white space around it; `None` if it is too short to be one.
    pub fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        (text.len() >= 16).then(|| Self(text.to_owned()))
    }

    /// Compares as long for a wrong one as for the right one.
    pub fn is(&self, other: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), other.as_bytes());
        let differences = own
            .iter()
            .enumerate()
            .fold(0, |all, (index, byte)| all | (byte ^ other.get(index).copied().unwrap_or(0)));
        own.len() == other.len() && differences == 0
    }

    /// What it is.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}
