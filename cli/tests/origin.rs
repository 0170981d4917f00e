//! What a build says of its source: with a repository, from a package, and where there is neither.
#![cfg(target_arch = "x86_64")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use heapattach_test_folder::Folder;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What the build script says in a package at `folder`.
fn told(folder: &Path, environment: &[(&str, &str)]) -> String {
    let out = folder.join("out");
    fs::create_dir_all(&out).unwrap();
    let mut script = Command::new(PathBuf::from(env!("HEAPATTACH_BUILD_SCRIPT")));
    script.env("OUT_DIR", &out).env("RUSTC", env!("HEAPATTACH_BUILD_RUSTC"));
    script.env("TARGET", env!("HEAPATTACH_BUILD_TARGET")).env("CARGO_CFG_TARGET_ARCH", "x86_64");
    script.env("CARGO_MANIFEST_DIR", folder).env_remove("HEAPATTACH_COMMIT");
    // No repository above this folder, should there be one.
    script.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap());
    let output = script.envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn commit(told: &str) -> &str {
    let line = "cargo::rustc-env=HEAPATTACH_COMMIT=";
    told.lines().find_map(|text| text.strip_prefix(line)).unwrap_or_else(|| panic!("{told}"))
}

#[test]
fn a_packaged_source_names_the_commit_it_was_packaged_from() {
    let folder = Folder::new("packaged");
    let note = folder.0.join(".cargo_vcs_info.json");
    for (git, expected) in [
        (format!("{{ \"sha1\": \"{COMMIT}\" }}"), COMMIT.to_owned()),
        (format!("{{ \"sha1\": \"{COMMIT}\", \"dirty\": true }}"), format!("{COMMIT} (modified)")),
        ("{}".to_owned(), "unknown".to_owned()),
        ("{ \"sha1\": \"no number\" }".to_owned(), "unknown".to_owned()),
    ] {
        let text = format!("{{ \"git\": {git}, \"path_in_vcs\": \"cli\" }}");
        fs::write(&note, &text).unwrap();
        assert_eq!(commit(&told(&folder.0, &[])), expected, "{text}");
    }
}

#[test]
fn a_repository_of_something_else_above_is_not_named() {
    let folder = Folder::new("stranger");
    if !folder.has("git") {
        return heapattach_test_folder::skip("no git here", "apt-get install git");
    }
    folder.run("git init -q");
    let identity = "git -c user.name=a -c user.email=a@localhost.localdomain commit -q -m first";
    folder.run(&format!("{identity} --allow-empty"));
    fs::write(folder.0.join("Cargo.toml"), "").unwrap();
    assert_eq!(commit(&told(&folder.0, &[])), "unknown");
    folder.run("git add Cargo.toml");
    folder.run(identity);
    let named = told(&folder.0, &[]);
    assert!(named.contains(".git/HEAD\n") && commit(&named).len() == 40, "{named}");
}

#[test]
fn who_builds_has_the_first_word_and_features_are_named() {
    let folder = Folder::new("told");
    let environment = [
        ("HEAPATTACH_COMMIT", "v0.1.0-distribution"),
        ("CARGO_FEATURE_DEFAULT", "1"),
        ("CARGO_FEATURE_SOME_THING", "1"),
        ("CARGO_FEATURE_ANOTHER", "1"),
    ];
    let told = told(&folder.0, &environment);
    assert_eq!(commit(&told), "v0.1.0-distribution");
    // Those that this very build has may be among them, too.
    let features = told.lines().find(|line| line.contains("HEAPATTACH_FEATURES=")).unwrap();
    assert!(features.contains("another") && features.ends_with("some-thing"), "{features}");
    assert!(!features.contains("default"), "{features}");
}
