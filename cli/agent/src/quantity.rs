//! Times and sizes of the file, as they are typed on the command line.

use std::time::Duration;

use heapattach_text::quantity::{parse_duration, parse_size};
use serde::{Deserialize, Deserializer, de::Error};

/// A time.
pub fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// A time, where one is given.
pub fn maybe_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

/// Bytes.
pub fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    parse_size(&String::deserialize(from)?).map_err(D::Error::custom)
}
