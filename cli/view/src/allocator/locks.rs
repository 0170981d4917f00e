//! Locks: how often they were taken and waited for.

use std::{collections::BTreeMap, time::Duration};

use heapattach_report::CountedReport;
use heapattach_report::counters::{Numbers, add};
use heapattach_text::quantity::{count, time};

use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

pub(super) fn write(page: &mut Page, one: &CountedReport) {
    let mut all: BTreeMap<String, Numbers> = BTreeMap::new();
    for arena in &one.statistics.arenas {
        for (name, numbers) in &arena.mutexes {
            add(all.entry((*name).to_owned()).or_default(), numbers);
        }
        for class in arena.bins.iter().filter(|class| !class.mutex.is_empty()) {
            add(all.entry("bins".to_owned()).or_default(), &class.mutex);
            let waited = class.mutex.get("num_wait").is_some_and(|waits| *waits > 0);
            if waited {
                add(all.entry(format!("bins of {} B", class.size)).or_default(), &class.mutex);
            }
        }
    }
    if all.is_empty() {
        return page.prose("", Ink::Plain, "it counts nothing of its locks");
    }
    let of = |numbers: &Numbers, name: &str| numbers.get(name).copied().unwrap_or(0);
    let mut rows: Vec<_> = all.into_iter().collect();
    rows.sort_by_key(|(_, numbers)| std::cmp::Reverse(of(numbers, "total_wait_time")));
    let columns = [
        Column::right("taken"),
        Column::right("waits"),
        Column::right("waited"),
        Column::right("longest"),
        Column::right("spins"),
        Column::right("owner changed"),
        Column::left("lock, of all arenas"),
    ];
    let mut table = Table::new(columns);
    for (name, numbers) in rows {
        let waited = |name: &str| match of(&numbers, name) {
            0 => "0".to_owned(),
            ns => time(Duration::from_nanos(ns)),
        };
        table.row([
            count(of(&numbers, "num_ops")),
            count(of(&numbers, "num_wait")),
            waited("total_wait_time"),
            waited("max_wait_time"),
            count(of(&numbers, "num_spin_acq")),
            count(of(&numbers, "num_owner_switch")),
            name,
        ]);
    }
    table.write(page);
}
