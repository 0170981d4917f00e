//! What only some files and crates may do: unsafe code, sessions, the command line, and all that is not
//! arithmetic.

use std::collections::BTreeSet;

use super::sources::{members, product, read, root, sources};

#[test]
fn unsafe_code_stands_behind_its_fence() {
    let allowed = [
        "cli/instruction_count/src/lib.rs",
        "cli/session/src/fork.rs",
        "cli/session/src/own_memory.rs",
        "injector/src/arch/x86_64.rs",
        "injector/process/src/page_writes/requests.rs",
        "injector/process/src/proc/pidfd.rs",
        "injector/src/trace/ptrace.rs",
        "injector/src/arch/x86_64/errand.rs",
        "injector/src/arch/x86_64/lsan_functions.rs",
        "injector/src/arch/x86_64/request_code.rs",
        "injector/src/arch/x86_64/brief_call.rs",
        "injector/src/arch/x86_64/processor.rs",
        "injector/src/trace/brief_seize.rs",
        "injector/src/trace/stopped/precedence.rs",
        "injector/src/trace/thread_timer.rs",
        "injector/process/src/shared.rs",
        "injector/src/trace/wait.rs",
        "payload/src/arch/x86_64.rs",
        "payload/src/bounds.rs",
        "payload/src/cells.rs",
        "payload/src/readable.rs",
        "payload/src/section/arch/x86_64.rs",
        "payload/src/shared_word.rs",
    ];
    let product = ["cli", "injector", "payload/src", "payload/abi/src"];
    let fenced: BTreeSet<String> = product
        .iter()
        .flat_map(|folder| sources(folder))
        .filter(|(name, text)| name.contains("/src/") && text.contains("allow(unsafe_code)"))
        .map(|(name, _)| name)
        .collect();
    // Test modules that execute machine code of their own making are fenced in their own files.
    let outside: Vec<_> = fenced
        .iter()
        .filter(|name| !allowed.contains(&name.as_str()) && !name.contains("test"))
        .collect();
    assert!(outside.is_empty(), "unsafe code outside of the fence: {outside:?}");
}

#[test]
fn only_the_tracing_process_holds_a_session() {
    let holds: Vec<String> = sources("cli")
        .into_iter()
        .filter(|(_, text)| text.contains("attach::attach(target"))
        .map(|(name, _)| name)
        .collect();
    // A member is a process of a family; both run in the tracing process.
    let allowed = [
        "cli/session/src/family/watching.rs",
        "cli/session/src/watch/session_start.rs",
        "cli/session/src/tracer.rs",
    ];
    let outside: Vec<_> = holds.iter().filter(|name| !allowed.contains(&name.as_str())).collect();
    assert!(!holds.is_empty() && outside.is_empty(), "{holds:?}");
}

#[test]
fn the_engine_shows_what_it_does_and_hides_its_rooms() {
    let text = read(&root().join("injector/src/lib.rs"));
    let shown: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("pub ")).collect();
    let modules = ["attach", "detach", "family", "inside", "moment", "target", "watch"];
    assert_eq!(shown, modules.map(|name| format!("mod {name};")));
    // This one is for tests and fuzzers.
    assert!(text.contains("#[doc(hidden)]\npub mod inside;"));
    let names_it = |text: &str| {
        let uses = text.split("heapattach_injector::").skip(1);
        uses.filter_map(|all| all.split(';').next()).any(|all| all.contains("inside"))
    };
    let users = sources("cli").into_iter().filter(|(_, text)| names_it(text));
    let outside: Vec<String> =
        users.map(|(name, _)| name).filter(|name| !name.contains("/tests/")).collect();
    assert!(outside.is_empty(), "{outside:?}");
}

#[test]
fn only_the_command_parses_a_command_line() {
    let names_clap = |manifest: &str| manifest.lines().any(|line| line.starts_with("clap"));
    let with: Vec<String> = members()
        .into_iter()
        .filter(|member| names_clap(&read(&root().join(member).join("Cargo.toml"))))
        .collect();
    assert_eq!(with, ["cli"]);
}

#[test]
fn only_the_command_gives_an_exit_status() {
    let names_one = |code: &str| code.contains("ExitCode") || code.contains("process::exit");
    let is_command = |member: &String| member == "cli";
    let has_one = |member: &String| {
        product(&root().join(member).join("src")).iter().any(|(_, code)| names_one(code))
    };
    // The tests have small commands of their own.
    let with: Vec<String> =
        members().into_iter().filter(|one| one != "tests").filter(has_one).collect();
    assert!(with.iter().all(is_command) && with.len() == 1, "{with:?}");
}

/// Crates whose roots promise that they open no file, ask for no time and start no process.
const PURE: [&str; 11] = [
    "cli/agent",
    "cli/export",
    "cli/ledger",
    "cli/profile",
    "cli/reach",
    "cli/report",
    "cli/text",
    "cli/top",
    "cli/verdict",
    "cli/view",
    "injector/entry",
];

/// The one file of theirs that does: it says so, and so does the root of its crate.
const CLOCK: &str = "cli/profile/src/clock.rs";

/// What code names that is not pure.
fn impure(code: &str) -> Vec<&'static str> {
    let names = ["fs::", "File::open", "Instant", "SystemTime", "Command", "thread::spawn"];
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let is_there = |name: &&str| {
        code.match_indices(name).any(|(at, _)| {
            let (before, after) = (&code[..at], &code[at + name.len()..]);
            let is_whole = |c: Option<char>| !c.is_some_and(is_name);
            is_whole(before.chars().next_back())
                && (name.ends_with("::") || is_whole(after.chars().next()))
        })
    };
    names.into_iter().filter(is_there).collect()
}

#[test]
fn pure_crates_have_no_file_no_clock_and_no_process() {
    assert_eq!(impure("use std::{fs::File, time::Instant};"), ["fs::", "Instant"]);
    assert_eq!(impure("Command::new(\"sh\"); offs::x(); CommandLine"), ["Command"]);
    let mut wrong = Vec::new();
    for member in PURE {
        let files = product(&root().join(member).join("src"));
        assert!(files.len() > 4, "{member}");
        for (path, code) in files {
            let names = impure(&code);
            if !names.is_empty() && !path.ends_with(CLOCK) {
                wrong.push((path, names));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(impure(&read(&root().join(CLOCK))), ["Instant"]);
}
