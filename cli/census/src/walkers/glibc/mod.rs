//! The allocator of glibc.

use crate::{Answer, Moment, Sink, Walker};

/// The walker.
#[derive(Clone, Copy, Debug)]
pub struct Glibc;

impl Walker for Glibc {
    fn name(&self) -> &'static str {
        "glibc"
    }

    fn walk(&self, _: &Moment<'_>, _: &mut dyn Sink) -> Answer {
        Answer::Absent
    }
}
