//! What a program asks the kernel for besides mappings, with who made it ask; and what it maps and unmaps by
//! system calls of its own, which no hook sees.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};

use heapattach_tests::{
    Folder,
    attached::{Attached, INTERRUPTED},
    command::{Heapattach, Hooks},
    compile::{Source, is_there},
    skip::skip,
};
use nix::sys::signal::Signal;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A program that does one thing when it is told to; killed with the test.
struct Program(Child, BufReader<ChildStdout>);

impl Program {
    fn start(program: &PathBuf, what: &str) -> Self {
        let mut command = Command::new(program);
        command.arg(what).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program of ours");
        let output = BufReader::new(child.stdout.take().expect("asked for"));
        let mut program = Self(child, output);
        program.says("ready\n");
        program
    }

    fn says(&mut self, word: &str) {
        let mut line = String::new();
        self.1.read_line(&mut line).expect("it says what it does");
        assert_eq!(line, word);
    }

    fn go(&mut self) {
        self.0.stdin.as_mut().expect("asked for").write_all(b"x").expect("it reads");
        self.says("done\n");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The report of a session in which the program does its thing, and the view of who asked the kernel.
fn session(program: &PathBuf, what: &str, hooks: Hooks, options: &[&str]) -> (Value, Value) {
    let folder = Folder::new(&format!("kernel-calls-{what}-{}", hooks.name()));
    let file = folder.0.join("a.heapattach");
    let mut program = Program::start(program, what);
    let pid = i32::try_from(program.0.id()).expect("a pid");
    let command = Attached::command(pid, hooks).arg("-o").arg(&file);
    let command = options.iter().fold(command, |command, option| command.arg(*option));
    let attached = Attached::open(command).expect("it attaches");
    program.go();
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    let report = running.wait().expect(INTERRUPTED).stdout;
    // It goes on as before.
    program.go_on();
    let view = Heapattach::new(["report", "--view", "kernel", "--json"]).arg(&file);
    let view = view.run().expect(0).stdout;
    let parsed = |text: &str| serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    (parsed(&report), parsed(&view))
}

impl Program {
    fn go_on(&mut self) {
        assert!(matches!(self.0.try_wait(), Ok(None)), "it runs");
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("a child").success(), "it ends well");
    }
}

/// Calls and bytes of one kind that a function asked for.
fn asked(view: &Value, function: &str, kind: &str) -> (u64, u64) {
    let sites = view["sites"].as_array().unwrap_or_else(|| panic!("{view:#}"));
    let own = sites.iter().filter(|site| site["function"] == function);
    own.fold((0, 0), |(calls, bytes), site| {
        let number = |name: &str| site[kind][name].as_u64().expect("a number");
        (calls + number("calls"), bytes + number("bytes"))
    })
}

fn verdict(report: &Value) -> &str {
    report["summary"]["verdict"]["text"].as_str().unwrap_or_else(|| panic!("{report:#}"))
}

#[test]
fn who_moves_the_end_of_the_heap_is_told_once_a_call() {
    let Some(program) = Source::new("kernel_calls.c").build() else { return };
    for hooks in [Hooks::Entry, Hooks::Slots] {
        let (_, view) = session(&program, "heap", hooks, &[]);
        let steps = 256 << 10;
        assert_eq!(asked(&view, "site_break", "grown"), (8, 8 * steps), "{view:#}");
        assert_eq!(asked(&view, "site_break", "shrunk"), (1, 2 * steps), "{view:#}");
        assert_eq!(asked(&view, "main", "grown"), (0, 0), "{view:#}");
    }
}

#[test]
fn pages_freed_by_advice_are_told_and_other_advice_is_not() {
    let Some(program) = Source::new("kernel_calls.c").build() else { return };
    for (hooks, options) in [(Hooks::Entry, &["--all"][..]), (Hooks::Slots, &[])] {
        let (report, view) = session(&program, "advice", hooks, options);
        assert_eq!(asked(&view, "site_discard", "discarded"), (20, 20 * MIB), "{view:#}");
        assert_eq!(asked(&view, "site_hint", "discarded"), (0, 0), "{view:#}");
        // It is neither a block nor a mapping.
        assert_eq!(report["heap"]["mapped"], 0, "{report:#}");
        assert_eq!(report["heap"]["allocated"]["bytes"]["value"], 0.0, "{report:#}");
    }
}

#[test]
fn who_unmaps_is_told_where_everything_is_recorded_and_calls_that_failed_do_not_count() {
    let Some(program) = Source::new("two_ages_mapped.c").build() else { return };
    let folder = Folder::new("kernel-unmaps");
    for (options, known) in
        [(&["--all", "--hooks", "entry"][..], 1), (&["--all", "--hooks", "slots"], 1), (&[], 0)]
    {
        let file = folder.0.join("a.heapattach");
        let command = Heapattach::new([&["run"], options].concat()).arg("-o").arg(&file);
        command.arg("--").arg(&program).arg("10").arg("10").run().expect(0);
        let view = Heapattach::new(["report", "--view", "kernel", "--json"]).arg(&file);
        let view: Value = serde_json::from_str(&view.run().expect(0).stdout).expect("JSON");
        let _ = std::fs::remove_file(&file);
        // Five of each, three pages of one and one page of another.
        let pages = 5 * (16 + 32) + 3 + 1;
        assert_eq!(
            asked(&view, "main", "unmapped"),
            (known * 12, known * pages * 4096),
            "{view:#}"
        );
        assert_eq!(asked(&view, "fail", "unmapped"), (0, 0), "{view:#}");
        assert_eq!(asked(&view, "map", "mapped").1, (60 * 16 + 20 * 32) * 4096, "{view:#}");
    }
}

#[test]
fn who_allocated_when_the_allocator_asked_for_more_is_told() {
    let Some(program) = Source::new("kernel_calls.c").build() else { return };
    let (report, view) = session(&program, "malloc", Hooks::Entry, &[]);
    let (calls, bytes) = asked(&view, "site_malloc", "grown");
    assert!(calls > 100 && bytes > 60 * MIB && bytes < 80 * MIB, "{calls} {bytes}: {view:#}");
    // What the allocator asks for is no mapping of the program's.
    assert_eq!(report["heap"]["mapped"], 0, "{report:#}");
}

#[test]
fn system_calls_of_its_own_are_found_beside_the_list_of_the_kernel() {
    let Some(program) = Source::new("kernel_calls.c").build() else { return };
    let (report, _) = session(&program, "raw", Hooks::Entry, &[]);
    let text = verdict(&report);
    assert!(text.contains(" came by no hooked function: anonymous mappings grew by "), "{text}");
    assert!(text.contains("; of 20.0 MiB of mappings the largest is 20.0 MiB at 0x"), "{text}");
    assert!(
        text.contains("4.0 MiB of recorded mappings were unmapped by no hooked function"),
        "{text}"
    );
    let heap = &report["heap"];
    assert_eq!((&heap["mapped"], &heap["mapped_live"]), (&(6 * MIB).into(), &(2 * MIB).into()));
}

#[test]
fn shared_memory_is_a_mapping_or_found_beside_the_list_of_the_kernel() {
    let Some(program) = Source::new("kernel_calls.c").build() else { return };
    let (report, _) = session(&program, "memfd", Hooks::Entry, &[]);
    assert_eq!(report["heap"]["mapped_live"], 8 * MIB, "{report:#}");
    let (report, _) = session(&program, "shared", Hooks::Entry, &[]);
    let text = verdict(&report);
    assert!(text.contains("the largest is 8.0 MiB at 0x") && text.contains("(/SYSV"), "{text}");
}

#[test]
fn stacks_that_threads_of_musl_unmap_as_their_last_act_are_not_told_as_mapped() {
    if !is_there("musl-gcc") {
        return skip("no musl-gcc here", "apt-get install musl-tools");
    }
    // Its threads do so by a system call of their own: no function can return from it.
    let source = Source::new("kernel_calls.c").compiler("musl-gcc");
    let Some(program) = source.build() else { return };
    let (report, _) = session(&program, "threads", Hooks::Entry, &[]);
    let (mapped, live) = (&report["heap"]["mapped"], &report["heap"]["mapped_live"]);
    let [mapped, live] = [mapped, live].map(|sum| sum.as_u64().expect("a number"));
    let vanished = report["summary"]["vanished"].as_u64().unwrap_or_default();
    // New stacks come to the places of those that are gone. The last may not be gone yet.
    assert!(mapped > 32 << 17 && vanished + live > 0, "{mapped}, {vanished}: {report:#}");
    assert!(live <= mapped / 16, "{live} of {mapped} still: {report:#}");
}

#[test]
fn a_static_program_that_begins_with_brk_is_none_the_worse() {
    // Its first calls of brk come before it has a thread pointer.
    let compilers = [("cc", "-static"), ("musl-gcc", "-static")];
    for (compiler, flag) in compilers {
        if !is_there(compiler) {
            skip(&format!("no {compiler} here"), "apt-get install gcc musl-tools");
            continue;
        }
        let source = Source::new("kernel_calls.c").compiler(compiler).flag(flag);
        let Some(program) = source.build() else { return };
        for what in ["malloc", "advice"] {
            let command = Heapattach::new(["run", "--no-record", "--"]).arg(&program).arg(what);
            let outcome = command.run();
            // Its input has ended: it says that it is ready, and goes.
            assert_eq!(outcome.code(), Some(1), "{compiler} {what}: {}", outcome.stderr);
            let (report, view) = session(&program, what, Hooks::Auto, &[]);
            assert_eq!(report["target"], "restored", "{report:#}");
            if what == "advice" {
                assert_eq!(asked(&view, "site_discard", "discarded").0, 20, "{view:#}");
            }
        }
    }
}
