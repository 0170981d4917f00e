//! Programs without a dynamic loader, with another C library, or with an allocator of their own: what
//! is recorded of them is the truth, and nothing is left behind.

use std::{path::Path, time::Duration};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    compile::Source,
    fixture::Launch,
    seed::seed,
    skip::skip,
    trace::Before,
    truth::{EXACT, MARK, ROUND, accounts, assert_exact, run, told},
};

const THREADS: &str = "4";
const TURNS: &str = "2000";
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// A program of a fixture, with flags and compiler of its own.
fn source(file: &str, flags: &[&str], compiler: Option<&'static str>) -> Source {
    let source = flags.iter().fold(Source::new(file), |source, flag| source.flag(flag));
    match compiler {
        Some(compiler) => source.compiler(compiler),
        None => source,
    }
}

/// From the first instruction to the last.
fn a_run_is_exact(source: &Source) {
    let Some(program) = source.build() else { return };
    let seed = seed().to_string();
    let (outcome, report) = run(&EXACT, &program, &[THREADS, TURNS, &seed]);
    assert_exact(&format!("{source:?}, seed {seed}"), &report, &accounts(&outcome.stdout));
}

/// From an attach under load on, twice; and afterwards a program that can be paused is as it was.
fn an_attach_is_exact(launch: Launch, what: &str, can_pause: bool) {
    let mut fixture = launch.arg(THREADS).arg(TURNS).arg(seed().to_string()).start();
    fixture.step(ROUND, 0);
    let mut before = None;
    for session in 0..2 {
        fixture.step(MARK, 0);
        let command = Attached::command(fixture.pid(), Hooks::Auto);
        let command = EXACT.iter().fold(command, |command, option| command.arg(*option));
        let attached = Attached::start(command, &mut fixture);
        fixture.step(ROUND, 0);
        let report = attached.end();
        let truth = accounts(&told(&mut fixture));
        fixture.assert_well();
        assert_exact(&format!("{what}, session {session}"), &report, &truth);
        if session == 0 && can_pause {
            before = Some(Before::of(&mut fixture).loose());
        }
    }
    Heapattach::attach(fixture.pid(), Duration::from_millis(20), Hooks::Auto).run().expect(0);
    if let Some(before) = before {
        before.assert_equal(&mut fixture, "after three sessions");
    }
    fixture.finish();
}

fn is_exact(file: &str, flags: &[&str], compiler: Option<&'static str>) {
    let source = source(file, flags, compiler);
    a_run_is_exact(&source);
    let Some(launch) = Launch::of(&source) else { return };
    an_attach_is_exact(launch, &format!("{source:?}"), !file.ends_with(".rs"));
}

fn is_exact_with_preloaded(file: &str, library: &str, package: &str) {
    let library = Path::new(LIBRARIES).join(library);
    if !library.exists() {
        return skip(
            &format!("no {} here", library.display()),
            &format!("apt-get install {package}"),
        );
    }
    let Some(launch) = Launch::new(file) else { return };
    an_attach_is_exact(launch.env("LD_PRELOAD", &library), &format!("{file}, {library:?}"), true);
}

/// The functions of `pool.cpp`, which takes its memory from malloc in large pieces.
const POOL: [&str; 3] =
    ["Pool::get=alloc:size=arg2", "Pool::put=free:ptr=arg2", "pool_calloc=alloc:size=arg2*arg3"];

#[test]
fn a_pool_that_the_user_names_is_exact() {
    let Some(program) = Source::new("pool.cpp").build() else { return };
    let options: Vec<&str> =
        EXACT.into_iter().chain(POOL.iter().flat_map(|p| ["--hook", p])).collect();
    let (outcome, report) = run(&options, &program, &["5000"]);
    assert_exact("a pool", &report, &accounts(&outcome.stdout));
}

