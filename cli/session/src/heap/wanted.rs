//! Which blocks a question is about.

use std::ops::RangeInclusive;

use heapattach_text::quantity;

/// `--type`, `--size`, `--held-by`: what counts has all of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapFilter {
    /// A part of the class.
    pub class: Option<String>,
    /// Usable bytes.
    pub size: Option<Sizes>,
    /// A part of the name of the root that holds them.
    pub held_by: Option<String>,
}

impl HeapFilter {
    /// Whether a block of this class and size counts.
    pub fn counts(&self, class: Option<&str>, size: u64) -> bool {
        let is_class = |wanted: &String| class.is_some_and(|class| class.contains(wanted));
        self.class.as_ref().is_none_or(is_class)
            && self.size.as_ref().is_none_or(|sizes| sizes.0.contains(&size))
    }

    /// Whether what this root holds counts.
    pub fn counts_root(&self, name: &str) -> bool {
        self.held_by.as_ref().is_none_or(|wanted| name.contains(wanted))
    }
}

/// A range of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(RangeInclusive<u64>);

impl std::str::FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let parse = |text: &str, other| match text {
            "" => Ok(other),
            text => quantity::parse_size(text),
        };
        let (least, most) = (parse(least, 0)?, parse(most, u64::MAX)?);
        match least <= most {
            true => Ok(Self(least..=most)),
            false => Err(format!("no size is in {text}; need LEAST..MOST, such as 4K..1M")),
        }
    }
}

/// `--who-holds`: blocks whose paths are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhoHolds {
    /// The one with this address.
    Address(u64),
    /// All whose class has this in it.
    Type(String),
}

impl std::str::FromStr for WhoHolds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).map(Self::Address).map_err(|_| {
                format!("not valid: {text}; need a class, or an address such as 0x7f001234")
            }),
            None => Ok(Self::Type(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_sizes_has_both_its_ends_and_may_lack_one() {
        let is_in = |text: &str, size| text.parse::<Sizes>().map(|sizes| sizes.0.contains(&size));
        assert_eq!(is_in("64..128", 128), Ok(true));
        assert_eq!(is_in("64..128", 129), Ok(false));
        assert_eq!(is_in("1K..", 1 << 40), Ok(true));
        assert_eq!(is_in("..1K", 0), Ok(true));
        assert_eq!(is_in("64", 65), Ok(false));
        assert!(is_in("2..1", 1).is_err() && is_in("x", 1).is_err());
    }

    #[test]
    fn filters_combine() {
        let filter =
            HeapFilter { class: Some("Conn".to_owned()), size: "64..".parse().ok(), held_by: None };
        assert!(filter.counts(Some("net::Conn"), 64));
        assert!(!filter.counts(Some("net::Conn"), 63) && !filter.counts(None, 64));
        assert!(filter.counts_root("cache"));
    }

    #[test]
    fn an_address_begins_with_0x() {
        assert_eq!("0x10".parse(), Ok(WhoHolds::Address(16)));
        assert_eq!("Conn".parse(), Ok(WhoHolds::Type("Conn".to_owned())));
        assert!("0xyz".parse::<WhoHolds>().is_err());
    }
}
