//! What a series is called: names with values.

use std::collections::BTreeMap;

/// Pyroscope takes no more by default.
pub const MOST: usize = 30;
/// Pyroscope takes no longer names and values by default.
const LONGEST_NAME: usize = 1024;
const LONGEST_VALUE: usize = 2048;

/// A label of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Letters, digits, underscores.
    pub name: String,
    /// Anything; empty: no such label, if it is one of ours.
    pub value: String,
}

impl Label {
    /// Out of `NAME=VALUE`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("need NAME=VALUE")?;
        let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let is_name = name.bytes().next().is_some_and(is_letter)
            && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit());
        if !is_name || name.len() > LONGEST_NAME {
            return Err(format!(
                "`{name}` is not the name of a label; need letters, digits, underscores"
            ));
        }
        if name.starts_with("__") {
            return Err(format!("`{name}` is a name of the backends' own"));
        }
        if value.len() > LONGEST_VALUE {
            return Err(format!("the value of `{name}` is longer than {LONGEST_VALUE} bytes"));
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// The labels of a process's series, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Those that every process has, and the user's, which replace them; an empty value leaves one out.
    pub fn new(service: &str, pid: i32, host: &str, users: &[Label]) -> Self {
        let own = [
            ("service_name", if service.is_empty() { "unknown" } else { service }.to_owned()),
            ("pid", pid.to_string()),
            ("hostname", host.to_owned()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        let users = users.iter().map(|label| (label.name.clone(), label.value.clone()));
        let mut all: BTreeMap<_, _> = own.chain(users).collect();
        all.retain(|_, value| !value.is_empty());
        Self(all)
    }

    /// With a label that a backend wants.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Whether so many labels of the user's are taken, with ours and those that a backend wants.
///
/// # Errors
/// If they are not.
pub fn check(users: &[Label]) -> Result<(), String> {
    let all = Labels::new("x", 1, "x", users).with("__name__", "").with("__delta__", "");
    match all.iter().len() {
        number if number > MOST => Err(format!(
            "{number} labels, with those that are always sent; at most {MOST} are taken"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_the_user_replace_ours_and_leave_them_out() {
        let users =
            ["service_name=shop", "hostname=", "zone=a=b"].map(|text| Label::parse(text).unwrap());
        let labels = Labels::new("nginx", 7, "box", &users);
        let all: Vec<_> = labels.iter().collect();
        assert_eq!(all, [("pid", "7"), ("service_name", "shop"), ("zone", "a=b")]);
    }

    #[test]
    fn names_that_no_backend_takes_are_refused() {
        for wrong in ["a", "=b", "1a=b", "a-b=c", "__name__=x", "ä=b"] {
            assert!(Label::parse(wrong).is_err(), "{wrong}");
        }
        let many: Vec<_> = (0..28).map(|at| Label::parse(&format!("l{at}=x")).unwrap()).collect();
        assert!(check(&many).is_err() && check(&many[..25]).is_ok());
    }
}
