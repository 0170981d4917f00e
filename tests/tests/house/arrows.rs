//! Who imports whom, and where the fence around unsafe code stands.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace").to_owned()
}

/// The members of the workspace that `package` is built with.
fn members_used(package: &str, edges: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["tree", "--offline", "--prefix", "none", "--format", "{p}"])
        .args(["--edges", edges, "--package", package])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names.filter(|n| n.starts_with("heapattach") && *n != package).map(str::to_owned).collect()
}

/// Every member, and the members that it may use: what is not here, nothing depends on.
const ARROWS: [(&str, &[&str]); 26] = [
    ("abi", &[]),
    ("payload", &["abi"]),
    ("process", &["abi"]),
    ("entry", &["abi", "process"]),
    ("injector", &["abi", "entry", "process"]),
    ("text", &[]),
    ("files", &["text"]),
    ("profile", &["abi", "process"]),
    ("ledger", &["profile", "text"]),
    ("symbols", &["files", "process", "text"]),
    ("recording", &["abi", "files", "ledger", "process", "profile", "symbols", "text"]),
    ("reach", &["process"]),
    ("census", &["entry", "process", "reach", "symbols"]),
    ("golang", &["census", "process", "symbols"]),
    ("verdict", &["abi", "census", "ledger", "profile", "text"]),
    ("report", &["census", "ledger", "profile", "reach", "symbols", "text", "verdict"]),
    ("moment", &["census", "files", "reach", "report", "text", "verdict"]),
    (
        "session",
        &[
            "abi",
            "census",
            "entry",
            "files",
            "golang",
            "injector",
            "ledger",
            "process",
            "profile",
            "reach",
            "recording",
            "report",
            "symbols",
            "text",
            "verdict",
        ],
    ),
    ("view", &["ledger", "moment", "profile", "report", "text", "verdict"]),
    ("export", &["ledger", "profile", "reach", "report", "text", "verdict"]),
    ("serve", &["export", "ledger", "profile", "recording", "verdict"]),
    ("push", &["export", "ledger", "text"]),
    ("top", &["ledger", "profile", "text", "verdict", "view"]),
    ("agent", &["text"]),
    // Only tests are built with these.
    ("instruction-count", &[]),
    ("test-folder", &[]),
];

/// The members that `package` names as dependencies of these kinds, without their common beginning.
fn direct(package: &str, edges: &str) -> BTreeSet<String> {
    let short = |name: &str| name.strip_prefix("heapattach-").unwrap_or(name).to_owned();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["tree", "--offline", "--prefix", "none", "--format", "{p}", "--depth", "1"])
        .args(["--edges", edges, "--package", package])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names.filter(|n| n.starts_with("heapattach") && *n != package).map(short).collect()
}

#[test]
fn each_member_uses_those_members_that_it_may() {
    for (name, allowed) in ARROWS {
        let used = direct(&format!("heapattach-{name}"), "normal,build");
        let outside: Vec<_> =
            used.iter().filter(|used| !allowed.contains(&used.as_str())).collect();
        assert!(outside.is_empty(), "{name} may not use {outside:?}");
    }
}

#[test]
fn each_member_is_in_the_table_and_none_leads_back_to_itself() {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's");
    let members = text.lines().filter_map(|line| {
        let (name, place) = line.strip_prefix("heapattach-")?.split_once(" = { path = ")?;
        place.starts_with('"').then(|| name.to_owned())
    });
    let members: BTreeSet<String> = members.collect();
    let table: BTreeSet<String> = ARROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(members, table);
    // The table is in an order in which each uses only what is before it.
    for (at, (name, allowed)) in ARROWS.iter().enumerate() {
        let before: Vec<_> = ARROWS[..at].iter().map(|(name, _)| *name).collect();
        assert!(allowed.iter().all(|used| before.contains(used)), "{name}");
    }
}

#[test]
fn the_command_has_the_payload_for_its_build_only() {
    let used = direct("heapattach", "normal");
    assert!(!used.contains("payload") && used.contains("injector"), "{used:?}");
    assert!(members_used("heapattach", "normal,build").contains("heapattach-payload"));
}

#[test]
fn the_map_of_the_code_names_what_is_there() {
    let guide = fs::read_dir(root().join("cli/guide")).expect("the guide").flatten();
    let texts = guide.map(|chapter| chapter.path()).chain([root().join("README.md")]);
    let texts = texts.map(|path| fs::read_to_string(path).expect("a text of ours"));
    // Fences hold three of the marks that are counted in pairs here.
    let texts: String = texts.map(|text| text.replace("```", "") + "\n").collect();
    let named = texts.split('`').skip(1).step_by(2);
    let places = named.filter(|name| {
        let starts = ["cli/", "injector/", "payload/", "tests/", "fixtures/"];
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_.-".contains(c);
        starts.iter().any(|start| name.starts_with(start)) && name.chars().all(is_plain)
    });
    let places: BTreeSet<&str> = places.collect();
    let missing: Vec<_> = places.iter().filter(|place| !root().join(place).exists()).collect();
    assert!(places.len() > 20 && missing.is_empty(), "{missing:?}");
}

