//! Whole recordings, whole and damaged.
