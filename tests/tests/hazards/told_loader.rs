//! Programs that a dynamic loader was told to run (`ld-linux-x86-64.so.2 ./program`), as wrappers do that bring their
//! own C library along: the kernel knows of the loader alone.

use std::{
    fs,
    path::{Path, PathBuf},
};

use heapattach_tests::{
    Folder,
    attached::Attached,
    command::{Heapattach, Hooks},
    compile::Source,
    fixture::Launch,
    report::Report,
    skip::skip,
    trace::Before,
};

const DONE: i32 = 0;
const LEAKS: i32 = 23;

/// The system's loader, and that of musl where it is.
fn loaders() -> Vec<(PathBuf, &'static str)> {
    let machine = std::env::consts::ARCH;
    let glibc = format!("/lib64/ld-linux-{}.so.2", machine.replace('_', "-"));
    let musl = format!("/lib/ld-musl-{machine}.so.1");
    let all = [(glibc, "cc", "libc6"), (musl, "musl-gcc", "musl-tools")];
    let is_there = |(loader, compiler, package): (String, &'static str, &str)| {
        let place = PathBuf::from(&loader);
        if !place.exists() {
            skip(&format!("no {loader} here"), &format!("apt-get install {package}"));
        }
        place.exists().then_some((place, compiler))
    };
    all.into_iter().filter_map(is_there).collect()
}

fn built(file: &str, flags: &[&str], compiler: &'static str) -> Option<PathBuf> {
    flags
        .iter()
        .fold(Source::new(file).compiler(compiler), |source, flag| source.flag(flag))
        .build()
}

/// Attached with each way of hooks: everything is counted, and nothing is left.
fn assert_attached(loader: &Path, program: &Path, hooks: &[Hooks], by: &str) {
    let mut fixture = Launch::program(loader).arg(program).start();
    let before = Before::of(&mut fixture);
    for &hooks in hooks {
        let command = Attached::command(fixture.pid(), hooks).arg("--loader").arg(by);
        let attached = Attached::start(command, &mut fixture);
        fixture.advance(20);
        let report = attached.end();
        assert!(report.calls() > 0, "{loader:?}, {hooks:?}, {by}: nothing was counted");
        // musl's allocator maps and unmaps all the time.
        if by == "map" && !loader.to_string_lossy().contains("musl") {
            before.assert_equal(&mut fixture, &format!("after {hooks:?} by {loader:?}"));
        }
    }
    fixture.finish();
}

#[test]
fn a_program_that_a_loader_was_told_to_run_is_attached_to() {
    for (loader, compiler) in loaders() {
        for flags in [&["-pie", "-fPIE"][..], &["-no-pie"]] {
            let Some(program) = built("steady.c", flags, compiler) else { continue };
            assert_attached(&loader, &program, &[Hooks::Auto, Hooks::Entry, Hooks::Slots], "map");
            // musl never unloads what was loaded.
            if compiler == "cc" {
                assert_attached(&loader, &program, &[Hooks::Auto], "dlopen");
            }
        }
    }
}

#[test]
fn a_program_that_a_loader_was_told_to_run_is_watched_from_its_start() {
    let folder = Folder::new("told-loader");
    for (loader, compiler) in loaders() {
        let Some(program) = built("from_start.c", &[], compiler) else { continue };
        let file = folder.0.join("report");
        let run = Heapattach::new(["run", "--no-record", "--json", "--all", "--report"]).arg(&file);
        run.arg("--").arg(&loader).arg(&program).run().expect(DONE);
        let text = fs::read_to_string(&file).expect("a report");
        let report: Report = serde_json::from_str(&text).expect("JSON");
        assert!(report.calls() >= 1250, "{loader:?}: {} calls only", report.calls());
    }
}

#[test]
fn a_program_that_a_loader_was_told_to_run_is_checked() {
    for (loader, compiler) in loaders() {
        let Some(program) = built("several_leaks.c", &[], compiler) else { continue };
        let check = Heapattach::new(["check", "--"]).arg(&loader).arg(&program).arg("f");
        let told = check.run().expect(LEAKS).stderr;
        assert!(told.contains("several_leaks"), "{loader:?}: {told}");
    }
}
