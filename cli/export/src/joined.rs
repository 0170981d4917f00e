//! Two ledgers in the tables of one, for formats that can tell what became less.

use heapattach_ledger::{Ledger, Row, Thread};

/// The rows of `now`, then those of `base`, and the number of the first stack that is of `base`.
/// The totals are the sums of both.
pub fn joined(now: &Ledger, base: &Ledger) -> (Ledger, u32) {
    let mut all = now.clone();
    let [modules, functions, locations, stacks] =
        [now.modules.len(), now.functions.len(), now.locations.len(), now.stacks.count()]
            .map(|length| u32::try_from(length).unwrap_or(u32::MAX));
    all.modules.extend(base.modules.iter().cloned());
    all.functions.extend(base.functions.iter().cloned().map(|mut function| {
        function.module += modules;
        function
    }));
    all.locations.extend(base.locations.iter().cloned().map(|mut location| {
        location.module += modules;
        location.lines.iter_mut().for_each(|line| line.function += functions);
        location
    }));
    let mut moved = Vec::new();
    for stack in base.stacks.iter() {
        moved.clear();
        moved.extend(stack.locations.iter().map(|location| location + locations));
        all.stacks.push(&moved, stack.end, stack.cause);
    }
    // Threads of another process have nothing to do with those of this one.
    let no_thread = u32::try_from(all.threads.len()).unwrap_or(u32::MAX);
    all.threads.push(Thread::default());
    for row in &base.rows {
        let Row { mapped, mapped_live, .. } = *row;
        let (heap, stack) = (row.heap.clone(), row.stack + stacks);
        let row = Row { stack, thread: no_thread, heap, mapped, mapped_live, ..Row::default() };
        all.total.merge(&row);
        all.rows.push(row);
    }
    (all, stacks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::{Metric, sample};

    #[test]
    fn both_are_in_it_and_every_index_leads_to_its_own() {
        let (now, mut base) = (sample::ledger(), sample::ledger());
        base.functions[3].name = "old_main".to_owned();
        let (all, first) = joined(&now, &base);
        assert!(all.is_sound());
        assert_eq!((first, all.rows.len()), (3, 6));
        let names = |stack| all.calls(stack).map(|c| c.function.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(0), ["malloc", "make_node", "grow_list", "main"]);
        assert_eq!(names(3), ["malloc", "make_node", "grow_list", "old_main"]);
        let live = |ledger: &Ledger| ledger.total.measure(Metric::Live).bytes.value;
        assert_eq!(live(&all), live(&now) + live(&base));
    }
}
