//! A server on tcmalloc that maps its buffers and forgets one in ten of them: the first screen names the
//! function that maps, and how much of it is leaked, to the byte, whichever way it is hooked.

use std::path::{Path, PathBuf};

use heapattach_tests::{
    attached::{Attached, INTERRUPTED},
    command::Heapattach,
    compile::Source,
    fixture::Launch,
    report::fresh_file,
    skip::skip,
    truth::{MARK, places, told},
};
use nix::sys::signal::Signal;
use serde_json::Value;

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4";
const SITE: &str = "server::Buffer::map";
const WAYS: [&[&str]; 3] = [&["--hooks", "entry"], &["--hooks", "slots"], &["--loader", "dlopen"]];
/// Each thread maps as many buffers; a few seconds.
const TURNS: &str = "1000";
/// Buffers of a session: the growth is to be seen in each of its quarters.
const BUFFERS: u64 = 4000;

fn program() -> Option<PathBuf> {
    if !Path::new(LIBRARY).exists() {
        skip(&format!("no {LIBRARY}"), "apt-get install libtcmalloc-minimal4");
        return None;
    }
    Source::new("buffer.cpp").flag(LIBRARY).build()
}

/// The place is named with its line in the first sentence, and its bytes are the truth.
fn assert_named(what: &str, report: &Value, [mapped, live]: [u64; 2]) {
    assert!(live > 256 << 10, "{what}: only {live} bytes leaked");
    let summary = &report["summary"];
    let verdict = summary["verdict"]["text"].as_str().unwrap_or_else(|| panic!("{report:#}"));
    let first = verdict.split(". ").next().unwrap_or_default();
    let line = format!("{SITE}(unsigned long) (buffer.cpp:");
    let is_named =
        [&line, &format!("{SITE} (buffer.cpp:")].iter().any(|name| first.contains(*name));
    assert!(first.starts_with("Mapped memory grows by ") && is_named, "{what}: {verdict}");
    let sites = summary["mapped_sites"].as_array().unwrap_or_else(|| panic!("{report:#}"));
    let site = &sites[0];
    assert!(site["place"].as_str().is_some_and(|place| place.starts_with(SITE)), "{what}: {site}");
    let got = [&site["mapped"], &site["live"]].map(Value::as_u64);
    assert_eq!(got, [Some(mapped), Some(live)], "{what}: {sites:#?}");
}

#[test]
fn forgotten_buffers_of_a_run_are_named_and_counted() {
    let Some(program) = program() else { return };
    // `run` maps the hooks before the program's loader could bring them.
    for options in &WAYS[..2] {
        let file = fresh_file();
        let command = Heapattach::new(["run", "--json", "--no-record", "--report"]).arg(&file);
        let command = options.iter().fold(command, |command, option| command.arg(*option));
        let outcome = command.arg("--").arg(&program).arg(TURNS).run().expect(0);
        let text = std::fs::read_to_string(&file).expect("a report");
        let _ = std::fs::remove_file(&file);
        let report = serde_json::from_str(&text).expect("JSON");
        assert_named(&format!("run {options:?}"), &report, places(&outcome.stdout)[SITE]);
    }
}

#[test]
fn forgotten_buffers_of_a_running_server_are_named_and_counted() {
    let Some(program) = program() else { return };
    for options in WAYS {
        let mut server = Launch::program(&program).arg(TURNS).start();
        server.advance(100);
        server.pause();
        server.step(MARK, 0);
        let command = Heapattach::new(["-p", &server.pid().to_string(), "--json", "--no-record"]);
        let command = options.iter().fold(command, |command, option| command.arg(*option));
        let attached = Attached::start(command, &mut server);
        server.resume();
        server.advance(BUFFERS);
        server.pause();
        let truth = places(&told(&mut server))[SITE];
        let running = attached.into_command();
        running.signal(Signal::SIGINT);
        let outcome = running.wait().expect(INTERRUPTED);
        let report = serde_json::from_str(&outcome.stdout).expect("JSON");
        assert_named(&format!("-p {options:?}"), &report, truth);
        server.resume();
        server.assert_well();
        server.finish();
    }
}

#[test]
fn the_first_screen_names_what_forgets_buffers_in_its_first_lines() {
    let Some(program) = program() else { return };
    let command = Heapattach::new(["run", "--no-record", "--"]).arg(&program).arg(TURNS);
    let outcome = command.run().expect(0);
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| !line.is_empty()).collect();
    let verdict = lines.iter().position(|line| line.starts_with("VERDICT"));
    let verdict = verdict.unwrap_or_else(|| panic!("{}", outcome.stderr));
    let first = lines[verdict..].iter().take(2).copied().collect::<Vec<_>>().join(" ");
    assert!(first.contains(SITE) && first.contains("(buffer.cpp:"), "{}", outcome.stderr);
}
