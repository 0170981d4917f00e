//! Objects with finalizers that lead back to themselves, and that nothing else leads to: what a finalizer's object
//! leads to is kept until it has run, and it runs only when nothing leads to the object.

use super::{
    heap::{Object, Sum, index},
    objects::Objects,
    roots::Holder,
};

const NONE: u32 = u32::MAX;

/// They; each with what is reached from it and was not from an earlier one.
pub fn with_finalizers(objects: &Objects<'_, '_>) -> Vec<(Object, Sum)> {
    let finalized = &objects.roots.finalized;
    if finalized.is_empty() {
        return Vec::new();
    }
    let edges = |object: Object| objects.references.edges(object).iter().map(|edge| edge.target);
    // What anything but finalizers leads to is in use.
    let others = objects.roots.all.iter().filter(|root| root.holder != Holder::Finalizer);
    let mut in_use = vec![false; objects.heap.slots()];
    reach(others.map(|root| root.target).collect(), &mut in_use, &edges);
    let open: Vec<Object> = finalized
        .iter()
        .copied()
        .filter(|object| objects.marks.is_reached(*object) && !in_use[index(*object)])
        .collect();
    let targets = |object: Object| -> Vec<Object> {
        edges(object).filter(|target| !in_use[index(*target)]).collect()
    };
    let cyclic = cyclic(&open, &targets);
    let mut seen = in_use.clone();
    let mut found = Vec::new();
    for object in open.into_iter().filter(|object| cyclic.contains(object)) {
        let mut kept = Sum::default();
        for reached in reach(vec![object], &mut seen, &edges) {
            kept.add(objects.heap.span_of(reached).size);
        }
        found.push((object, kept));
    }
    found
}

/// Marks all that these lead to, and tells what was not marked before.
fn reach<I: Iterator<Item = Object>>(
    mut from: Vec<Object>,
    seen: &mut [bool],
    edges: &impl Fn(Object) -> I,
) -> Vec<Object> {
    let mut found = Vec::new();
    while let Some(object) = from.pop() {
        if seen.get(index(object)) == Some(&false) {
            seen[index(object)] = true;
            found.push(object);
            from.extend(edges(object));
        }
    }
    found
}

/// What is being walked through: an object, where it leads to, and how much of that is done.
struct Step {
    object: Object,
    targets: Vec<Object>,
    next: usize,
}

/// All that lie on a cycle, of what these lead to: by strongly connected components, after Tarjan, without recursion.
fn cyclic(
    from: &[Object],
    targets: &dyn Fn(Object) -> Vec<Object>,
) -> std::collections::HashSet<Object> {
    // By object: its number in the walk, and the lowest that it leads back to; NONE once its component is told.
    let mut numbers: std::collections::HashMap<Object, (u32, u32)> = Default::default();
    let (mut open, mut path) = (Vec::new(), Vec::new());
    let mut found = std::collections::HashSet::new();
    let mut next_number = 0;
    for &start in from {
        if numbers.contains_key(&start) {
            continue;
        }
        path.push(Step { object: start, targets: targets(start), next: 0 });
        while let Some(step) = path.last_mut() {
            let object = step.object;
            if step.next == 0 && !numbers.contains_key(&object) {
                numbers.insert(object, (next_number, next_number));
                next_number += 1;
                open.push(object);
            }
            let Some(&target) = step.targets.get(step.next) else {
                path.pop();
                let (number, low) = numbers.get(&object).copied().unwrap_or((NONE, NONE));
                if let Some(above) = path.last()
                    && let Some(own) = numbers.get_mut(&above.object)
                {
                    own.1 = own.1.min(low);
                }
                if number == low {
                    let at = open.iter().rposition(|one| *one == object).unwrap_or(0);
                    let component = open.split_off(at);
                    let is_cycle = component.len() > 1 || targets(object).contains(&object);
                    for one in component {
                        numbers.insert(one, (NONE, NONE));
                        if is_cycle {
                            found.insert(one);
                        }
                    }
                }
                continue;
            };
            step.next += 1;
            match numbers.get(&target) {
                None => path.push(Step { object: target, targets: targets(target), next: 0 }),
                Some(&(number, _)) => {
                    if let Some(own) = numbers.get_mut(&object) {
                        own.1 = own.1.min(number);
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_a_cycle_is_found_and_nothing_that_only_leads_to_one_or_away() {
        // 0 -> 1 <-> 2 -> 3, 4 -> 4, 5 -> 6
        let targets = |object: Object| match object {
            0 => vec![1],
            1 => vec![2],
            2 => vec![1, 3],
            4 => vec![4],
            5 => vec![6],
            _ => vec![],
        };
        let mut found: Vec<Object> = cyclic(&[0, 4, 5], &targets).into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, [1, 2, 4]);
        assert!(cyclic(&[3, 6], &targets).is_empty());
    }

    #[test]
    fn a_long_cycle_takes_no_stack() {
        let targets = |object: Object| vec![(object + 1) % 100_000];
        assert_eq!(cyclic(&[7], &targets).len(), 100_000);
    }
}
