//! For tests: whether copies that were made early are what a full stop would have read.

use super::{area::Area, image::Image};
use crate::home::PAGE;
use heapattach_process::{fault, presence::Presence};

impl Image<'_> {
    /// Compares what a full stop would look at of `all` areas with what the copies have in theirs.
    pub(super) fn compare(&self, all: Vec<Area>, areas: &[Area], presence: &Presence) {
        let mut pages = [[0_u8; 4096]; 2];
        let (mut compared, mut differing) = (0_u64, 0_u64);
        for Area { range, .. } in all.into_iter().flat_map(|area| area.written(presence)) {
            let mut at = range.start;
            while at < range.end {
                // Areas need not begin and end with pages.
                let end = (at - at % PAGE + PAGE).min(range.end);
                let [there, copied] = pages
                    .each_mut()
                    .map(|page| &mut page[..usize::try_from(end - at).unwrap_or(0)]);
                copied.fill(0);
                if self.read_some(at, there) != Ok(there.len()) {
                    there.fill(0);
                }
                let index = areas.partition_point(|area| area.range.end <= at);
                if areas.get(index).is_some_and(|area| area.range.start <= at) {
                    self.read_parts(at, copied);
                }
                compared += 1;
                differing += u64::from(there != copied);
                at = end;
            }
        }
        fault::tell(&format!("{compared} pages compared, {differing} differ"));
    }
}
