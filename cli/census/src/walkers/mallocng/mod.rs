//! musl's mallocng (musl 1.2.1 and later), in its library or in a static program, C or Rust.
//!
//! Its variables are found by their secret ([`context`]); books lead to groups of slots ([`group`]), some of
//! which lie in slots of others. A block's usable size is what was asked for.

mod context;
mod group;
mod walk;

pub(crate) use context::contexts;

use crate::{Answer, Moment, Sink, Walker};

/// The walker.
#[derive(Clone, Copy, Debug)]
pub struct Mallocng;

impl Walker for Mallocng {
    fn name(&self) -> &'static str {
        "mallocng"
    }

    fn is_musl_only(&self) -> bool {
        true
    }

    fn walk(&self, moment: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
        let contexts = context::contexts(moment);
        if contexts.is_empty() {
            return Answer::Absent;
        }
        let mut all =
            crate::Walk { layout: "mallocng of musl".to_owned(), ..crate::Walk::default() };
        for context in contexts {
            walk::walk(moment, &context, &mut all, sink);
        }
        Answer::Walked(all)
    }
}