/// The crates from elsewhere, and places of their use, as the guide has them.
fn crates_from_elsewhere(chapter: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let table = chapter.split("| crate | used for | for example in |").nth(1).unwrap_or_default();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split(" | ");
        let (first, last) = (cells.next(), cells.last());
        let [names, places] =
            [first, last].map(|cell| cell.unwrap_or_default().split('`').skip(1).step_by(2));
        (names.collect(), places.collect())
    })
    .collect()
}

#[test]
fn each_crate_from_elsewhere_has_a_job_and_is_used_where_that_is_said() {
    let chapter = fs::read_to_string(root().join("cli/guide/crates.md")).expect("the chapter");
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's");
    let all = workspace.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let all = all.split("\n[").next().unwrap_or_default().lines();
    let names = all.filter_map(|line| Some(line.split_once(" = ")?.0));
    let names: BTreeSet<&str> = names.filter(|name| !name.starts_with("heapattach")).collect();
    let table = crates_from_elsewhere(&chapter);
    let told: BTreeSet<&str> = table.iter().flat_map(|(names, _)| names.iter().copied()).collect();
    assert_eq!(told, names);
    for (names, places) in table {
        assert!(!places.is_empty(), "{names:?}");
        let texts: Vec<String> = places
            .iter()
            .map(|place| fs::read_to_string(root().join(place)).expect("a source of ours"))
            .collect();
        for name in names {
            let path = format!("{}::", name.replace('-', "_"));
            assert!(texts.iter().any(|text| text.contains(&path)), "{name} in {places:?}");
        }
    }
}

/// Source files below `folder`, with their text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of ours").filter_map(Result::ok) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                found.push((name, fs::read_to_string(&path).expect("a source of ours")));
            }
        }
    }
    found
}

/// A folder with more files is not a room but a heap.
const MOST_IN_A_FOLDER: usize = 25;

#[test]
fn no_folder_has_more_than_25_source_files() {
    let mut folders: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (name, _) in
        ["cli", "injector", "payload", "tests", "fixtures"].into_iter().flat_map(sources)
    {
        *folders.entry(Path::new(&name).with_file_name("")).or_default() += 1;
    }
    let large: Vec<_> = folders.iter().filter(|(_, files)| **files > MOST_IN_A_FOLDER).collect();
    assert!(folders.len() > 50 && large.is_empty(), "{large:?}");
}

#[test]
fn unsafe_code_stands_behind_its_fence() {
    let allowed = [
        "cli/instruction_count/src/lib.rs",
        "cli/session/src/fork.rs",
        "injector/src/arch/x86_64.rs",
        "injector/process/src/proc/pidfd.rs",
        "injector/src/trace/ptrace.rs",
        "injector/src/arch/x86_64/errand.rs",
        "injector/src/arch/x86_64/lsan_functions.rs",
        "injector/src/arch/x86_64/brief_call.rs",
        "injector/src/arch/x86_64/processor.rs",
        "injector/src/trace/brief_seize.rs",
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
    let text = fs::read_to_string(root().join("injector/src/lib.rs")).expect("the engine");
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

/// What only code for one processor names: crates, constants and modules,
const OF_A_PROCESSOR: [&str; 6] =
    ["iced_x86", "X86", "arch::x86", "x86_64::", "target_arch", "user_regs"];

/// and registers, however they are written.
const REGISTERS: [&str; 19] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "rip", "r8", "r9", "r10", "r11", "r12",
    "r13", "r14", "r15", "eax", "eflags",
];

/// Names in `text` that are of one processor.
fn names_of_a_processor(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_register = |word: &str| REGISTERS.iter().any(|name| word.eq_ignore_ascii_case(name));
    let words = text.split(|c| !is_name(c)).filter(|word| is_register(word));
    words.chain(OF_A_PROCESSOR.into_iter().filter(|name| text.contains(name))).collect()
}

#[test]
fn what_is_of_one_processor_is_named_below_arch_only() {
    for (planted, count) in [
        ("use iced_x86::Decoder;", 1),
        ("std::arch::x86_64::_rdtsc()", 2),
        ("const AT: Register = X86_64::RSP;", 2),
        ("registers.rip", 1),
        ("// rbx, and r12 to r15", 3),
        ("// noticed; a trip of 15 drips to \"libclang_rt.asan-x86_64.so\"", 0),
    ] {
        assert_eq!(names_of_a_processor(planted).len(), count, "{planted}");
    }
    let (below, above): (Vec<_>, Vec<_>) = sources("injector/src")
        .into_iter()
        .partition(|(name, _)| name.starts_with("injector/src/arch/"));
    assert!(below.iter().any(|(_, text)| !names_of_a_processor(text).is_empty()));
    let outside: Vec<_> = above
        .iter()
        .map(|(name, text)| (name, names_of_a_processor(text)))
        .filter(|(_, names)| !names.is_empty())
        .collect();
    assert!(outside.is_empty(), "{outside:?}");
}
