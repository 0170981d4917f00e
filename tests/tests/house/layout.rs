//! How the folders are laid out, what they are called, and that the map of the code tells it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::sources::{code, entries, members, read, root, sources};

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

/// Lines that a merge leaves where it was not finished.
fn marks_of_a_merge(text: &str) -> usize {
    let marks = ["<", ">"].map(|mark| mark.repeat(7) + " ");
    text.lines().filter(|line| marks.iter().any(|mark| line.starts_with(mark.as_str()))).count()
}

#[test]
fn no_text_has_a_merge_in_it_that_was_not_finished() {
    assert_eq!(marks_of_a_merge(&format!("a\n{} HEAD\nb\n", "<".repeat(7))), 1);
    let (root, mut seen, mut wrong) = (root(), 0, Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !["target", ".git"].contains(&&*name) {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                seen += 1;
                wrong.extend((marks_of_a_merge(&text) > 0).then_some(path));
            }
        }
    }
    assert!(seen > 1000 && wrong.is_empty(), "{seen} files, {wrong:?}");
}

/// Names that say nothing of what is in a file, a module or a function.
const EMPTY_NAMES: [&str; 7] =
    ["util", "utils", "utilities", "common", "misc", "helper", "helpers"];

/// Functions and modules with such names in code.
fn empty_names(code: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let declared = ["fn ", "mod "].into_iter().flat_map(|word| {
        let places = code
            .match_indices(word)
            .filter(|(at, _)| !code[..*at].chars().next_back().is_some_and(is_name));
        places.map(move |(at, _)| &code[at + word.len()..])
    });
    let names = declared.map(|rest| rest.chars().take_while(|c| is_name(*c)).collect::<String>());
    names.filter(|name| EMPTY_NAMES.contains(&name.as_str())).collect()
}

#[test]
fn nothing_has_a_name_that_says_nothing() {
    // Put together here, since this file is looked at, too.
    let planted =
        format!("pub {0} {1}<T>() {{}}\n{0} {1}_part() {{}}\n{2} utils;", "fn", "common", "mod");
    assert_eq!(empty_names(&planted), ["common", "utils"]);
    let (mut wrong, mut folders) = (Vec::new(), Vec::new());
    for folder in ["cli", "injector", "payload", "tests", "fixtures"] {
        folders.push(root().join(folder));
        for (name, text) in sources(folder) {
            wrong.extend(empty_names(&code(&text)).into_iter().map(|one| format!("{name}: {one}")));
        }
    }
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
            if EMPTY_NAMES.contains(&stem.as_str()) {
                wrong.push(path.display().to_string());
            }
            seen += 1;
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(seen > 1000 && wrong.is_empty(), "{wrong:#?}");
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

/// Whether the map or the root of the crate names the folder: `read/`, `cli/recording/src/read/`, `read`.
fn is_named(map: &str, crate_root: &str, member: &str, folder: &str) -> bool {
    let docs: String = crate_root.lines().filter(|line| line.starts_with("//!")).collect();
    let on_map = [format!("{member}/src/{folder}/"), format!("`{folder}/`")];
    let at_root = [format!("`{folder}`"), format!("`{folder}/`")];
    on_map.iter().any(|name| map.contains(name)) || at_root.iter().any(|name| docs.contains(name))
}

#[test]
fn each_folder_of_a_crate_is_named_on_the_map_or_at_its_root() {
    assert!(is_named("`a/src/`: `b/`", "", "c", "b") && is_named("", "//! [`b`]", "c", "b"));
    assert!(!is_named("`b.rs`", "//! b\nmod b; // `b`", "c", "b"));
    let map = read(&root().join("cli/guide/map.md"));
    let (mut seen, mut missing) = (0, Vec::new());
    for member in members() {
        let source = root().join(&member).join("src");
        let crate_root = read(&source.join("lib.rs"));
        // Tests of a whole crate are in a folder that needs no word.
        let folders = entries(&source).into_iter().filter(|path| path.is_dir());
        for path in folders.filter(|path| !path.ends_with("tests")) {
            let folder = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            seen += 1;
            if !is_named(&map, &crate_root, &member, &folder) {
                missing.push(format!("{member}/src/{folder}"));
            }
        }
    }
    assert!(seen > 60 && missing.is_empty(), "{missing:#?}");
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
