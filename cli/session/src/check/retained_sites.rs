//! Who holds what is reachable and large, with names.

use crate::check::frame_report::told;
use heapattach_ledger::{FrameReport, hidden::Hidden};
use heapattach_reach::{Retained, UNRECORDED};
use heapattach_report::{RetainedReport, StepReport, WayReport};
use heapattach_symbols::Symbols;
use heapattach_text::printable::printable;

use super::{holders::Holders, live_heap::LiveHeap};

/// Sites that are told.
const MOST: usize = 10;
/// What stands for the sites of most bytes.
const TOP: &str = "top";
/// What stands for the place where a block was allocated that was not recorded.
const OLDER: &str = "[before the attach]";

/// With names; of all sites those that have the wanted function among their frames.
pub fn of(
    retained: &[Retained],
    wanted: &str,
    heap: &LiveHeap,
    holders: &Holders,
    (symbols, hidden): (&mut Symbols, &Hidden),
) -> Vec<RetainedReport> {
    let frames = |stack: u32, symbols: &mut Symbols| -> Vec<FrameReport> {
        let addresses = heap.stack(stack).iter();
        addresses.flat_map(|&at| symbols.symbolize_return(at)).map(told).collect()
    };
    let mut sites = Vec::new();
    for site in retained {
        let own = frames(site.stack, symbols);
        let is_wanted = wanted == TOP || own.iter().any(|f| f.function.as_deref() == Some(wanted));
        if !is_wanted || sites.len() == MOST {
            continue;
        }
        let place = |stack: u32, symbols: &mut Symbols| {
            if stack >= UNRECORDED {
                return OLDER.to_owned();
            }
            let frames = frames(stack, symbols);
            let cause = frames.get(hidden.cause(&frames)).map(FrameReport::place);
            printable(&cause.unwrap_or_else(|| "[unknown]".to_owned()))
        };
        let mut ways = Vec::new();
        for way in &site.ways {
            let steps = way.steps.iter().map(|step| StepReport {
                place: place(step.stack, symbols),
                mapped: heap.is_mapping(step.stack),
                blocks: step.blocks,
                offset: step.offset,
            });
            let steps = steps.collect();
            let holder = holders.at(way.at, symbols);
            let (root, at, roots, amount) = (way.root, way.at, way.roots, way.amount);
            ways.push(WayReport { root, at, roots, holder, steps, amount });
        }
        let (all, looked_at) = (site.all, site.looked_at);
        let (place, mapped) = (place(site.stack, symbols), heap.is_mapping(site.stack));
        sites.push(RetainedReport { place, mapped, all, looked_at, ways });
    }
    sites
}
