//! What a document may have, looked at before anything of it is kept: no number larger than any process has,
//! not too many values, nothing nested deep.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// All of the memory that a process can address. As many as there can be of them make no sum overflow.
pub(super) const LARGEST: u64 = 1 << 47;
const VALUES: u64 = 1 << 21;
const DEEPEST: u32 = 32;

/// Looks through one.
///
/// # Errors
/// Which of the limits it breaks, or where it is no JSON.
pub(super) fn check(json: &[u8]) -> Result<(), String> {
    let mut values = 0;
    let mut text = serde_json::Deserializer::from_slice(json);
    let look = Look { values: &mut values, depth: 0 };
    look.deserialize(&mut text).and_then(|()| text.end()).map_err(|error| error.to_string())
}

struct Look<'a> {
    values: &'a mut u64,
    depth: u32,
}

impl Look<'_> {
    fn below(&mut self) -> Look<'_> {
        Look { values: self.values, depth: self.depth + 1 }
    }

    fn count<E: Error>(&mut self) -> Result<(), E> {
        *self.values += 1;
        match (*self.values > VALUES, self.depth > DEEPEST) {
            (true, _) => Err(E::custom("it has too many values")),
            (_, true) => Err(E::custom("its values are nested too deep")),
            _ => Ok(()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document of heapattach")
    }

    fn visit_u64<E: Error>(mut self, number: u64) -> Result<(), E> {
        match number <= LARGEST {
            true => self.count(),
            false => Err(E::custom(format!("{number} is more than any process has"))),
        }
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<(), E> {
        self.count()
    }

    fn visit_f64<E: Error>(mut self, number: f64) -> Result<(), E> {
        match number.is_finite() && (0.0..=LARGEST as f64).contains(&number) {
            true => self.count(),
            false => Err(E::custom(format!("{number} is not a valid time"))),
        }
    }

    fn visit_bool<E: Error>(mut self, _: bool) -> Result<(), E> {
        self.count()
    }

    fn visit_str<E: Error>(mut self, _: &str) -> Result<(), E> {
        self.count()
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.count()
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.count()?;
        while items.next_element_seed(self.below())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        self.count()?;
        while fields.next_key_seed(self.below())?.is_some() {
            fields.next_value_seed(self.below())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_depth_have_limits() {
        assert_eq!(check(br#"{"a": [1, 2.5, null, "b", true]}"#), Ok(()));
        assert!(
            check(format!("[{}]", 1_u64 << 60).as_bytes()).unwrap_err().contains("any process")
        );
        assert!(check(b"[1e300]").is_err() && check(b"[-1.5]").is_err() && check(b"{").is_err());
        assert!(check("[".repeat(60).as_bytes()).unwrap_err().contains("nested too deep"));
        let many = format!("[{}0]", "0,".repeat(1 << 21));
        assert!(check(many.as_bytes()).unwrap_err().contains("too many"));
    }
}
