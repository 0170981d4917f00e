//! Which leaked blocks are not reported: those whose call path fits a rule, and those that were
//! there before the warm-up was over.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use heapattach_ledger::{FrameReport, hidden::Hidden};
use heapattach_profile::Tick;
use heapattach_reach::{Amount, Block};
use heapattach_report::{
    CheckReport, Quiet,
    suppression::{Place, Suppressions},
};
use heapattach_symbols::Symbols;

use super::{live_heap::LiveHeap, named::calls};

/// Functions of the kernel's call itself.
const CALLS: [&str; 4] = ["mmap", "mmap64", "__mmap", "mremap"];

/// Whether the code that mapped is none of an allocator's, linked into the program as it may be.
fn is_own(frames: &[FrameReport], hidden: &Hidden) -> bool {
    let is_call =
        |frame: &&FrameReport| frame.function.as_deref().is_some_and(|name| CALLS.contains(&name));
    let calls = frames.iter().take_while(is_call).count();
    frames.get(calls).is_some_and(|frame| !hidden.hides(frame))
}

/// Asked about every leaked block; counts what it suppressed.
#[derive(Debug)]
pub struct Suppressed {
    rules: Suppressions,
    /// By stack: the rule that fits.
    known: HashMap<u32, Option<usize>>,
    /// Where blocks of the warm-up begin.
    warm: HashSet<u64>,
    warm_sum: Amount,
    hidden: Hidden,
    /// Mappings that were made for an allocator, as the names of its functions say.
    others: Amount,
}

impl Suppressed {
    /// With these rules, of which is `known` which stacks they fit; blocks born before `warmup` was
    /// over are of it.
    pub fn new(
        rules: Suppressions,
        known: HashMap<u32, Option<usize>>,
        warmup: Option<Duration>,
        heap: &LiveHeap,
    ) -> Self {
        let end = Tick::after(warmup.unwrap_or_default()).0;
        let old = heap.blocks.iter().chain(&heap.mappings).filter(|(_, birth)| birth.0 < end);
        let warm = old.map(|(block, _)| block.at).collect();
        let (warm_sum, others) = Default::default();
        Self { rules, known, warm, warm_sum, hidden: Hidden::default(), others }
    }

    /// Whether it is to be suppressed; then it counts.
    pub fn keeps(&mut self, block: &Block, heap: &LiveHeap, symbols: &mut Symbols) -> bool {
        if self.warm.contains(&block.at) {
            self.warm_sum.add(block.size);
            return true;
        }
        if heap.is_mapping(block.stack)
            && !is_own(&calls(heap.stack(block.stack), symbols), &self.hidden)
        {
            self.others.add(block.size);
            return true;
        }
        let rules = &self.rules;
        let rule = *self.known.entry(block.stack).or_insert_with(|| {
            let frames = calls(heap.stack(block.stack), symbols);
            let places = frames.iter().map(|frame| Place {
                function: frame.function.as_deref().unwrap_or_default(),
                file: frame.file.as_deref().unwrap_or_default(),
                module: &frame.module,
            });
            rules.find(&places.collect::<Vec<_>>())
        });
        if let Some(rule) = rule {
            self.rules.count(rule, block.size, 1);
        }
        rule.is_some()
    }

    /// Which rules fit which stacks.
    pub fn known(&self) -> &HashMap<u32, Option<usize>> {
        &self.known
    }

    /// Writes down what it suppressed; `quiet` is that with all that it alone led to.
    pub fn tell(self, quiet: Amount, check: &mut CheckReport) {
        let Amount { bytes, blocks } = self.warm_sum.and(self.others);
        check.warm = self.warm_sum;
        check.suppressed = Amount {
            bytes: quiet.bytes.saturating_sub(bytes),
            blocks: quiet.blocks.saturating_sub(blocks),
        };
        check.notes.extend(self.rules.complaints.iter().cloned());
        check.runtimes = self.rules.runtimes().collect();
        let told = self.rules.used().chain(self.rules.unused());
        check.rules = told
            .map(|rule| Quiet {
                rule: rule.text.clone(),
                source: rule.source.to_string(),
                amount: Amount { bytes: rule.bytes, blocks: rule.blocks },
                is_users: rule.is_users(),
            })
            .collect();
    }
}
