//! What the parts mean, in one sentence, and what to type next.

use heapattach_census::Census;
use heapattach_text::quantity::{bytes, count};
use serde::{Deserialize, Serialize};

use super::{PartKind, Parts};

/// Of the resident set: from here on what an allocator keeps is worth a verdict, in percent.
const MUCH: f64 = 30.0;
/// More arenas are many.
const MANY_ARENAS: usize = 8;

/// What memory mostly is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// Blocks in use.
    LiveData,
    /// Free blocks on pages that others are in use on.
    Fragmentation,
    /// Free pages that the allocator has not returned to the system.
    AllocatorCache,
    /// The same, in many arenas.
    ManyArenas,
    /// What the program mapped itself.
    Mappings,
    /// Code and files.
    Files,
    /// Memory shared with others.
    Shared,
    /// Stacks.
    Stacks,
    /// No allocator was recognised.
    #[default]
    NoAllocator,
}

/// The verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conclusion {
    /// What memory mostly is.
    pub kind: Says,
    /// In one sentence.
    pub text: String,
    /// What to type next; empty if nothing.
    pub next: String,
    /// What that would tell.
    pub why: String,
}

impl Conclusion {
    /// Of a process with this pid.
    pub fn of(pid: i32, parts: &Parts, census: &Census) -> Self {
        let kind = kind(parts, census);
        let of =
            |kinds: &[PartKind]| kinds.iter().map(|&kind| parts.of(kind).resident).sum::<u64>();
        let percent = |kinds: &[PartKind]| format!("{:.0} %", parts.percent(kinds));
        let (live, kept) = (&[PartKind::Live], &KEPT);
        let walks: Vec<_> = census.walks().collect();
        let blocks: u64 = walks.iter().map(|walk| walk.bytes().used_blocks).sum();
        let arenas: usize = walks.iter().map(|walk| walk.arenas.len()).sum();
        let record = || (format!("heapattach -p {pid} --duration 60s"), "which code allocates it");
        let allocator = || {
            let why = "which functions allocate, and what they are called";
            (format!("heapattach doctor -p {pid}"), why)
        };
        let none = || (String::new(), "");
        let (text, (next, why)) = match kind {
            Says::LiveData => (
                format!(
                    "Live data: {} of {} ({}) are {} blocks in use",
                    bytes(of(live)),
                    bytes(parts.total.resident),
                    percent(live),
                    count(blocks)
                ),
                record(),
            ),
            Says::Fragmentation => (
                format!(
                    "Fragmentation: {} ({}) are free blocks that the allocator cannot return to the system, \
                     since blocks in use lie on the same pages; {} of live data",
                    bytes(of(kept)),
                    percent(kept),
                    bytes(of(live))
                ),
                record(),
            ),
            Says::AllocatorCache => (
                format!(
                    "The allocator's cache: {} ({}) are free, and the allocator has not returned them to \
                     the system; {} of live data",
                    bytes(of(kept)),
                    percent(kept),
                    bytes(of(live))
                ),
                none(),
            ),
            Says::ManyArenas => (
                format!(
                    "Many arenas: {} ({}) are free, spread over {arenas} arenas; {} of live data",
                    bytes(of(kept)),
                    percent(kept),
                    bytes(of(live))
                ),
                none(),
            ),
            Says::Mappings => (
                format!(
                    "Mappings: {} ({}) were mapped by the program itself, past malloc",
                    bytes(of(&[PartKind::Mapped])),
                    percent(&[PartKind::Mapped])
                ),
                record(),
            ),
            Says::Files => (
                format!(
                    "Files: {} ({}) are code, variables and files; {} of live data",
                    bytes(of(&FILES)),
                    percent(&FILES),
                    bytes(of(live))
                ),
                none(),
            ),
            Says::Shared => (
                format!(
                    "Shared memory: {} ({}); {} of live data",
                    bytes(of(&[PartKind::Shared])),
                    percent(&[PartKind::Shared]),
                    bytes(of(live))
                ),
                none(),
            ),
            Says::Stacks => (
                format!(
                    "Stacks: {} ({}); {} of live data",
                    bytes(of(&[PartKind::Stacks])),
                    percent(&[PartKind::Stacks]),
                    bytes(of(live))
                ),
                none(),
            ),
            Says::NoAllocator => (
                "No allocator of this process is known: its blocks are not told".to_owned(),
                allocator(),
            ),
        };
        Self { kind, text, next, why: why.to_owned() }
    }
}

const KEPT: [PartKind; 3] = [PartKind::Free, PartKind::Cached, PartKind::Top];
const FILES: [PartKind; 3] = [PartKind::Code, PartKind::Variables, PartKind::Files];

fn kind(parts: &Parts, census: &Census) -> Says {
    if census.walks().next().is_none() {
        return Says::NoAllocator;
    }
    if parts.percent(&KEPT) >= MUCH {
        return kept(parts, census);
    }
    let groups: [(&[PartKind], Says); 5] = [
        (&[PartKind::Live], Says::LiveData),
        (&[PartKind::Mapped], Says::Mappings),
        (&FILES, Says::Files),
        (&[PartKind::Shared], Says::Shared),
        (&[PartKind::Stacks], Says::Stacks),
    ];
    let largest = groups.into_iter().max_by(|(a, _), (b, _)| {
        let (a, b) = (parts.percent(a), parts.percent(b));
        a.total_cmp(&b)
    });
    largest.map_or(Says::NoAllocator, |(_, says)| says)
}

/// Why the allocator keeps so much.
fn kept(parts: &Parts, census: &Census) -> Says {
    let kept: u64 = KEPT.iter().map(|&kind| parts.of(kind).resident).sum();
    let arenas: Vec<u64> = census
        .allocators
        .iter()
        .flat_map(|allocator| &allocator.kinds)
        .map(|kinds| kinds.kept().resident)
        .collect();
    let largest = arenas.iter().copied().max().unwrap_or(0);
    let is_empty = census.fill.none.saturating_mul(4096) >= kept / 2;
    match arenas.len() > MANY_ARENAS && largest < kept / 2 {
        true => Says::ManyArenas,
        false if is_empty => Says::AllocatorCache,
        false => Says::Fragmentation,
    }
}
