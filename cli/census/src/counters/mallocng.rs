//! musl's mallocng: it counts nothing and has no settings; what its books tell is summed.
//!
//! The books are read while threads go on: a group that is made or given up meanwhile may be missing.

use std::collections::BTreeMap;

use crate::{Image, Moment, walkers::mallocng::contexts};

use super::AllocatorKind;
use super::statistics::{Arena, Class, Numbers, Statistics};

/// Where one is: all of them are read together.
#[derive(Debug)]
pub struct Place {
    module: String,
}

impl Place {
    /// That of the process, if it has any.
    pub fn find(moment: &Moment<'_>) -> Option<Self> {
        // No program has both, and variables can be many.
        let is_glibc = |image: &Image| image.path.ends_with("/libc.so.6");
        if moment.images().iter().any(is_glibc) {
            return None;
        }
        let module = contexts(moment).first().map(|context| context.image)?;
        Some(Self { module: moment.images().get(module)?.path.clone() })
    }

    /// What it has now.
    pub fn read(&self, moment: &Moment<'_>) -> Option<Statistics> {
        let mut all = Statistics {
            allocator: AllocatorKind::Mallocng,
            version: "of musl".to_owned(),
            module: self.module.clone(),
            ..Statistics::default()
        };
        let mut classes: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
        let (mut areas, mut groups, mut mapped, mut broken) = (0_u64, 0_u64, [0_u64; 2], 0_u64);
        for context in contexts(moment) {
            areas += context.areas.len() as u64;
            let (own, not) = context.groups(moment);
            broken += not;
            for group in own.values() {
                groups += 1;
                if group.mapped > 0 && group.slots == 1 {
                    mapped = [mapped[0] + 1, mapped[1].saturating_add(group.mapped)];
                    continue;
                }
                let row = classes.entry(group.stride).or_default();
                let more = [1, u64::from(group.slots), u64::from(group.used())];
                row.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
        }
        if broken > 0 {
            all.unknown.push(format!("{broken} groups whose books change or lead nowhere"));
        }
        let sum = |index: usize| {
            let bytes = classes.iter().map(|(size, row)| size.saturating_mul(row[index]));
            bytes.fold(0, u64::saturating_add)
        };
        let (slots, used) = (sum(1), sum(2));
        all.stats = Numbers::from([
            ("areas", areas),
            ("groups", groups),
            ("slots", classes.values().map(|row| row[1]).sum()),
            ("blocks", classes.values().map(|row| row[2]).sum()),
            ("used", used),
            ("free_in_groups", slots.saturating_sub(used)),
            ("mapped.count", mapped[0]),
            ("mapped.size", mapped[1]),
        ]);
        let bins = classes.into_iter().map(|(size, [groups, slots, used])| Class {
            size,
            numbers: [("groups", groups), ("slots", slots), ("used", used)].into(),
            mutex: Numbers::new(),
        });
        all.arenas = vec![Arena { bins: bins.collect(), ..Arena::default() }];
        Some(all)
    }
}
