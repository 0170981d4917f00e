//! What other programs' readers say of mapped memory in our files: as much as was mapped, of its own kind,
//! and nothing twice.

use serde_json::Value;

use super::{
    Format,
    reader_cases::Shelf,
    reader_tests::{GO, after, number},
    web_reader_tests::{dh_view, firefox, grouped},
};
use heapattach_ledger::{Ledger, Metric};

const BUFFER: u64 = 64 << 10;

/// Of every tenth row something was mapped, and the half of it is still.
fn shelf(name: &str) -> Shelf {
    let mut shelf = Shelf::new(name);
    let Ledger { rows, total, .. } = &mut shelf.ledger;
    for (number, row) in (0..).zip(rows.iter_mut()).step_by(10) {
        (row.mapped, row.mapped_live) = (2 * BUFFER * (number + 1), BUFFER * (number + 1));
        total.mapped += row.mapped;
        total.mapped_live += row.mapped_live;
    }
    shelf
}

/// What the program mapped itself, and still has: an allocator was not the first that was called.
fn own(shelf: &Shelf) -> u64 {
    let ledger = &shelf.ledger;
    let own = ledger.rows.iter().filter(|row| shelf.cause(row.stack) == 0);
    let own: u64 = own.map(|row| row.mapped_live).sum();
    assert!(own > 0 && own < ledger.total.mapped_live, "both kinds");
    own
}

/// Blocks and what the program mapped itself.
fn live(shelf: &Shelf) -> u64 {
    shelf.total(Metric::Live).0 + own(shelf)
}

#[test]
fn go_tool_pprof_has_mapped_memory_beside_blocks() {
    let shelf = shelf("mapped-pprof");
    let file = shelf.put(Format::Pprof, Metric::Live);
    let file = file.display();
    for (index, total) in [
        ("inuse_space", shelf.total(Metric::Live).0),
        ("mapped_space", shelf.ledger.total.mapped),
        ("mapped_live_space", shelf.ledger.total.mapped_live),
    ] {
        let ask = format!("tool pprof -top -unit=bytes -sample_index={index} {file}");
        let Some(told) = shelf.ask("go", &ask, GO) else { return };
        assert!(told.contains(&format!(" of {total}B total")), "{index} {total}: {told}");
    }
}

#[test]
fn heaptrack_print_has_mapped_memory_among_what_is_in_use() {
    let shelf = shelf("mapped-heaptrack");
    let file = shelf.put(Format::Heaptrack, Metric::Live);
    let ask =
        format!("-f {} -F leaked --flamegraph-cost-type leaked -p 0 -a 0 -T 0", file.display());
    if shelf.ask("heaptrack_print", &ask, "apt-get install heaptrack").is_none() {
        return;
    }
    let stacks = std::fs::read_to_string(shelf.folder.join("leaked")).unwrap();
    let sum = |wanted: fn(&str) -> bool| {
        let told = stacks.lines().filter(|line| wanted(line));
        told.map(|line| number(line.rsplit(' ').next().unwrap())).sum::<u64>()
    };
    assert_eq!(sum(|_| true), live(&shelf));
    assert_eq!(sum(|line| line.contains("[mapped]")), own(&shelf), "its own kind");
}

#[test]
fn google_pprof_and_jeprof_have_mapped_memory_among_what_is_in_use() {
    let shelf = shelf("mapped-perl");
    let file = shelf.put(Format::Heapprofile, Metric::Live);
    let all = "--text --show_bytes --nodefraction=0 --edgefraction=0 --nodecount=100000";
    for (program, package) in [("google-pprof", "google-perftools"), ("jeprof", "libjemalloc-dev")]
    {
        let ask = format!("{all} --inuse_space {}", file.display());
        let cure = format!("apt-get install {package}");
        let Some(told) = shelf.ask(program, &ask, &cure) else { continue };
        assert_eq!(number(after(&told, "Total: ")), live(&shelf), "{program}");
        let mapped = told.lines().find(|line| line.ends_with(" [mapped]")).unwrap();
        assert_eq!(number(mapped.split_whitespace().next().unwrap()), own(&shelf), "{program}");
    }
}

#[test]
fn ms_print_has_mapped_memory_in_the_end() {
    let shelf = shelf("mapped-massif");
    let file = shelf.put(Format::Massif, Metric::Live);
    let path = file.display().to_string();
    let Some(told) = shelf.ask("ms_print", &path, "apt-get install valgrind") else { return };
    let mut rows = told.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_row = words.len() > 3 && words[0].bytes().all(|byte| byte.is_ascii_digit());
        is_row.then(|| words[2].to_owned())
    });
    assert_eq!(number(&rows.next_back().unwrap()), live(&shelf), "{told}");
}

#[test]
fn dh_view_has_mapped_memory_in_the_end() {
    let shelf = shelf("mapped-dhat");
    let Some(shown) = dh_view(&shelf) else { return };
    let told = shown.split_once("At t-end:").unwrap_or_else(|| panic!("{shown}")).1;
    let told: Vec<_> = told.split_whitespace().take(7).collect();
    assert!(told.contains(&grouped(live(&shelf)).as_str()), "{}: {told:?}", live(&shelf));
}

#[test]
fn the_firefox_profiler_has_mapped_memory_in_its_threads() {
    let shelf = shelf("mapped-firefox");
    let ledger = &shelf.ledger;
    let mut wanted = vec![0; ledger.threads.len()];
    for row in &ledger.rows {
        let own = if shelf.cause(row.stack) == 0 { row.mapped_live } else { 0 };
        wanted[row.thread as usize] += row.sum(Metric::Live).parts().0.bytes + own;
    }
    let file = shelf.put(Format::Firefox, Metric::Live);
    let Some(totals) = firefox(&shelf, &file, wanted.len()) else { return };
    assert_eq!(totals, wanted);
}

#[test]
fn every_format_of_one_number_has_the_same_total() {
    let shelf = shelf("mapped-plain");
    let collapsed = std::fs::read_to_string(shelf.put(Format::Collapsed, Metric::Live)).unwrap();
    let sum = |lines: &mut dyn Iterator<Item = &str>| -> u64 {
        lines.map(|line| number(line.rsplit(' ').next().unwrap())).sum()
    };
    assert_eq!(sum(&mut collapsed.lines()), live(&shelf));
    let mapped = |line: &&str| line.contains(";[mapped] ");
    assert_eq!(sum(&mut collapsed.lines().filter(mapped)), own(&shelf));

    let picture = std::fs::read_to_string(shelf.put(Format::Flamegraph, Metric::Live)).unwrap();
    assert!(picture.contains(&format!("({} bytes), 100.00 %", live(&shelf))));

    let dhat = std::fs::read_to_string(shelf.put(Format::Dhat, Metric::Live)).unwrap();
    let dhat: Value = serde_json::from_str(&dhat).unwrap();
    let points = dhat["pps"].as_array().unwrap().iter();
    assert_eq!(points.map(|point| point["eb"].as_u64().unwrap()).sum::<u64>(), live(&shelf));

    let json = std::fs::read_to_string(shelf.put(Format::Json, Metric::Live)).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["total"]["mapped_live"], shelf.ledger.total.mapped_live,
        "exact, beside blocks"
    );
    let live = json["total"]["live"]["bytes"]["value"].as_f64().unwrap();
    #[allow(clippy::cast_precision_loss)]
    let blocks = shelf.total(Metric::Live).0 as f64;
    assert_eq!(live, blocks);
}
