//! What a Go program keeps beyond need, in a sentence each.

use heapattach_report::{GoExcess, GoExcessKind};
use heapattach_text::quantity::{bytes, count, counted};

/// Steps of a path that are told.
const STEPS: usize = 6;

/// What it is, and what to do.
pub(super) fn excess(one: &GoExcess) -> String {
    let path = match one.path.get(..STEPS) {
        Some(first) if one.path.len() > STEPS => format!("{} > ...", first.join(" > ")),
        _ => one.path.join(" > "),
    };
    let kept = bytes(one.kept.bytes);
    match one.why {
        GoExcessKind::Map => format!(
            "{path}: {} with {} of {} entries in use; {kept} of tables: a map does not shrink when entries are \
             deleted",
            counted(one.number, "map"),
            count(one.used),
            count(one.room),
        ),
        GoExcessKind::Slice => format!(
            "{path}: {} of {} in all, the only pointer to {kept} of arrays; where their room is not to be filled \
             again, a copy would free it",
            counted(one.number, "slice"),
            bytes(one.used),
        ),
        GoExcessKind::Cycle => format!(
            "{path}: {} with finalizers on cycles, which nothing else leads to: the runtime never frees them, nor \
             the {kept} that they lead to",
            counted(one.number, "object"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use heapattach_report::Amount;

    use super::*;

    #[test]
    fn each_kind_names_the_path_the_size_and_the_reason() {
        let of = |why, number, used, room| {
            excess(&GoExcess {
                why,
                path: vec!["main.cache".to_owned(), "all. ([]uint8)".to_owned()],
                number,
                used,
                room,
                kept: Amount { bytes: 8 << 20, blocks: 1 },
            })
        };
        let map = of(GoExcessKind::Map, 1, 3, 100_000);
        assert!(map.starts_with("main.cache > all. ([]uint8): 1 map with 3 of 100 000"), "{map}");
        let slice = of(GoExcessKind::Slice, 2, 10, 8 << 20);
        assert!(slice.contains("2 slices of 10 B in all") && slice.contains("8.0 MiB"), "{slice}");
        let cycle = of(GoExcessKind::Cycle, 5, 5, 0);
        assert!(cycle.contains("5 objects with finalizers on cycles"), "{cycle}");
    }
}
