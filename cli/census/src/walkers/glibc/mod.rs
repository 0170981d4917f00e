//! The allocator of glibc, read without symbols and without a table of releases: what its books look like
//! is found by what must hold in them.
//!
//! ```text
//! variables of a module -> main_arena (127 bins) -> ring of arenas, parameters (mp_)
//! arenas -> segments: program break, mappings, heaps -> chains of chunks
//!        -> mapped chunks, thread caches, fast bins -> blocks
//! ```
//!
//! Checked each time: bins against free chunks, segments against the bytes that an arena had from the
//! system, mapped chunks against their count and sum. A walk that is wrong fails one of these.

mod arena;
mod cache_list;
mod chain;
mod chunks;
mod cut;
mod fast_bins;
mod heaps;
mod link_sums;
mod links;
mod main_heap;
mod mapped;
mod merging;
mod parameters;
mod starts;
mod thread_caches;
mod tls;
mod told;

#[cfg(test)]
mod cut_tests;
#[cfg(test)]
mod synthetic_tests;

use arena::Books;
use chunks::Chunks;

pub(crate) use arena::{Found, find_in_some};
pub(crate) use parameters::Parameters;

use crate::{Answer, Check, Moment, Sink, Walk, Walker};

/// The walker.
#[derive(Clone, Copy, Debug)]
pub struct Glibc;

/// What comes before the bytes of a block: the size before it, and its own with flags.
const HEAD: u64 = 16;
/// The flags in a size.
const FLAGS: u64 = 7;
/// The chunk before is in use.
const BEFORE_IN_USE: u64 = 1;
/// The chunk has a mapping of its own.
const MAPPED: u64 = 2;
/// The smallest chunk.
const SMALLEST: u64 = 32;
const PAGE: u64 = 4096;

/// What a walk has found so far.
struct Heap {
    walk: Walk,
    arenas: Vec<Books>,
    parameters: Option<Parameters>,
    chunks: Chunks,
}

impl Walker for Glibc {
    fn moves_batches(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "glibc"
    }

    fn has_wide_classes(&self) -> bool {
        false
    }

    fn walk(&self, moment: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
        let mut all = arena::find(moment);
        let Some(found) = all.pop() else { return Answer::Absent };
        let mut heap = match Heap::of(moment, &found) {
            Ok(heap) => heap,
            Err(why) => return Answer::Refused(why),
        };
        let locked = heap.arenas.iter().filter(|arena| arena.is_locked).count() as u64;
        heap.walk.in_flight = tls::in_flight(moment, &found.image, locked);
        if heap.parameters.is_none() {
            // What a call is changing does not add up.
            let again = if heap.walk.in_flight > 0 {
                ": a thread was in the middle of a call (look again)"
            } else {
                ""
            };
            heap.walk.doubt(None, format!("the parameters of malloc were not found{again}"));
        }
        for other in &all {
            let why = format!("the blocks of a second allocator, in {}, are not told", other.path);
            heap.walk.doubt(None, why);
        }
        heap.add_segments(moment);
        heap.check_links(moment);
        mapped::add(moment, &mut heap);
        let caches = thread_caches::mark(moment, &mut heap, &found.image);
        let is_mangled = fast_bins::mark(moment, &mut heap, caches.is_mangled);
        merging::doubt(moment, &mut heap, &found.image, caches.is_mangled);
        heap.walk.layout = found.layout(is_mangled);
        heap.tell(&caches, sink);
        Answer::Walked(heap.walk)
    }
}

impl Heap {
    fn of(moment: &Moment<'_>, found: &Found) -> Result<Self, String> {
        let arenas = found.ring(moment)?;
        let parameters = Parameters::find(moment, found);
        Ok(Self { walk: Walk::default(), arenas, parameters, chunks: Chunks::default() })
    }

    /// The chunks of all arenas.
    fn add_segments(&mut self, moment: &Moment<'_>) {
        main_heap::add(moment, self);
        for index in 1..self.arenas.len() {
            heaps::add(moment, self, index);
        }
        let overlapping = self.chunks.sort();
        if overlapping > 0 {
            let why = format!("{overlapping} heaps overlap others: {}", self.cause());
            self.walk.doubt(None, why);
        }
    }

    /// Every chunk that is free is in one list of its arena's bins, and only those.
    fn check_links(&mut self, moment: &Moment<'_>) {
        for index in 0..self.arenas.len() {
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            let wrong = links::wrong(moment, &self.arenas[index], &self.chunks, number);
            let check = Check {
                what: "free chunks that are not in one list of bins",
                found: wrong,
                told: 0,
                // Before a block is merged with its neighbours, both are taken out of their lists.
                slack: 2 * self.walk.in_flight,
            };
            self.walk.check(Some(number), check);
        }
    }

    /// Why something may be as it cannot be.
    fn cause(&self) -> &'static str {
        cause(self.walk.in_flight > 0)
    }
}

/// The same; whether threads are in the middle of calls.
fn cause(is_changing: bool) -> &'static str {
    match is_changing {
        true => "a thread was in the middle of a call (look again), or it is corrupted",
        false => "corrupted?",
    }
}
