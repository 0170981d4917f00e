//! An `mmap` that is made of another one: what the program asks for is one mapping each, by the place in
//! the program; what the wrapper maps for itself is its own.

use heapattach_tests::{
    command::{Heapattach, Outcome},
    compile::Source,
    report::{Report, fresh_file},
    truth::EXACT,
};

const SHAPES: [&[&str]; 6] =
    [&[], &["-foptimize-sibling-calls"], &["-DALIGNED"], &["-DHEADER"], &["-DBOOKS"], &["-DLATER"]];
const TURNS: &str = "3000";
const PAGE: u64 = 4096;

/// What program and wrappers know: bytes mapped and still mapped; calls of mmap, munmap, mremap that the
/// program made, and mappings that the wrappers made for themselves.
struct Told {
    maps: (u64, u64),
    calls: [u64; 3],
    own: u64,
}

fn numbers(output: &str, name: &str) -> Vec<u64> {
    let line = output.lines().find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {output}"));
    line.split(' ').map(|word| word.parse().expect("a number")).collect()
}

fn told(output: &str, wrappers: u64) -> Told {
    let maps = numbers(output, "maps ");
    // All of them count in the same words.
    let calls: Vec<u64> = numbers(output, "wrapper ").iter().map(|sum| sum / wrappers).collect();
    Told { maps: (maps[0], maps[1]), calls: [calls[0], calls[1], calls[2]], own: calls[3] }
}

/// The program with these libraries before it.
fn run(libraries: &[&[&str]], options: &[&str]) -> Option<(Outcome, Report)> {
    let program = Source::new("map_wrapped.c").build()?;
    let build = |flags: &&[&str]| {
        flags.iter().fold(Source::new("map_wrapper.c"), |source, flag| source.flag(flag)).build()
    };
    let built: Option<Vec<_>> = libraries.iter().map(build).collect();
    let list: Vec<String> = built?.iter().map(|path| path.display().to_string()).collect();
    let file = fresh_file();
    let command = Heapattach::new(["run", "--json", "--report"]).arg(&file);
    let command = options.iter().fold(command, |command, option| command.arg(*option));
    let preload = format!("LD_PRELOAD={}", list.join(":"));
    let outcome = command.arg("--").arg("env").arg(preload).arg(program).arg(TURNS).run().expect(0);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    let report =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}", outcome.stderr));
    Some((outcome, report))
}

/// Bytes mapped and still mapped, of the places that are in any of these functions.
fn mapped(report: &Report, functions: &[&str]) -> (u64, u64) {
    let is_in = |site: &&heapattach_tests::report::Site| {
        functions.iter().any(|function| site.is_in(function))
    };
    let sites = report.heap.sites.iter().filter(is_in);
    sites.fold((0, 0), |(mapped, live), site| (mapped + site.mapped, live + site.mapped_live))
}

fn assert_counted_once(libraries: &[&[&str]], options: &[&str], sees_books: bool) {
    let Some((outcome, report)) = run(libraries, options) else { return };
    let what = format!("{libraries:?}, {options:?}");
    let Told { maps, calls, own } = told(&outcome.stdout, libraries.len() as u64);
    let own = if sees_books { own } else { 0 };
    assert!(report.is_complete(), "{what}: {:?}", report.heap.lost);
    assert!(calls.iter().all(|&calls| calls > 500), "{what}: {}", outcome.stdout);
    let truth = (maps.0 + own * PAGE, maps.1 + own * PAGE);
    let sites = &report.heap.sites;
    assert_eq!(mapped(&report, &["site_map", "site_remap"]), maps, "{what}: {sites:#?}");
    let all = (report.heap.mapped, report.heap.mapped_live);
    assert_eq!(all, truth, "{what}: {sites:#?}");
    // The C library has other names for the same.
    let names = [&["mmap", "mmap64"][..], &["munmap", "__munmap"], &["mremap", "__mremap"]];
    let seen = names.map(|names| names.iter().map(|name| report.calls_of(name)).sum::<u64>());
    let asked = [calls[0] + own, calls[1], calls[2]];
    assert_eq!(seen, asked, "{what}: {:?}", report.functions);
}

#[test]
fn what_a_wrapper_of_mmap_is_asked_for_counts_once() {
    for shape in SHAPES {
        assert_counted_once(&[shape], &EXACT, true);
        assert_counted_once(&[shape], &["--every", "1MiB", "--on-full", "wait"], true);
    }
}

#[test]
fn wrappers_of_wrappers_of_mmap_count_once() {
    assert_counted_once(&[&[], &["-DHEADER"]], &EXACT, true);
    // The last: what it unmaps goes through no other wrapper, which would count it.
    assert_counted_once(&[&["-DHEADER"], &[], &["-DALIGNED"]], &EXACT, true);
}

#[test]
fn wrappers_of_mmap_count_once_by_slots() {
    // What a library was told by the loader is in no slot: there its books are not seen.
    for shape in SHAPES {
        assert_counted_once(&[shape], &[&EXACT[..], &["--hooks", "slots"]].concat(), false);
    }
}
