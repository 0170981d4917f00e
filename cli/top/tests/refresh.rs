//! What a screen of very many sites costs.
//!
//! ```text
//! cargo test --release -p heapattach-top --test refresh -- --ignored --nocapture
//! ```

use std::{sync::Arc, time::Duration};

use heapattach_ledger::{EndReason, Function, Ledger, Line, Location, Metric, Module, Row};
use heapattach_profile::Sum;
use heapattach_top::{Model, Snapshot, Subject, draw};
use nix::time::{ClockId, clock_gettime};
use ratatui_core::{buffer::Buffer, layout::Rect};

/// Sites, each with so many stacks of so many calls.
const SITES: u32 = 10_000;
const STACKS: u32 = 2;
const DEPTH: u32 = 16;
/// Mean bytes between samples.
const INTERVAL: u64 = 512 << 10;
/// So often.
const TURNS: u32 = 40;

/// After so many seconds.
fn ledger(seconds: u32) -> Ledger {
    let mut ledger = Ledger { modules: vec![Module::default()], ..Ledger::default() };
    for number in 0..SITES {
        let name = format!("service::handler_{number}(std::string const&)");
        let file = format!("/src/service/handler_{}.cc", number % 512);
        ledger.functions.push(Function { name, file, is_named: true, ..Function::default() });
        let lines = vec![Line { function: number, line: Some(1 + number % 900) }];
        let address = 0x40_0000 + u64::from(number) * 64;
        ledger.locations.push(Location { address, lines, ..Location::default() });
    }
    for number in 0..SITES * STACKS {
        let site = number % SITES;
        let outer = (1..DEPTH).map(|call| (site * 7 + number / SITES + call * 131) % SITES);
        let calls: Vec<u32> = std::iter::once(site).chain(outer).collect();
        ledger.stacks.push(&calls, EndReason::Outermost, 0);
        let mut row = Row { stack: number, ..Row::default() };
        // As a session of samples has them: small ones stand for many.
        let blocks = u64::from(1 + site % 20 + seconds * (site % 3));
        row.set(Metric::Live, &Sum::sampled(u64::from(64 + site % 512), blocks, INTERVAL));
        row.set(Metric::Allocated, &Sum::sampled(64, blocks * 10, INTERVAL));
        ledger.total.merge(&row);
        ledger.rows.push(row);
    }
    ledger.about.lasted_ms = u64::from(seconds) * 1000;
    ledger
}

/// Processor time of this thread: what else the machine does is no part of it.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock of this thread").into()
}

/// The best, and the median.
fn told(what: &str, mut times: Vec<Duration>) {
    times.sort();
    println!("{what:<24} best {:>10.3?}   median {:>10.3?}", times[0], times[times.len() / 2]);
}

#[test]
#[ignore = "a benchmark: it tells figures and judges none"]
fn a_refresh_of_ten_thousand_sites() {
    let subject = Subject { name: "service".into(), pid: 4242, ..Subject::default() };
    let mut model = Model::new(vec![subject]);
    for (columns, lines) in [(80, 24), (200, 60)] {
        let (mut takes, mut draws) = (Vec::new(), Vec::new());
        for turn in 0..TURNS {
            let ledger = Arc::new(ledger(60 + turn));
            let began = processor_time();
            model.take(0, Snapshot { ledger, ..Snapshot::default() });
            takes.push(processor_time() - began);
            let area = Rect::new(0, 0, columns, lines);
            let mut buffer = Buffer::empty(area);
            let began = processor_time();
            draw(&mut model, area, &mut buffer, true);
            draws.push(processor_time() - began);
        }
        told(&format!("new figures, {columns}x{lines}"), takes);
        told(&format!("drawn, {columns}x{lines}"), draws);
    }
}
