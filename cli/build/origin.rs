//! Where a build comes from: the commit of its source, its features, its compiler. `--version` prints it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What is said where nothing is known.
const UNKNOWN: &str = "unknown";

/// What `cargo package` writes beside the manifest.
const PACKAGE_NOTE: &str = ".cargo_vcs_info.json";

/// Hexadecimal digits of a commit's name; those of SHA-256 are longer, and cut.
const DIGITS: usize = 40;

/// Passes on what `--version` prints.
pub fn tell(rustc: &Path) {
    println!("cargo::rustc-env=HEAPATTACH_COMMIT={}", commit());
    println!("cargo::rustc-env=HEAPATTACH_FEATURES={}", features());
    println!("cargo::rustc-env=HEAPATTACH_RUSTC={}", compiler(rustc));
}

/// First the word of who builds, since packagers have no repository; then that of `cargo package`: above
/// an unpacked package there may be a repository of something else.
fn commit() -> String {
    println!("cargo::rerun-if-env-changed=HEAPATTACH_COMMIT");
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let told = env::var("HEAPATTACH_COMMIT").ok();
    let plain = |commit: &String| !commit.is_empty() && !commit.contains(char::is_control);
    told.filter(plain)
        .or_else(|| {
            fs::read_to_string(package.join(PACKAGE_NOTE)).ok().and_then(|note| noted(&note))
        })
        .or_else(|| of_repository(&package))
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Reads the note without a reader of JSON, which a build script alone would need.
fn noted(note: &str) -> Option<String> {
    let value = note.split_once("\"sha1\"")?.1.trim_start_matches([':', ' ', '"']);
    let commit = value.get(..DIGITS)?;
    let changed = if note.contains("\"dirty\": true") { " (modified)" } else { "" };
    commit.chars().all(|digit| digit.is_ascii_hexdigit()).then(|| format!("{commit}{changed}"))
}

/// The commit that is checked out, if the manifest is a file of that repository. Whether files were
/// changed since is not said: this would be true only until the next change.
fn of_repository(package: &Path) -> Option<String> {
    git(package, &["ls-files", "--error-unmatch", "Cargo.toml"])?;
    // Both change with a commit. What is not there must not be named: cargo would build each time.
    for file in ["HEAD", "logs/HEAD"] {
        let path = package.join(git(package, &["rev-parse", "--git-path", file])?);
        if path.is_file() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(package, &["rev-parse", "HEAD"])
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Those of the command itself, as cargo names them to build scripts.
fn features() -> String {
    let names = env::vars_os().filter_map(|(name, _)| {
        let feature = name.to_str()?.strip_prefix("CARGO_FEATURE_")?.to_lowercase();
        Some(feature.replace('_', "-"))
    });
    let mut names: Vec<_> = names.filter(|name| name != "default").collect();
    names.sort();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn compiler(rustc: &Path) -> String {
    let output = Command::new(rustc).arg("--version").output().ok();
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(|| UNKNOWN.to_owned(), |text| text.trim().to_owned())
}
