//! Everything that touches another process.

pub mod counts;
pub mod payload_image;
