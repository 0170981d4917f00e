//! A small ledger for tests: numbers that are easy to add up.

use super::{
    Births, EndReason, Function, Ledger, Line, Location, Metric, Module, Moment, Row, Thread,
};
use heapattach_profile::{Calls, Estimate, KernelCalls, Sum};

/// Two stacks below `main`, and one of another thread; every block is known.
pub fn ledger() -> Ledger {
    let module = |path: &str, build_id: &str, start| Module {
        path: path.to_owned(),
        build_id: build_id.to_owned(),
        start,
        end: start + 0x10_000,
        bias: start,
        file_offset: Some(0),
    };
    let function = |name: &str, file: &str, module| Function {
        name: name.to_owned(),
        file: file.to_owned(),
        module,
        is_named: true,
        ..Function::default()
    };
    let location = |address: u64, module: u32, lines: &[(u32, u32)]| Location {
        address,
        module,
        offset: address & 0xffff,
        lines: lines.iter().map(|&(function, line)| Line { function, line: Some(line) }).collect(),
    };
    let mut ledger = Ledger {
        modules: vec![
            module("/usr/bin/list", "0123456789abcdef0123456789abcdef01234567", 0x40_0000),
            module("/usr/lib/libc.so.6", "89abcdef89abcdef", 0x7000_0000_0000),
        ],
        functions: vec![
            function("malloc", "malloc/malloc.c", 1),
            function("make_node", "list.c", 0),
            function("grow_list", "list.c", 0),
            function("main", "main.c", 0),
            function("work<int>(std::string const&)", "work.cc", 0),
        ],
        locations: vec![
            location(0x7000_0000_1234, 1, &[(0, 3000)]),
            // `make_node` was inlined.
            location(0x40_1100, 0, &[(1, 12), (2, 40)]),
            location(0x40_2200, 0, &[(3, 7)]),
            location(0x40_3300, 0, &[(4, 99)]),
        ],
        threads: vec![Thread::default(), Thread { tid: 4711, name: "worker".to_owned() }],
        ..Ledger::default()
    };
    for locations in [&[0, 1, 2][..], &[0, 2], &[0, 3]] {
        ledger.stacks.push(locations, EndReason::Outermost, 1);
    }
    ledger.about.pid = 4242;
    ledger.about.command = "list --long".to_owned();
    ledger.about.began = 1_700_000_000;
    ledger.about.lasted_ms = 20_000;
    ledger.about.every = 1;
    ledger.about.outcome = crate::Outcome::Detached.into();
    ledger.about.version = "0.1.0".to_owned();
    ledger.about.temporary_ms = 1;
    // Bytes of one block, then blocks: live, allocated, freed, peak, temporary.
    let rows = [
        (0, 0, 64, [1000, 1500, 500, 1200, 100]),
        (1, 0, 4096, [10, 10, 0, 10, 0]),
        (2, 1, 16, [0, 70_000, 70_000, 50, 65_000]),
    ];
    for (stack, thread, size, blocks) in rows {
        let mut row = Row { stack, thread, ..Row::default() };
        for metric in Metric::ALL {
            row.set(metric, &Sum::exact(size, blocks[metric as usize]));
        }
        row.sizes.add(size, row.measure(Metric::Allocated).count.value);
        row.lifetimes.add(300, row.measure(Metric::Freed).count.value);
        ledger.total.merge(&row);
        ledger.rows.push(row);
    }
    // The first goes on coming; the second came in the beginning.
    let (all, first) = ([125; 8], [10, 0, 0, 0, 0, 0, 0, 0]);
    ledger.births = vec![
        (0, Births { records: all, bytes: all.map(|blocks| u64::from(blocks) * 64) }),
        (1, Births { records: first, bytes: first.map(|blocks| u64::from(blocks) * 4096) }),
    ];
    ledger.kernel = vec![
        (0, KernelCalls { grown: Calls { calls: 3, bytes: 405_504 }, ..KernelCalls::default() }),
        (
            1,
            KernelCalls {
                mapped: Calls { calls: 2, bytes: 1 << 20 },
                unmapped: Calls { calls: 1, bytes: 1 << 19 },
                discarded: Calls { calls: 1, bytes: 4096 },
                ..KernelCalls::default()
            },
        ),
    ];
    ledger.rows[1].mapped = 1 << 20;
    ledger.rows[1].mapped_live = 1 << 19;
    ledger.total.mapped = 1 << 20;
    ledger.total.mapped_live = 1 << 19;
    let peak = ledger.total.measure(Metric::Peak).bytes.value;
    ledger.peak = Estimate { value: peak, low: peak, high: peak };
    ledger.moments = (0..=20_u32)
        .map(|second| Moment {
            at_ms: u64::from(second) * 1000,
            live: 5248.0 * f64::from(second),
            allocated: 60_000.0 * f64::from(second),
            blocks: 3575.5 * f64::from(second),
            rss: Some(10_000_000 + u64::from(second) * 10_000),
            ..Moment::default()
        })
        .collect();
    ledger
}
