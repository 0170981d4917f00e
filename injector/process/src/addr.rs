//! Addresses by kind. A number from another process or from an ELF file is a type of its own, so
//! that one cannot be used for the other; they convert only through a [`Bias`], and by name.

use std::{fmt, ops::Range};

/// An address in the target's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemoteAddr(u64);

/// An address as an ELF file states it, before the loader placed the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageAddr(u64);

/// What the loader added to every [`ImageAddr`] of one module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bias(u64);

impl RemoteAddr {
    /// The address with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, for a record or a register.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `self + bytes`, or `None` past the end of the address space.
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }

    /// `self + bytes`; saturates, since a wrapped address would point somewhere else.
    pub fn offset(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// The bytes from `origin` up to here, if we are not below it.
    pub fn offset_from(self, origin: Self) -> Option<u64> {
        self.0.checked_sub(origin.0)
    }

    /// How far apart two addresses are.
    pub fn distance(self, other: Self) -> u64 {
        self.0.abs_diff(other.0)
    }
}

impl fmt::Display for RemoteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl ImageAddr {
    /// The address with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number as the file states it.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Bias {
    /// The bias with this number (`l_addr` of the link map).
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Where the loader put `address`. Wraps as the loader's own addition does.
    pub fn place(self, address: ImageAddr) -> RemoteAddr {
        RemoteAddr(self.0.wrapping_add(address.0))
    }

    /// The address the file states for `address`.
    pub fn unplace(self, address: RemoteAddr) -> ImageAddr {
        ImageAddr(address.0.wrapping_sub(self.0))
    }
}

/// Whether two ranges share an address.
pub fn overlap(a: &Range<RemoteAddr>, b: &Range<RemoteAddr>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bias_places_and_takes_back() {
        let bias = Bias::new(0x7f00_0000_0000);
        let placed = bias.place(ImageAddr::new(0x1234));
        assert_eq!(placed.get(), 0x7f00_0000_1234);
        assert_eq!(bias.unplace(placed), ImageAddr::new(0x1234));
    }

    #[test]
    fn touching_ranges_do_not_overlap() {
        let range = |a, b| RemoteAddr::new(a)..RemoteAddr::new(b);
        assert!(!overlap(&range(1, 2), &range(2, 3)));
        assert!(overlap(&range(1, 3), &range(2, 3)));
    }
}
