//! Publishing: only a tag, only its own version, and only what a second build gave, too.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use heapattach_tests::{Folder, compile::is_there, release::files::workspace, skip::skip};

/// Stands for GitHub's own program: writes down its words.
const GH: &str = "#!/bin/sh\nprintf '%s\\n' \"$@\" >\"$(dirname \"$0\")/words\"\n";

const VERSION: &str = "9.8.7";

/// A copy of the script with a changelog of its own, two builds, and a program that takes its words.
fn made() -> Folder {
    let folder = Folder::new("publish");
    for name in [".ci", "bin", "first", "second"] {
        fs::create_dir(folder.0.join(name)).expect("a folder of ours");
    }
    let script = folder.0.join(".ci/publish");
    fs::copy(workspace().join(".ci/publish"), script).expect("the script");
    let gh = folder.0.join("bin/gh");
    fs::write(&gh, GH).expect("a folder of ours");
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    let changelog = format!("# Changelog\n\n## {VERSION}\n\nIs new.\n\n## 0.1.0\n\nWas new.\n");
    fs::write(folder.0.join("CHANGELOG.md"), changelog).expect("a folder of ours");
    for build in ["first", "second"] {
        let build = folder.0.join(build);
        fs::write(build.join(format!("heapattach-{VERSION}-x86_64-linux")), "a command").unwrap();
        sum(&build);
    }
    folder
}

fn sum(build: &Path) {
    let shell = ["-c", "sha256sum heapattach* >SHA256SUMS"];
    assert!(Command::new("sh").args(shell).current_dir(build).status().unwrap().success());
}

fn publish(folder: &Folder, tag: Option<&str>) -> Output {
    let mut script = Command::new(folder.0.join(".ci/publish"));
    let path = std::env::var("PATH").unwrap_or_default();
    script.env("PATH", format!("{}:{path}", folder.0.join("bin").display()));
    script.env_remove("GITHUB_REF_TYPE").args(["first", "second"]).current_dir(&folder.0);
    if let Some(tag) = tag {
        script.env("GITHUB_REF_TYPE", "tag").env("GITHUB_REF_NAME", tag);
    }
    script.output().expect("a script of ours")
}

/// What was asked of GitHub.
fn words(folder: &Folder) -> Option<String> {
    fs::read_to_string(folder.0.join("bin/words")).ok()
}

#[test]
fn a_tag_publishes_all_files_of_its_version() {
    if !is_there("awk") {
        return skip("no awk here", "apt-get install gawk");
    }
    let folder = made();
    let output = publish(&folder, Some("v9.8.7"));
    assert!(output.status.success(), "{output:?}");
    let words = words(&folder).expect("GitHub was asked");
    assert!(words.starts_with("release\ncreate\nv9.8.7\n--verify-tag\n"), "{words}");
    for file in ["heapattach-9.8.7-x86_64-linux", "SHA256SUMS"] {
        assert!(words.contains(&format!("/first/{file}\n")), "{words}");
    }
}

#[test]
fn what_is_no_tag_or_that_of_another_version_publishes_nothing() {
    let folder = made();
    assert!(publish(&folder, None).status.success());
    assert_eq!(words(&folder), None);
    for tag in ["v9.8.6", "9.8.7", "v9.8.7.1"] {
        assert!(!publish(&folder, Some(tag)).status.success(), "{tag}");
    }
    fs::write(folder.0.join("CHANGELOG.md"), "# Changelog\n").expect("a file of ours");
    assert!(!publish(&folder, Some("v9.8.7")).status.success(), "nothing to say of it");
    assert_eq!(words(&folder), None);
}

#[test]
fn builds_that_differ_and_files_that_are_damaged_are_not_published() {
    let folder = made();
    let command =
        |build: &str| folder.0.join(build).join(format!("heapattach-{VERSION}-x86_64-linux"));
    fs::write(command("second"), "another").expect("a file of ours");
    sum(&folder.0.join("second"));
    let output = publish(&folder, Some("v9.8.7"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("two builds"), "{told}");
    fs::write(command("first"), "damaged").expect("a file of ours");
    assert!(!publish(&folder, Some("v9.8.7")).status.success());
    assert_eq!(words(&folder), None);
}
