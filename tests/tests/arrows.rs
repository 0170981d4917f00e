//! Who imports whom, and where the fence around unsafe code stands.

use std::{
    collections::BTreeSet,
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

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn payload_and_injector_meet_only_in_the_contract() {
    assert_eq!(members_used("heapattach-abi", "normal,build"), set(&[]));
    assert_eq!(members_used("heapattach-payload", "normal,build"), set(&["heapattach-abi"]));
    assert_eq!(members_used("heapattach-injector", "normal,build"), set(&["heapattach-abi"]));
}

#[test]
fn the_command_has_the_payload_for_its_build_only() {
    let used = members_used("heapattach", "normal");
    assert_eq!(used, set(&["heapattach-abi", "heapattach-injector"]));
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

#[test]
fn unsafe_code_stands_behind_its_fence() {
    let allowed = [
        "cli/src/spawn.rs",
        "injector/src/arch/x86_64.rs",
        "injector/src/proc/pidfd.rs",
        "injector/src/ptrace.rs",
        "injector/src/arch/x86_64/errand.rs",
        "injector/src/shared.rs",
        "injector/src/wait.rs",
        "payload/src/arch/x86_64.rs",
        "payload/src/bounds.rs",
        "payload/src/cells.rs",
        "payload/src/place.rs",
        "payload/src/reach.rs",
    ];
    let product = ["cli/src", "injector/src", "payload/src", "payload/abi/src"];
    let fenced: BTreeSet<String> = product
        .iter()
        .flat_map(|folder| sources(folder))
        .filter(|(_, text)| text.contains("allow(unsafe_code)"))
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
    let holds: Vec<String> = sources("cli/src")
        .into_iter()
        .filter(|(_, text)| text.contains("attach::attach(target"))
        .map(|(name, _)| name)
        .collect();
    // A member is a process of a family; both run in the tracing process.
    let allowed = ["cli/src/household/watching.rs", "cli/src/tracer.rs"];
    let outside: Vec<_> = holds.iter().filter(|name| !allowed.contains(&name.as_str())).collect();
    assert!(!holds.is_empty() && outside.is_empty(), "{holds:?}");
}
