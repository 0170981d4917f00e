//! Texts that many frames share: each is made once.

use std::{collections::HashMap, sync::Arc};

/// How much of it is kept; what is used elsewhere stays there.
const BYTES_LIMIT: usize = 64 << 20;

/// Texts by what they were made of.
#[derive(Debug, Default)]
pub struct Names {
    made: HashMap<Box<[u8]>, Arc<str>>,
    bytes: usize,
}

impl Names {
    /// What `make` makes of `raw`, or made of it before.
    pub fn get(&mut self, raw: &[u8], make: impl FnOnce(&[u8]) -> String) -> Arc<str> {
        if let Some(made) = self.made.get(raw) {
            return Arc::clone(made);
        }
        let text: Arc<str> = make(raw).into();
        if self.bytes > BYTES_LIMIT {
            *self = Self::default();
        }
        self.bytes += raw.len() + text.len();
        self.made.insert(raw.into(), Arc::clone(&text));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_made_once_and_not_kept_for_ever() {
        let mut names = Names::default();
        let upper = |raw: &[u8]| String::from_utf8_lossy(raw).to_uppercase();
        let first = names.get(b"a", upper);
        assert!(Arc::ptr_eq(&first, &names.get(b"a", |_| unreachable!())));
        assert_eq!(names.get(b"b", upper).as_ref(), "B");
        names.get(b"long", |_| "x".repeat(BYTES_LIMIT));
        names.get(b"c", upper);
        assert_eq!((names.made.len(), names.get(b"a", upper).as_ref()), (1, "A"));
        assert_eq!(first.as_ref(), "A");
    }
}
