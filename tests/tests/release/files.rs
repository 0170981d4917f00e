//! The files of a release: that all are listed with their sums, and that the command needs nothing.

use std::{collections::BTreeSet, fs, process::Command};

use heapattach_tests::{
    command::Heapattach,
    release::files::{Release, TARGET, workspace},
};
use object::{Object, ObjectSymbol, read::elf::ElfFile64};

/// So many bytes at most: a file that is copied into containers.
const LARGEST: usize = 26 << 20;

#[test]
fn every_file_is_listed_with_its_sum() {
    let Some(release) = Release::found() else { return };
    let mut check = Command::new("sha256sum");
    check.args(["--quiet", "--check", "--strict", "SHA256SUMS"]).current_dir(release.folder());
    assert!(check.status().expect("a program of coreutils").success());
    let sums = fs::read_to_string(release.folder().join("SHA256SUMS")).expect("it was there");
    let mut listed: BTreeSet<_> = sums.lines().filter_map(|line| line.split("  ").nth(1)).collect();
    listed.insert("SHA256SUMS");
    let files = fs::read_dir(release.folder()).expect("it was there").flatten();
    let names: Vec<_> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    assert_eq!(listed, names.iter().map(String::as_str).collect());
    assert_eq!(listed.len(), 5, "{listed:?}");
}

#[test]
fn the_command_is_one_file_that_needs_no_other_and_names_no_folder_of_its_making() {
    let Some(release) = Release::found() else { return };
    let bytes = fs::read(release.command()).expect("it was there");
    assert!(bytes.len() <= LARGEST, "{} bytes", bytes.len());
    let file = ElfFile64::<object::Endianness>::parse(&*bytes).expect("an ELF file");
    let libraries = file.imports().expect("its tables are sound").count();
    assert!(libraries == 0 && file.dynamic_symbols().all(|symbol| symbol.is_definition()));
    let interpreter = file
        .elf_program_headers()
        .iter()
        .any(|header| header.p_type.get(object::Endianness::Little) == object::elf::PT_INTERP);
    assert!(!interpreter, "it asks for a loader");
    let home = std::env::var("HOME").unwrap_or_default();
    let folders = [workspace().to_str().expect("a path of ours"), &*format!("{home}/.cargo")];
    for folder in folders {
        let found = bytes.windows(folder.len()).any(|part| part == folder.as_bytes());
        assert!(!found, "{folder} is in it");
    }
}

/// The commit that is checked out, if the source is in a repository that git reads.
fn commit() -> Option<String> {
    let output =
        Command::new("git").arg("-C").arg(workspace()).args(["rev-parse", "HEAD"]).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).expect("a number").trim().to_owned())
}

#[test]
fn the_version_names_the_commit_and_what_it_was_built_for() {
    let short = Heapattach::new(["-V"]).run().expect(0).stdout;
    assert_eq!(short, format!("heapattach {}\n", env!("CARGO_PKG_VERSION")));
    let long = Heapattach::new(["--version"]).run().expect(0).stdout;
    assert!(long.starts_with(&short), "{long}");
    for line in ["\nfeatures:  ", "\ntarget:    ", "\ncompiler:  rustc ", "\nruns on:   Linux 5.6"]
    {
        assert!(long.contains(line), "{long}");
    }
    // A command that was built elsewhere was built from another commit.
    if let (None, Some(commit)) = (std::env::var_os("HEAPATTACH_UNDER_TEST"), commit()) {
        assert!(long.contains(&format!("\ncommit:    {commit}\n")), "{commit}: {long}");
    }
    let Some(release) = Release::found() else { return };
    let output = Command::new(release.command()).arg("--version").output().expect("it runs");
    let told = String::from_utf8(output.stdout).expect("text");
    for line in ["features:  debuginfod, push\n".to_owned(), format!("target:    {TARGET}\n")] {
        assert!(told.contains(&line), "{told}");
    }
}
