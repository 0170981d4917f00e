//! What stands behind the question mark.

/// Names and values, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Of a text like `seconds=5&debug=1`.
    pub fn of(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let decode = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        Self(pairs.map(decode).collect())
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A whole number; `None` if it is not there, or the value as it is if it is none.
    pub fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let value = self.get(name).map(|value| value.parse().map_err(|_| value.to_owned()));
        value.transpose()
    }
}

/// With `%41` and `+` as what they stand for; what is no such thing stays.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|_| byte == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                out.push(code);
                at += 3;
            }
            None => {
                out.push(if byte == b'+' { b' ' } else { byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_values() {
        let query = Query::of("seconds=5&debug&name=a%20b+c%2&x=%zz");
        assert_eq!(query.number("seconds"), Ok(Some(5)));
        assert_eq!(query.number("none"), Ok(None));
        assert_eq!(query.number("name"), Err("a b c%2".to_owned()));
        assert_eq!((query.get("debug"), query.get("x")), (Some(""), Some("%zz")));
    }
}
