//! Call stacks through functions that only `.debug_frame` tells how to unwind, as the functions
//! themselves say they are: `fixtures/stacks/without_tables.c`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use heapattach_tests::{
    attached::Attached,
    compile::{Source, is_there},
    fixture::Launch,
    oracle::{Comparison, Counts, OUTERMOST, Places, RecordedStack, Session, Table, Truth, parse},
    seed::seed,
    skip::skip,
};

/// The fixture.
const STEM: &str = "without_tables";
/// Its steps.
const WORK: u64 = 1;
const TELL: u64 = 2;
/// Allocations of a step.
const ALLOCATIONS: u64 = 2000;

/// What a session recorded, and what the fixture says of its own calls.
struct Told {
    recorded: Vec<RecordedStack>,
    chains: Vec<RecordedStack>,
    places: Places,
}

fn session(program: &Path, meanwhile: impl FnOnce()) -> Told {
    let mut fixture = Launch::program(program).start();
    let pid = fixture.pid();
    let stacks = std::env::temp_dir().join(format!("heapattach-debug-frame-{pid}"));
    meanwhile();
    let attached = Attached::open(Session::command(pid, &stacks));
    let attached = attached.unwrap_or_else(|why| fixture.fail(&why));
    let seed = seed();
    println!("{}, seed {seed}", fixture.name());
    fixture.step(WORK, seed);
    let report = attached.end();
    assert!(report.is_complete(), "lost: {:?}", report.heap.lost);
    let recorded = parse(&fs::read_to_string(&stacks).expect("the stacks")).expect("stacks");
    let _ = fs::remove_file(&stacks);
    fixture.step(TELL, 0);
    let (chains, places) = (fixture.output(), Places::read(format!("/proc/{pid}/maps").as_ref()));
    let (chains, places) = (parse(&chains).expect("chains"), places.expect("a living process"));
    fixture.finish();
    Told { recorded, chains, places }
}

impl Told {
    /// The stacks there must be: the chains, between the one place that calls the allocator and what
    /// calls `main`, neither of which the fixture knows.
    fn comparison(&self) -> Comparison {
        let main = self.chains[0].frames.last();
        let from_main = |stack: &RecordedStack| {
            let at = stack.frames.iter().rposition(|frame| Some(frame) == main)?;
            Some((stack.frames[0], stack.frames[at + 1..].to_vec()))
        };
        let (caller, below) = self.recorded.iter().find_map(from_main).unwrap_or_default();
        let mut counts = Counts::new();
        for chain in &self.chains {
            let frames = [&[caller], &chain.frames[..], &below].concat();
            *counts.entry(frames).or_default() += chain.allocations;
        }
        let table = Table { own: 0..0, counts, unnoted: 0 };
        let truth = Truth { table: &table, certain: &table.counts, places: &self.places };
        Comparison::of(&self.recorded, truth)
    }

    fn assert_whole(&self, what: &str) {
        let comparison = self.comparison();
        comparison.assert_good(what, ALLOCATIONS, 1.0);
        comparison.assert_same_counts(what);
        assert!(comparison.stacks > 250 && comparison.deepest > 12, "{what}: {comparison}");
        // `allocate` and `_start`.
        let both = |stack: &RecordedStack| [Some(stack.frames[0]), stack.frames.last().copied()];
        for at in self.recorded.iter().flat_map(both).flatten() {
            let module = self.places.module(at).unwrap_or_default();
            assert!(module.starts_with(STEM), "{what}: {} at an end", self.places.name(at));
        }
    }
}

fn source() -> Source {
    Source::new(&format!("{STEM}.c"))
}

/// The program in a folder of its own, changed by a command.
struct Copy(PathBuf);

impl Copy {
    fn new(program: &Path, name: &str) -> Self {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("{STEM}-{name}-{}", std::process::id()));
        fs::copy(program, &path).expect("a folder for temporary files");
        Self(path)
    }

    fn change(&self, command: &[&str]) {
        let mut changing = Command::new(command[0]);
        let done = changing.args(&command[1..]).arg(&self.0).status().expect("it is there");
        assert!(done.success(), "{changing:?}: {done}");
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn is_enough_for_whole_stacks() {
    for flag in ["-pie", "-no-pie"] {
        let Some(program) = source().flag(flag).build() else { return };
        session(&program, || ()).assert_whole(flag);
    }
}

#[test]
fn of_clang_is_enough_for_whole_stacks() {
    if !is_there("clang") {
        return skip("no clang here", "apt-get install clang");
    }
    let Some(program) = source().compiler("clang").build() else { return };
    session(&program, || ()).assert_whole("clang");
}

#[test]
fn serves_a_module_without_any_other_table() {
    if !is_there("objcopy") {
        return skip("no objcopy here", "apt-get install binutils");
    }
    let Some(program) = source().flag("-Wl,--no-eh-frame-hdr").build() else { return };
    // Without the header the table is found by its section.
    session(&program, || ()).assert_whole("without .eh_frame_hdr");
    let copy = Copy::new(&program, "without");
    copy.change(&["objcopy", "--remove-section=.eh_frame"]);
    // What says that `_start` is the outermost function is in that other table; but it is where the
    // program begins.
    session(&copy.0, || ()).assert_whole("without .eh_frame");
}

#[test]
fn is_read_compressed() {
    if !is_there("objcopy") {
        return skip("no objcopy here", "apt-get install binutils");
    }
    let Some(program) = source().build() else { return };
    for format in ["zlib", "zstd"] {
        let copy = Copy::new(&program, format);
        copy.change(&["objcopy", &format!("--compress-debug-sections={format}")]);
        session(&copy.0, || ()).assert_whole(format);
    }
}

#[test]
fn is_that_of_the_program_that_runs_not_of_one_that_took_its_name() {
    let [Some(program), Some(other)] = [source().build(), source().flag("-O1").build()] else {
        return;
    };
    let copy = Copy::new(&program, "replaced");
    let replace = || {
        fs::remove_file(&copy.0).expect("a file of ours");
        fs::copy(&other, &copy.0).expect("a folder of ours");
    };
    session(&copy.0, replace).assert_whole("replaced");
}

#[test]
fn is_what_these_stacks_are_whole_by() {
    let Some(program) = source().flag("-g0").build() else { return };
    let told = session(&program, || ());
    let comparison = told.comparison();
    println!("without .debug_frame: {comparison}");
    assert!(comparison.judge(0, 0.5).is_err(), "{comparison}");
    assert!(told.recorded.iter().any(|stack| stack.end != OUTERMOST), "{comparison}");
}
