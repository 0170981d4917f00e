//! Code that was loaded a moment ago, and may be gone again before the session has seen it: every record has
//! its function, its line and its whole stack.

use std::{fs, path::PathBuf, process::Command};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    compile::Source,
    fixture::{Fixture, Launch},
    report::{Report, Site, fresh_file},
    skip::skip,
};

/// Steps of `turns.c`, and how often a plugin that is held is called.
const CLOSED_AT_ONCE: u64 = 1;
const HELD: u64 = 2;
const MANY_A_SECOND: u64 = 3;
const FILTERED: u64 = 4;
const HELD_CALLS: u64 = 40;

/// Bytes that a plugin maps at each call.
const MAPPED: u64 = 8192;

/// The two plugins, which differ in the name of one function and in nothing else that is loaded.
const NAMES: [&str; 2] = ["turn_a", "turn_b"];

fn plugins(flags: &[&str]) -> Option<[PathBuf; 2]> {
    let plugin = |name: &str| {
        let source = Source::new("turn_plugin.c").flag(&format!("-DTURN={name}"));
        flags.iter().fold(source, |source, flag| source.flag(flag)).build()
    };
    Some([plugin(NAMES[0])?, plugin(NAMES[1])?])
}

fn fixture(plugins: &[PathBuf]) -> Option<Fixture> {
    let launch = Launch::new("turns.c")?;
    Some(plugins.iter().fold(launch, |launch, plugin| launch.arg(plugin)).start())
}

/// Where a function of a plugin allocated something.
fn sites<'a>(report: &'a Report, name: &'a str) -> impl Iterator<Item = &'a Site> {
    let is_in = move |site: &&Site| site.frames.iter().any(|frame| frame.function == name);
    report.heap.sites.iter().filter(is_in)
}

/// So many calls of each plugin, each record with its function, its line, and the stack to the end.
#[track_caller]
fn has_all(report: &Report, calls: u64) {
    for name in NAMES {
        let blocks: f64 = sites(report, name).map(|site| site.allocated.blocks.value).sum();
        let mapped: u64 = sites(report, name).map(|site| site.mapped).sum();
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let expected = (calls as f64, calls * MAPPED);
        assert_eq!((blocks, mapped), expected, "{name}: {:#?}", report.heap.sites);
        for site in sites(report, name) {
            let own = site.frames.iter().find(|frame| frame.function == name);
            let own = own.expect("one that is there");
            assert!(own.file.ends_with("turn_plugin.c") && own.line > 0, "{site:#?}");
            let last = site.frames.last().map(|frame| frame.function.as_str());
            assert_eq!(last, Some("_start"), "{site:#?}");
            assert!(site.frames.iter().all(|frame| !frame.function.is_empty()), "{site:#?}");
        }
    }
    assert_eq!(report.stacks.ends.keys().collect::<Vec<_>>(), ["outermost"], "{report:#?}");
}

fn by_run(options: &[&str], program: &[&str]) -> Report {
    let file = fresh_file();
    let mut command = Heapattach::new(["run", "--json", "--all", "--no-record", "--on-full=wait"]);
    command = command.arg("--hide-frames=none").arg("--report").arg(&file);
    for argument in options.iter().chain(&["--"]).chain(program) {
        command = command.arg(*argument);
    }
    let outcome = command.run().expect(0);
    let text = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(&file);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("no report ({error}): {text}\n{}", outcome.stderr);
    })
}

/// The C++ library allocates memory when it is loaded, called from the start of the loader itself.
#[test]
fn plugins_that_are_closed_at_once_are_named_by_run() {
    let Some(plugins) = plugins(&[]) else { return };
    let program = Source::new("turns.c").flag("-Wl,--no-as-needed").flag("-lstdc++");
    let Some(program) = program.build() else { return };
    let [program, first, second] =
        [&program, &plugins[0], &plugins[1]].map(|path| path.to_string_lossy().into_owned());
    for hooks in ["auto", "slots"] {
        let report = by_run(&["--hooks", hooks], &[&program, "60", &first, &second]);
        let at_start = report.heap.sites.iter().find(|site| {
            site.frames.iter().any(|frame| frame.function == "_dl_init")
                && !site.frames.iter().any(|frame| frame.function == "_dl_open")
        });
        assert!(at_start.is_some(), "nothing is asked for at the start: {report:#?}");
        if hooks == "auto" {
            has_all(&report, 60);
        } else {
            // What comes and goes has no slots of ours; what it calls in libc does have.
            assert_eq!(report.stacks.ends.keys().collect::<Vec<_>>(), ["outermost"]);
        }
    }
}

