//! Who may have allocated the blocks that a session did not record.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use heapattach_census::{
    Moment,
    likely_sites::{self, Keys},
};
use heapattach_report::{LikelyGroup, LikelyReport};

use super::known::Known;
use crate::recorded::Recorded;

/// How long the search for holders may take.
const MOST: Duration = Duration::from_secs(10);

/// By recorded blocks that are like them.
pub(super) fn report(moment: &Moment<'_>, known: &Known, recorded: &Recorded) -> LikelyReport {
    let class = |number: u32| {
        let (class, _) = known.class(known.blocks.get(number))?;
        Some(class.0.into())
    };
    let data = moment.images().iter().flat_map(|image| image.data.iter().cloned());
    let variables: Vec<Range<u64>> = data.collect();
    let end = Instant::now() + MOST;
    let keys = Keys::of(moment, &known.blocks, &variables, &class, end);
    let likely = likely_sites::look(&keys, &known.blocks, &seen(known, recorded));
    let group = |group: likely_sites::Group| LikelyGroup {
        unrecorded: group.unrecorded,
        sites: group.sites,
    };
    let mut unlike = likely.unlike;
    unlike.bytes += likely.left_out.bytes;
    unlike.blocks += likely.left_out.blocks;
    let left_out = (recorded.left_out > 0).then(|| {
        format!("{} recorded blocks count as others, since there are too many", recorded.left_out)
    });
    let late = likely.is_over.then(|| "there was no time for all holders".to_owned());
    LikelyReport {
        unrecorded: likely.unrecorded,
        unlike,
        groups: likely.groups.into_iter().map(group).collect(),
        missing: left_out.or(late),
    }
}

/// The recorded blocks that are in use, by their numbers.
fn seen(known: &Known, recorded: &Recorded) -> Vec<likely_sites::Recorded> {
    let number = |at: u64| known.blocks.containing(at);
    let seen = recorded.blocks.iter().filter_map(|recorded| {
        let number = number(recorded.at)?;
        let block = known.blocks.get(number);
        // At that address is another one by now.
        let is_it = block.at == recorded.at && block.size >= recorded.kind.size;
        is_it.then(|| likely_sites::Recorded {
            block: number,
            site: recorded.kind.row.0,
            weight: recorded.kind.probability().map_or(1.0, |probability| 1.0 / probability),
        })
    });
    seen.collect()
}
