//! Everything that touches another process.
