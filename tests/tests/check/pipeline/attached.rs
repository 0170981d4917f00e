//! `heapattach check -p` in a pipeline: limits, baselines, suppressions and files are those of a program
//! that is checked from its start; and where nothing can be checked the files say so.

use std::{
    fs,
    path::{Path, PathBuf},
};

use heapattach_tests::{
    check::{self, Stepping},
    command::{Heapattach, Outcome},
    compile::Source,
    deadline::{PATIENCE, wait_until},
};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A program that runs, and a folder for what comes out.
struct Living {
    program: Stepping,
    folder: PathBuf,
}

impl Living {
    fn start(name: &str) -> Option<Self> {
        let program = Stepping::start(&Source::new("leaking_steps.c").build()?, &[]);
        let folder = format!("heapattach-attached-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).expect("a temporary folder");
        Some(Self { program, folder })
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Checked from before a step until after it.
    fn check(&mut self, options: &[&str]) -> Outcome {
        let pid = self.program.pid().to_string();
        let args = [&["check", "-p", &pid, "--max-pause=60s", "--github=off"], options].concat();
        let command = Heapattach::new(args).start();
        wait_until("the attach", PATIENCE, || command.talk().contains("attached to"));
        self.program.step();
        command.signal(Signal::SIGINT);
        command.wait()
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn what_a_process_loses_is_in_every_file() {
    let Some(mut living) = Living::start("files") else { return };
    let (junit, sarif) = (living.path("leaks.xml"), living.path("leaks.sarif"));
    let outcome =
        living.check(&["--junit", &junit, "--sarif", &sarif, "--gen-suppressions"]).expect(23);
    let text = living.read("leaks.xml");
    assert!(text.contains("#1 first_leak ") && text.contains("<failure "), "{text}");
    assert!(text.contains("--max-leak allows 0, found 5400"), "{text}");
    let document: Value = serde_json::from_str(&living.read("leaks.sarif")).expect("JSON");
    let run = &document["runs"][0];
    assert_eq!(run["results"].as_array().map(Vec::len), Some(2), "{run:#}");
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    assert!(outcome.stdout.contains("\nleak:make\n"), "{}", outcome.stdout);
}

#[test]
fn what_is_known_or_suppressed_does_not_fail_a_living_process() {
    let Some(mut living) = Living::start("known") else { return };
    let baseline = living.path("known.json");
    let made = ["--baseline", &baseline, "--update-baseline"];
    let outcome = living.check(&made).expect(0);
    assert!(
        outcome.stdout.contains("KNOWN     5 400 B by the baseline, new 0 B"),
        "{}",
        outcome.stdout
    );
    // The second step loses no more of what is known.
    living.check(&["--baseline", &baseline]).expect(0);
    // The third loses at a new place, too.
    let outcome = living.check(&["--baseline", &baseline]).expect(23);
    assert!(outcome.stdout.contains("--max-leak allows 0, found 1000"), "{}", outcome.stdout);

    let rules = living.path("known.supp");
    fs::write(&rules, "leak:late_leak\nleak:^step_leak$\nleak:never\n").expect("our folder");
    let outcome = living.check(&["--suppressions", &rules, "--print-suppressions"]).expect(0);
    for line in ["Suppressed: 1400 byte(s) in 5 object(s)", "1       1000 leak:late_leak"] {
        assert!(outcome.stdout.contains(line), "{line}: {}", outcome.stdout);
    }
    let strict = ["--suppressions", &rules, "--fail-on-unused-suppressions"];
    living.check(&strict).expect(23);
}

#[test]
fn where_nothing_could_be_checked_the_files_say_so() {
    let Some(living) = Living::start("nothing") else { return };
    let (junit, sarif) = (living.path("leaks.xml"), living.path("leaks.sarif"));
    let pid = living.program.pid().to_string();
    let files = ["--junit", &junit, "--sarif", &sarif, "--github=on"];
    let assert_told = |outcome: &Outcome, why: &str| {
        let text = living.read("leaks.xml");
        assert!(text.contains("errors=\"1\"") && text.contains("<error message="), "{text}");
        assert!(text.contains(why), "{why}: {text}");
        let document: Value = serde_json::from_str(&living.read("leaks.sarif")).expect("JSON");
        let told = &document["runs"][0]["invocations"][0];
        assert_eq!(told["executionSuccessful"], false, "{told:#}");
        assert!(outcome.stderr.contains("::error title=Not checked::"), "{}", outcome.stderr);
        for file in [&junit, &sarif] {
            fs::remove_file(file).expect("it was there");
        }
    };
    // Before anything is touched.
    let args = [&["check", "-p", &pid, "--max-pause", "1ms"], &files[..]].concat();
    assert_told(&Heapattach::new(args).run().expect(3), "raise --max-pause");
    // A program that cannot be started.
    let args = [&["check"], &files[..], &["--", "/nowhere/program"]].concat();
    assert_told(&Heapattach::new(args).run().expect(127), "/nowhere/program");
}

#[test]
fn a_look_during_the_stop_finds_names_after_it() {
    let Some(mut living) = Living::start("stop") else { return };
    let rules = living.path("known.supp");
    fs::write(&rules, "leak:first_leak\n").expect("our folder");
    let options = ["--snapshot", "stop", "--suppressions", &rules, "--json"];
    let outcome = living.check(&options).expect(23);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let look = &report["check"]["look"];
    assert_eq!(look["method"], "stop");
    let [paused, took] = ["paused_us", "took_us"].map(|part| look[part].as_f64().expect(part));
    println!("stopped for {paused} us of {took} us");
    assert!(paused < took, "{look:#}");
    assert_eq!(report["findings"]["suppressed"]["bytes"], 5000, "{}", report["findings"]);
}

#[test]
fn what_constructors_of_late_libraries_lose_is_lost() {
    let source = |flags: &[&str]| {
        let source = Source::new("leaking_constructor.c");
        flags.iter().fold(source, |source, flag| source.flag(flag)).build()
    };
    let Some(program) = source(&[]) else { return };
    let Some(plugin) = source(&["-DPLUGIN", "-shared", "-fPIC"]) else { return };
    let plugin = plugin.to_str().expect("a plain path");
    let result = check::run(Path::new(&program), &[], &[("PLUGIN", plugin)], &[]);
    assert_eq!(result.sum("direct"), (77 + 12, 2), "{}", result.report);
    assert_eq!(result.code, Some(23));
}