#[test]
fn code_that_knows_its_allocator_finds_the_registers_it_counts_on() {
    const CALLS: u64 = 20_000;
    let ways: [(&[&str], &[&str], [&str; 2]); 2] = [
        (&[], &[], ["rpmalloc", "rpfree"]),
        (
            &["-DBY_POINTER"],
            &["--hook=own_alloc=malloc", "--hook=own_free=free"],
            ["own_alloc", "own_free"],
        ),
    ];
    for (flags, named, functions) in ways {
        let Some(program) = source("known_callee.c", flags, None).build() else { return };
        // Nearly every call takes the way of a few instructions, then none does.
        for options in [&[][..], &["--all", "--on-full=wait"]] {
            for hooks in ["--hooks=auto", "--hooks=entry"] {
                let options = [options, named, &[hooks]].concat();
                let (outcome, report) = run(&options, &program, &[&CALLS.to_string()]);
                let told = outcome.stdout.lines().next();
                assert_eq!(told, Some("20000 calls, 0 lost"), "{options:?}");
                for name in functions {
                    let hooked = report.functions.iter().find(|f| f.function == name);
                    let hooked = hooked.map(|f| (f.via.as_str(), f.calls));
                    assert_eq!(hooked, Some(("entry", CALLS)), "{name}: {options:?}");
                }
            }
        }
    }
}

#[test]
fn a_name_that_nobody_has_is_refused_with_those_that_are_near() {
    let Some(launch) = Launch::new("truth.c") else { return };
    let fixture = launch.arg("1").arg("10").arg("1").start();
    let command = Heapattach::attach(fixture.pid(), Duration::from_millis(20), Hooks::Auto);
    let outcome = command.arg("--hook=site_mallok=malloc").run();
    assert_eq!(outcome.code(), Some(3), "{}", outcome.stderr);
    for word in ["`site_mallok`", "did you mean site_malloc", "untouched"] {
        assert!(outcome.stderr.contains(word), "{word} is not in {}", outcome.stderr);
    }
    fixture.finish();
}

#[test]
fn a_static_program_of_c_is_exact() {
    is_exact("truth.c", &["-static"], None);
}

#[test]
fn a_static_program_that_moves_itself_is_exact() {
    is_exact("truth.c", &["-static-pie"], None);
}

#[test]
fn a_static_program_of_cpp_is_exact() {
    is_exact("truth.cpp", &["-static"], None);
}

#[test]
fn a_static_program_of_rust_is_exact() {
    is_exact("truth.rs", &["-Ctarget-feature=+crt-static"], None);
}

#[test]
fn a_program_with_musl_is_exact() {
    is_exact("truth.c", &[], Some("musl-gcc"));
}

#[test]
fn a_static_program_with_musl_is_exact() {
    is_exact("truth.c", &["-static"], Some("musl-gcc"));
}

#[test]
fn preloaded_jemalloc_is_exact() {
    is_exact_with_preloaded("truth.c", "libjemalloc.so.2", "libjemalloc2");
}

#[test]
fn preloaded_tcmalloc_is_exact() {
    is_exact_with_preloaded("truth.c", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4");
}

#[test]
fn preloaded_mimalloc_is_exact() {
    is_exact_with_preloaded("truth.c", "libmimalloc.so.2", "libmimalloc2.0");
}

#[test]
fn a_jemalloc_that_is_linked_in_is_exact() {
    let archive = format!("{LIBRARIES}/libjemalloc.a");
    if !Path::new(&archive).exists() {
        return skip("no static jemalloc here", "apt-get install libjemalloc-dev");
    }
    is_exact("truth.c", &[&archive, "-lm", "-ldl"], None);
}

#[test]
fn a_program_with_a_sanitizer_is_exact() {
    let source = source("truth.c", &["-fsanitize=address"], None);
    let Some(launch) = Launch::of(&source) else { return };
    an_attach_is_exact(launch, "AddressSanitizer", true);
    let Some(program) = source.build() else { return };
    // Its leak check cannot work in a program that is traced, and ends it with a status of its own.
    let command = Heapattach::new(["run", "--no-record", "--no-follow-exec", "--"]).arg(program);
    command.arg("2").arg("100").arg("1").run().expect(0);
}
