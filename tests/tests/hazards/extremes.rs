//! Targets that have very much of something: the target bears no trace, and what heapattach takes
//! from the machine is bounded.

use std::{fs, process::Command, time::Duration};

use heapattach_tests::{
    Folder,
    command::{Heapattach, Hooks},
    compile::Source,
    fixture::{Fixture, Launch},
    report::Report,
    skip::skip,
    trace::Before,
};

const WINDOW: Duration = Duration::from_millis(300);

/// Looks at the fixture for a moment; heapattach may take so much memory.
fn look(mut fixture: Fixture, what: &str, memory: u64) -> Report {
    fixture.advance(10);
    // Reading the stacks of very many threads twice takes minutes.
    let threads = fs::read_dir(format!("/proc/{}/task", fixture.pid())).map_or(0, Iterator::count);
    let is_small = threads < 100;
    let before = is_small.then(|| Before::of(&mut fixture).loose());
    let command = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto);
    let report = command.limit(Duration::from_secs(300)).run().expect(0).report();
    let calls: u64 = report.functions.iter().map(|function| function.calls).sum();
    assert!(calls > 0, "nothing was counted: {report:?}");
    match before {
        Some(before) => before.assert_equal(&mut fixture, &format!("after a look at {what}")),
        None => fixture.advance(10),
    }
    fixture.assert_well();
    let taken = report.expense.memory;
    let stopped: Vec<_> = report.stops.iter().map(|stop| stop.stopped_us / 1e3).collect();
    println!(
        "{what}: {} MiB, {} ms of processor time, stops of {stopped:.1?} ms",
        taken >> 20,
        report.expense.cpu_us / 1000
    );
    assert!(taken > 0 && taken < memory, "{what}: {taken} bytes of memory");
    fixture.finish();
    report
}

#[test]
fn ten_thousand_threads() {
    let Some(launch) = Launch::new("many_threads.c") else { return };
    let limit = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    if limit.trim().parse::<u64>().unwrap_or(0) < 16_384 {
        return skip("fewer than 16,384 pids here", "sysctl kernel.pid_max=65536");
    }
    let report = look(launch.arg("10000").start(), "10,000 threads", 128 << 20);
    let stopped = report.stops.iter().map(|stop| stop.threads).max();
    assert!(stopped >= Some(10_000), "only {stopped:?} threads were stopped");
}

#[test]
fn five_thousand_modules() {
    let Some(launch) = Launch::new("crowded.c") else { return };
    let Some(plugin) = Source::new("loop_plugin.c").build() else { return };
    let folder = Folder::new("modules");
    let launch = launch.arg("modules").arg("5000").arg(plugin).arg(&folder.0);
    look(launch.start(), "5,000 modules", 512 << 20);
}

#[test]
fn forty_gibibytes_of_address_space() {
    let Some(launch) = Launch::new("crowded.c") else { return };
    let Some(fixture) = launch.arg("space").arg("40").start_if_allowed() else {
        return skip("no 40 GiB of address space here", "sysctl vm.overcommit_memory=1");
    };
    look(fixture, "40 GiB and 20,000 mappings", 128 << 20);
}

/// A gibibyte of debug information that no address needs: only what is needed is read.
#[test]
fn very_much_debug_information() {
    let Some(program) = Source::new("steady.c").flag("-g").build() else { return };
    let folder = Folder::new("debug");
    let (bulk, fat) = (folder.0.join("bulk"), folder.0.join("steady"));
    let file = fs::File::create(&bulk).expect("room for an empty file");
    file.set_len(1 << 30).expect("a hole takes no room");
    let section = format!(".debug_bulk={}", bulk.display());
    let made =
        Command::new("objcopy").arg("--add-section").arg(section).args([&program, &fat]).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip("no objcopy here, or no room for 1 GiB", "apt-get install binutils");
    }
    look(Launch::program(&fat).start(), "1 GiB of debug information", 128 << 20);
}
