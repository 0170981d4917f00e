//! The package of Debian: that dpkg installs and removes it, and that lintian has nothing to say.

use std::{fs, path::Path, process::Command};

use heapattach_tests::{Folder, compile::is_there, release::files::Release, skip::skip};
use nix::unistd::Uid;

/// Some of its files; each is of another kind.
const FILES: [&str; 9] = [
    "usr/bin/heapattach",
    "usr/include/heapattach.h",
    "usr/share/bash-completion/completions/heapattach",
    "usr/share/doc/heapattach/changelog.gz",
    "usr/share/doc/heapattach/copyright",
    "usr/share/doc/heapattach/licenses.txt.gz",
    "usr/share/man/man1/heapattach-check.1.gz",
    "usr/share/man/man7/heapattach-install.7.gz",
    "usr/share/zsh/vendor-completions/_heapattach",
];

/// A root file system whose dpkg has nothing installed.
fn empty_root() -> Folder {
    let root = Folder::new("package");
    let database = root.0.join("var/lib/dpkg");
    for name in ["info", "updates", "triggers"] {
        fs::create_dir_all(database.join(name)).expect("a folder of ours");
    }
    fs::write(database.join("status"), "").expect("a folder of ours");
    root
}

fn dpkg(root: &Path, words: &[&str]) -> String {
    let mut command = Command::new("dpkg");
    command.arg(format!("--root={}", root.display())).args(words);
    let output = command.output().expect("dpkg was there");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {told}");
    String::from_utf8(output.stdout).expect("text")
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let output = Command::new("find").args([".", "-type", "f"]).current_dir(folder).output();
    let text = String::from_utf8(output.expect("find").stdout).expect("names of ours");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn dpkg_installs_it_and_leaves_nothing_when_it_is_removed() {
    let Some(release) = Release::found() else { return };
    if !Uid::effective().is_root() || !is_there("dpkg") {
        return skip("packages are installed by dpkg and root", "run the tests as root, on Debian");
    }
    let (root, package) = (empty_root(), release.file("_amd64.deb"));
    let package = package.to_str().expect("a path of ours");
    dpkg(&root.0, &["-i", package]);
    for file in FILES {
        assert!(root.0.join(file).is_file(), "{file}: {:?}", files(&root.0));
    }
    assert_eq!(dpkg(&root.0, &["--verify", "heapattach"]), "");
    let installed = root.0.join("usr/bin/heapattach");
    assert!(fs::read(&installed).ok() == fs::read(release.command()).ok(), "another command");
    let completions = root.0.join("usr/share/bash-completion/completions/heapattach");
    let bash = Command::new("bash").arg("-n").arg(completions).status().expect("bash");
    assert!(bash.success(), "{bash}");

    dpkg(&root.0, &["--purge", "heapattach"]);
    let left: Vec<_> =
        files(&root.0).into_iter().filter(|file| !file.starts_with("./var/")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn it_needs_no_other_package_and_runs_no_script() {
    let Some(release) = Release::found() else { return };
    if !is_there("dpkg-deb") {
        return skip("no dpkg here", "apt-get install dpkg");
    }
    let package = release.file("_amd64.deb");
    let tell = |option: &str| {
        let output = Command::new("dpkg-deb").arg(option).arg(&package).output().expect("dpkg-deb");
        String::from_utf8(output.stdout).expect("text")
    };
    let fields = tell("--field");
    assert!(
        fields.contains(&format!("\nVersion: {}-1\n", env!("CARGO_PKG_VERSION")))
            && !fields.contains("Depends:"),
        "{fields}"
    );
    // Each with the time of the source, and root's.
    let contents = tell("--contents");
    let line = |line: &&str| !line.contains(" root/root ") || line.starts_with("drwxrwx");
    assert_eq!(contents.lines().filter(line).count(), 0, "{contents}");
    let info = tell("--info");
    for script in ["preinst", "postinst", "prerm", "postrm"] {
        assert!(!info.contains(script), "{info}");
    }
}

#[test]
fn lintian_has_no_errors_and_no_warnings() {
    let Some(release) = Release::found() else { return };
    if !is_there("lintian") {
        return skip("no lintian here", "apt-get install lintian");
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--tag-display-limit", "0"]);
    let output = lintian.arg(release.file("_amd64.deb")).output().expect("lintian was there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
