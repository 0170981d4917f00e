//! mimalloc 2 and 3, of the system, in Rust, stripped or not.
//!
//! Release 2 has segments ([`segment`]), release 3 a map of all memory ([`map`]); both lead to pages of
//! blocks of one size ([`page`]), whose lists tell which are free. The tables of fields are in [`layout`].

mod layout;
mod map;
mod page;
mod segment;
mod taken;
mod walk;

pub(crate) use map::Map;
pub(crate) use page::Page;
pub(crate) use segment::Segments;

use crate::{Answer, Moment, Sink, Walker};

/// The walker.
#[derive(Clone, Copy, Debug)]
pub struct Mimalloc;

impl Walker for Mimalloc {
    fn name(&self) -> &'static str {
        "mimalloc"
    }

    fn walk(&self, moment: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
        let segments = segment::Segments::find(moment);
        let maps = map::Map::find(moment);
        if segments.is_none() && maps.is_empty() {
            return Answer::Absent;
        }
        let mut walk = crate::Walk::default();
        if let Some(segments) = segments {
            walk::segments(moment, segments, &mut walk, sink);
        }
        for map in maps {
            walk::map(moment, map, &mut walk, sink);
        }
        Answer::Walked(walk)
    }
}
