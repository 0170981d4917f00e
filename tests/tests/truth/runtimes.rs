//! Runtimes of languages are recognised by what they are, told with what is not seen of their memory, and their
//! allocators count once or not at all.

mod library_pools;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};

use heapattach_ledger::{Ledger, Metric};
use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    compile::{Source, fixture, is_there},
    recorded::Recorded,
    report::fresh_file,
    skip::skip,
    truth::whole,
};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A program that says "ready" and goes on until its input ends; killed with the test.
struct Program(Child, BufReader<ChildStdout>);

impl Program {
    fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program that is there");
        let output = BufReader::new(child.stdout.take().expect("asked for"));
        let mut program = Self(child, output);
        program.says("ready");
        program
    }

    fn says(&mut self, word: &str) {
        let mut line = String::new();
        self.1.read_line(&mut line).expect("it says what it does");
        assert_eq!(line.trim_end(), word);
    }

    /// What a session with it says.
    fn report(&self, options: &[&str]) -> Value {
        let pid = self.0.id().to_string();
        let command = Heapattach::new(["-p", &pid, "--duration", "300ms", "--no-record", "--json"]);
        let command = options.iter().fold(command, |command, option| command.arg(*option));
        let outcome = command.run().expect(0);
        serde_json::from_str(&outcome.stdout).expect("JSON")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn names(report: &Value) -> Vec<&str> {
    let all = report["runtimes"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(|runtime| runtime["name"].as_str()).collect()
}

#[test]
fn a_stripped_library_tells_its_runtime_by_what_it_exports() {
    let Some(library) = Source::new("runtime_signs.c")
        .flag("-DLIBRARY")
        .flag("-shared")
        .flag("-fPIC")
        .flag("-s")
        .build()
    else {
        return;
    };
    let Some(program) = Source::new("runtime_signs.c")
        .flag(library.to_str().expect("a plain path"))
        .flag("-s")
        .build()
    else {
        return;
    };
    let report = Program::start(&mut Command::new(program)).report(&[]);
    let expected =
        ["Node.js", "the Java virtual machine", "Ruby", "PHP", "Perl", "LuaJIT", ".NET", "BEAM"];
    assert_eq!(names(&report), expected);
    let blind = report["summary"]["blind"].to_string();
    for told in [
        "with USE_ZEND_ALLOC=0 in its environment",
        "; to see them: heapattach heap -p ",
        "erl +Mea min",
        "dotnet-gcdump collect -p ",
    ] {
        assert!(blind.contains(told), "{told}: {blind}");
    }
}

/// A real one: how it is started, what it is called, and what is told of it.
struct Real {
    program: &'static str,
    cure: &'static str,
    arguments: &'static [&'static str],
    name: &'static str,
    told: &'static str,
}

const REAL: [Real; 9] = [
    Real {
        program: "php",
        cure: "apt-get install php-cli",
        arguments: &["-n", "-r", "echo \"ready\\n\"; while (fgetc(STDIN) !== false);"],
        name: "PHP",
        told: "USE_ZEND_ALLOC=0",
    },
    Real {
        program: "node",
        cure: "apt-get install nodejs",
        arguments: &["-e", "console.log('ready'); process.stdin.resume()"],
        name: "Node.js",
        told: "--heapsnapshot-signal",
    },
    Real {
        program: "ruby",
        cure: "apt-get install ruby",
        arguments: &["-e", "$stdout.puts 'ready'; $stdout.flush; $stdin.read"],
        name: "Ruby",
        told: "ObjectSpace.dump_all",
    },
    Real {
        program: "perl",
        cure: "apt-get install perl",
        arguments: &["-e", "$| = 1; print \"ready\\n\"; <STDIN>"],
        name: "Perl",
        told: "arenas of 4 KiB",
    },
    Real {
        program: "lua",
        cure: "apt-get install lua5.4",
        arguments: &["-e", "print('ready') io.stdout:flush() io.read('*a')"],
        name: "Lua",
        told: "each object is a block of realloc",
    },
    Real {
        program: "luajit",
        cure: "apt-get install luajit",
        arguments: &["-e", "print('ready') io.stdout:flush() io.read('*a')"],
        name: "LuaJIT",
        told: "memory that LuaJIT maps",
    },
    Real {
        program: "erl",
        cure: "apt-get install erlang-base",
        arguments: &["-noshell", "-eval", "io:format(\"ready~n\"), io:get_line(\"\"), halt()."],
        name: "BEAM",
        told: "erl +Mea min",
    },
    Real {
        program: "emacs",
        cure: "apt-get install emacs-nox",
        arguments: &["--batch", "--eval", "(progn (princ \"ready\\n\") (read-string \"\"))"],
        name: "Emacs",
        told: "memory-report",
    },
    Real {
        program: "python3",
        cure: "apt-get install python3",
        arguments: &["-c", "import sys; print('ready', flush=True); sys.stdin.read()"],
        name: "CPython",
        told: "PYTHONMALLOC=malloc",
    },
];

#[test]
fn real_runtimes_are_recognised_and_told_with_the_switch_that_shows_more() {
    std::thread::scope(|scope| {
        for real in &REAL {
            if !is_there(real.program) {
                skip(&format!("no {} here", real.program), real.cure);
                continue;
            }
            scope.spawn(|| {
                let report =
                    Program::start(Command::new(real.program).args(real.arguments)).report(&[]);
                let found = names(&report);
                assert!(found.len() == 1 && found[0].starts_with(real.name), "{found:?}");
                let told = report["runtimes"].to_string();
                assert!(told.contains(real.told), "{}: {told}", real.name);
            });
        }
    });
}

/// Its heap is one that is loaded late, by a launcher.
#[test]
fn a_virtual_machine_that_comes_after_the_start_is_recognised() {
    if !is_there("java") {
        return skip("no java here", "apt-get install openjdk-17-jre-headless");
    }
    let file = fresh_file();
    let command = Heapattach::new(["run", "--no-record", "--json", "--report"]).arg(&file);
    command.arg("--").arg("java").arg("-version").run().expect(0);
    let text = std::fs::read_to_string(&file).expect("a report");
    let _ = std::fs::remove_file(&file);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let found = names(&report);
    assert!(found.len() == 1 && found[0].starts_with("the Java virtual machine"), "{found:?}");
}

/// The bytes that a function of a script caused, by the name and the file of the function.
fn caused(ledger: &Ledger, name: &str, file: &str) -> u64 {
    let rows = ledger.rows.iter().filter(|row| {
        let cause = ledger.cause(row.stack).map(|call| call.function);
        cause.is_some_and(|function| function.name == name && function.file.ends_with(file))
    });
    rows.map(|row| whole(row.measure(Metric::Allocated).bytes.value.floor())).sum()
}

#[test]
fn a_function_of_node_is_the_cause_of_its_buffers() {
    if !is_there("node") {
        return skip("no node here", "apt-get install nodejs");
    }
    let folder = Folder::new();
    let file = Recorded::new();
    let command = Heapattach::new(["run", "--every", "64KiB", "-o"]).arg(&file.0).folder(&folder.0);
    let flags = ["--perf-basic-prof", "--interpreted-frames-native-stack"];
    let command = command.arg("--").arg("node").arg(flags[0]).arg(flags[1]);
    let outcome = command.arg(fixture("node_frames.js")).run().expect(0);
    remove_map(&outcome.stderr);
    let bytes = caused(&file.ledger(), "holdBuffers", "node_frames.js");
    // 64 buffers of a mebibyte, and what else it makes V8 allocate.
    assert!((64 << 20..80 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn a_method_of_java_is_the_cause_of_its_buffers_by_the_map_that_it_writes() {
    if !is_there("javac") {
        return skip("no javac here", "apt-get install default-jdk-headless");
    }
    let folder = Folder::new();
    let source = fixture("KeepsBuffers.java");
    let compiled = Command::new("javac").arg("-d").arg(&folder.0).arg(&source).status();
    assert!(compiled.is_ok_and(|status| status.success()), "the fixture compiles");
    let file = Recorded::new();
    let command = Heapattach::new(["run", "--every", "64KiB", "--scripts", "off", "-o"]);
    let mut command = command.arg(&file.0);
    // Only its own methods are compiled, and at once; the map is written when it ends.
    for word in [
        "--",
        "java",
        "-Xcomp",
        "-XX:CompileCommand=quiet",
        "-XX:CompileCommand=compileonly,KeepsBuffers::*",
        "-XX:CompileCommand=dontinline,KeepsBuffers::keep",
        "-XX:+PreserveFramePointer",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:+DumpPerfMapAtExit",
        "-cp",
    ] {
        command = command.arg(word);
    }
    let outcome = command.arg(&folder.0).arg("KeepsBuffers").run().expect(0);
    remove_map(&outcome.stderr);
    let bytes = caused(&file.ledger(), "KeepsBuffers.keep(int)", "");
    // The first calls may be interpreted still.
    assert!((60 << 20..80 << 20).contains(&bytes), "{bytes}");
}

/// A folder of the test's own.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = fresh_file().with_extension("folder");
        std::fs::create_dir_all(&path).expect("the temporary folder is ours to write");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes the map that a process left, which was attached to as this says.
fn remove_map(talk: &str) {
    let pid = talk.split("attached to ").nth(1).and_then(|rest| rest.split(' ').next());
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", pid.expect("it was attached to")));
}

#[test]
fn a_setting_that_shows_each_block_is_seen() {
    if !is_there("php") {
        return skip("php is not installed", "apt-get install php-cli");
    }
    let mut command = Command::new("php");
    command.args(REAL[0].arguments).env("USE_ZEND_ALLOC", "0");
    let report = Program::start(&mut command).report(&[]);
    let runtime = &report["runtimes"][0];
    assert_eq!(runtime["is_whole"], true, "{runtime}");
    assert!(!report["summary"]["blind"].to_string().contains("PHP"), "{report:#}");
}

#[test]
fn what_calls_malloc_counts_once_and_what_takes_chunks_is_named() {
    let Some(program) = Source::new("runtime_allocators.c").build() else { return };
    let mut program = Program::start(&mut Command::new(program));
    let pid = program.0.id().to_string();
    let pid = pid.parse().expect("a number");
    let attached = Attached::open(Attached::command(pid, Hooks::Auto).arg("--all"));
    let attached = attached.expect("it attaches");
    program.0.stdin.as_mut().expect("asked for").write_all(b"x").expect("it reads");
    program.says("done");
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    // Ctrl-C, and detached cleanly.
    let outcome = running.wait().expect(130);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let site = |place: &str| {
        let sites = report["summary"]["sites"].as_array().expect("a list");
        let is_it = |site: &&Value| site["place"].as_str().is_some_and(|at| at.starts_with(place));
        let site = sites.iter().find(is_it).unwrap_or_else(|| panic!("no {place}: {report:#}"));
        ["blocks", "bytes"].map(|unit| site["live"][unit]["value"].as_f64().expect(unit))
    };
    assert_eq!(site("keep_strings "), [100.0, 100_000.0]);
    assert_eq!(site("keep_request "), [50.0, 50.0 * 8192.0]);
    let blind = report["summary"]["blind"].to_string();
    assert!(blind.contains("APR's pools: 400.0 KiB of what is in use are chunks"), "{blind}");
}

/// Scripts that say "ready", keep a hundred strings of some 100,000 bytes when they are told to, and wait.
const KEEPING: [(&str, &str, &[&str]); 2] = [
    (
        "perl",
        "apt-get install perl",
        &[
            "-e",
            "$| = 1; print qq(ready\n); <STDIN>; push @kept, 'x' x (100_000 + $_) for 1..100; \
             print qq(done\n); <STDIN>",
        ],
    ),
    (
        "ruby",
        "apt-get install ruby",
        &[
            "-e",
            "$stdout.sync = true; puts 'ready'; $stdin.gets; \
             kept = (1..100).map { |i| 'x' * (100_000 + i) }; puts 'done'; $stdin.gets; kept.size",
        ],
    ),
];

/// Their own functions (`Perl_safesysmalloc`, `ruby_xmalloc`) call malloc for each: what it returns counts once.
#[test]
fn strings_of_perl_and_ruby_count_once() {
    for (program, cure, arguments) in KEEPING {
        if !is_there(program) {
            skip(&format!("no {program} here"), cure);
            continue;
        }
        let mut script = Program::start(Command::new(program).args(arguments));
        let pid = script.0.id().to_string().parse().expect("a number");
        let attached = Attached::open(Attached::command(pid, Hooks::Auto).arg("--all"));
        let attached = attached.expect("it attaches");
        script.0.stdin.as_mut().expect("asked for").write_all(b"\n").expect("it reads");
        script.says("done");
        let running = attached.into_command();
        running.signal(Signal::SIGINT);
        let outcome = running.wait().expect(130);
        let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        let live = report["heap"]["live"]["bytes"]["value"].as_f64().expect("a number");
        // The string that an operator keeps for its next result, and tables.
        let truth = 100.0 * 100_000.0 + 5_050.0;
        assert!(live >= truth && live <= truth + 400_000.0, "{program}: {live}, {truth} kept");
    }
}