/// As many as by the attach; the program has no pauses then.
#[test]
fn five_hundred_turns_are_named_by_run() {
    let Some(plugins) = plugins(&[]) else { return };
    let Some(program) = Source::new("turns.c").build() else { return };
    let [program, first, second] =
        [&program, &plugins[0], &plugins[1]].map(|path| path.to_string_lossy().into_owned());
    let report = by_run(&[], &[&program, "500", &first, &second]);
    has_all(&report, 500);
}

fn by_attach(flags: &[&str], step: u64, times: u64, calls: u64) {
    let Some(plugins) = plugins(flags) else { return };
    let Some(mut fixture) = fixture(&plugins) else { return };
    let attached = Attached::recording_all(&mut fixture, Hooks::Auto);
    fixture.step(step, times);
    let report = attached.end();
    fixture.assert_well();
    has_all(&report, calls);
    fixture.finish();
}

#[test]
fn plugins_that_are_closed_at_once_are_named_by_attach() {
    by_attach(&[], CLOSED_AT_ONCE, 60, 60);
}

#[test]
fn plugins_without_a_build_id_are_told_apart_as_well() {
    by_attach(&["-Wl,--build-id=none"], CLOSED_AT_ONCE, 60, 60);
}

/// The rate is the program's own, measured before the attach: what we make of it is told, and no verdict.
#[test]
fn a_thousand_loads_a_second_are_named() {
    const TURNS: u64 = 500;
    let Some(plugins) = plugins(&[]) else { return };
    let Some(mut fixture) = fixture(&plugins) else { return };
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let rate = |took_us: u64| 2e6 * TURNS as f64 / took_us.max(1) as f64;
    let alone = rate(fixture.step(MANY_A_SECOND, TURNS));
    let attached = Attached::recording_all(&mut fixture, Hooks::Auto);
    let watched = rate(fixture.step(MANY_A_SECOND, TURNS));
    let report = attached.end();
    println!("{alone:.0} loads a second alone, {watched:.0} while all of them are recorded");
    fixture.assert_well();
    has_all(&report, TURNS);
    fixture.finish();
}

/// Long enough for a table each; then they go and come again.
#[test]
fn plugins_that_were_noticed_one_after_the_other_are_told_apart() {
    by_attach(&[], HELD, 4, 4 * HELD_CALLS);
}

#[test]
fn what_was_loaded_before_the_attach_is_told_apart_from_what_comes_to_its_place() {
    let Some(plugins) = plugins(&[]) else { return };
    let Some(mut fixture) = fixture(&plugins) else { return };
    fixture.begin_step(HELD, 2);
    let attached = Attached::recording_all(&mut fixture, Hooks::Auto);
    fixture.end_step();
    fixture.step(CLOSED_AT_ONCE, 5);
    let report = attached.end();
    fixture.assert_well();
    for name in NAMES {
        let blocks: f64 = sites(&report, name).map(|site| site.allocated.blocks.value).sum();
        assert!(blocks >= 5.0, "{name}: {report:#?}");
    }
    assert_eq!(report.stacks.ends.keys().collect::<Vec<_>>(), ["outermost"], "{report:#?}");
    fixture.finish();
}

/// Where system calls are filtered nothing is looked for, and that is told by its own name.
#[test]
fn filtered_system_calls_are_not_made_and_what_is_cut_says_why() {
    let Some(plugins) = plugins(&["-fomit-frame-pointer"]) else { return };
    let Some(mut fixture) = fixture(&plugins) else { return };
    fixture.step(FILTERED, 0);
    let command = Attached::command(fixture.pid(), Hooks::Auto);
    let command = command.arg("--all").arg("--on-full=wait").arg("--force");
    let attached = Attached::start(command, &mut fixture);
    fixture.step(CLOSED_AT_ONCE, 60);
    let report = attached.end();
    fixture.assert_well();
    let ends = &report.stacks.ends;
    assert!(ends.get("just-loaded").is_some_and(|cut| *cut >= 100), "{ends:?}");
    assert!(!ends.contains_key("no-table"), "{ends:?}");
    fixture.finish();
}

#[test]
fn python_that_imports_has_whole_stacks() {
    let is_there = Command::new("python3").arg("--version").output().is_ok();
    if !is_there {
        return skip("no python3 here", "apt-get install python3");
    }
    let modules = "ctypes sqlite3 ssl decimal lzma bz2 hashlib readline curses multiprocessing";
    let import = format!(
        "for name in '{modules}'.split():\n try: __import__(name)\n except ImportError: pass\n"
    );
    let report = by_run(&["--max-depth=255"], &["python3", "-c", &import]);
    let whole = report.stacks.ends.get("outermost").copied().unwrap_or(0);
    let all: u64 = report.stacks.ends.values().sum();
    let depth = report.stacks.ends.get("depth").copied().unwrap_or(0);
    assert!(all > 1000 && whole > 1000, "{:?}", report.stacks);
    assert!((all - whole - depth) * 1000 <= all, "{:?}", report.stacks);
}
