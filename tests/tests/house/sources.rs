//! The sources of the project, as the tests of the house read them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace").to_owned()
}

/// Rust files below a folder.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// What lies in a folder.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).expect("a folder of ours");
    all.flatten().map(|entry| entry.path()).collect()
}

/// Rust files below a folder of the workspace: their names from its root, and their text.
pub fn sources(folder: &str) -> Vec<(String, String)> {
    let root = root();
    let all = rust_files(&root.join(folder)).into_iter();
    all.map(|path| {
        let name = path.strip_prefix(&root).expect("below the root").display().to_string();
        (name, read(&path))
    })
    .collect()
}

/// A text of the project.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The folders of the workspace's members, from its root: `cli/text`.
pub fn members() -> Vec<String> {
    let text = read(&root().join("Cargo.toml"));
    let list = text.split("\nmembers = [").nth(1).expect("a list of members");
    let list = list.split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Code without comments, and without what only tests are built with.
pub fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules that `text` has for tests only, without their ending: of `#[cfg(test)] mod tests;` in
/// `a/mod.rs` and in `a.rs` it is `a/tests`.
fn for_tests(path: &Path, text: &str) -> Vec<PathBuf> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = match stem.as_ref() {
        "lib" | "main" | "mod" => path.with_file_name(""),
        _ => path.with_extension(""),
    };
    let marked = ["#[cfg(test)]\n", "#[cfg(all(test"].into_iter();
    let declared = marked.flat_map(|mark| text.split(mark).skip(1)).filter_map(|after| {
        let (head, _) = after.split_once(';')?;
        if let Some((_, named)) = head.split_once("#[path = \"") {
            let name = named.split('"').next()?.trim_end_matches(".rs");
            return Some(path.with_file_name(name));
        }
        let (_, name) = head.rsplit_once("mod ")?;
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        is_name.then(|| folder.join(name))
    });
    declared.collect()
}

/// Rust files below a folder and their [`code`], without those that only tests are built with.
pub fn product(folder: &Path) -> Vec<(PathBuf, String)> {
    let all: Vec<_> =
        rust_files(folder).into_iter().map(|path| (path.clone(), read(&path))).collect();
    let of_tests: Vec<_> = all.iter().flat_map(|(path, text)| for_tests(path, text)).collect();
    let is_of_tests =
        |path: &Path| of_tests.iter().any(|one| path.with_extension("").starts_with(one));
    let rest = all.into_iter().filter(|(path, _)| !is_of_tests(path));
    rest.map(|(path, text)| (path, code(&text))).collect()
}

/// What a command of cargo writes, in the workspace, without a network.
pub fn cargo(words: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root()).arg(words[0]).arg("--offline").args(&words[1..]);
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
