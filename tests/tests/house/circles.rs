//! Inside of a crate the modules below its root form no circle: each can be understood, tested and moved
//! with only those that it names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Where no module leads back to itself.
const WITHOUT_CIRCLES: [&str; 23] = [
    "injector/src",
    "injector/process/src",
    "injector/entry/src",
    "cli/src",
    "cli/census/src",
    "cli/export/src",
    "cli/files/src",
    "cli/ledger/src",
    "cli/moment/src",
    "cli/profile/src",
    "cli/reach/src",
    "cli/recording/src",
    "cli/report/src",
    "cli/session/src",
    "cli/symbols/src",
    "cli/text/src",
    "cli/top/src",
    "cli/verdict/src",
    "cli/view/src",
    "cli/test_folder/src",
    "payload/abi/src",
    "payload/src",
    "tests/src",
];

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of ours").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Code without comments, and without what only tests are built with. In a file right below the root of
/// a crate (`is_top`) `super` is that root, too.
fn code(path: &Path, is_top: bool) -> String {
    let text = fs::read_to_string(path).expect("a source of ours");
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines: Vec<_> =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = lines.join("\n");
    if is_top { code.replace("super::", "crate::") } else { code }
}

/// The modules that code names behind `crate::`, by itself or in a list.
fn named(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    for (at, begin) in code.match_indices("crate::") {
        let rest = &code[at + begin.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            names.insert(word(rest));
            continue;
        };
        let mut depth = 1;
        names.insert(word(list));
        for (place, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => _ = names.insert(word(&list[place + 1..])),
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    names
}

/// Of each module below the root of a crate those that it names.
fn arrows(source: &Path) -> Arrows {
    let mut all = Vec::new();
    files(source, &mut all);
    let mut arrows = Arrows::new();
    for path in all {
        let below = path.strip_prefix(source).expect("it lies in there");
        let first = below.iter().next().expect("a name").to_string_lossy();
        let module = first.trim_end_matches(".rs");
        let stem = path.file_stem().expect("a name").to_string_lossy();
        if ["lib", "main"].contains(&module) || stem.ends_with("_tests") || module == "tests" {
            continue;
        }
        let is_top = below.iter().count() == 1;
        arrows.entry(module.to_owned()).or_default().extend(named(&code(&path, is_top)));
    }
    let modules: BTreeSet<String> = arrows.keys().cloned().collect();
    for (module, names) in &mut arrows {
        names.retain(|name| name != module && modules.contains(name));
    }
    arrows
}

/// A way from a module back to itself.
fn circle(arrows: &Arrows, from: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        for next in way.last().and_then(|last| arrows.get(last)).into_iter().flatten() {
            if next == from {
                return Some(way);
            }
            if seen.insert(next.clone()) {
                ways.push([&way[..], std::slice::from_ref(next)].concat());
            }
        }
    }
    None
}

#[test]
fn no_module_leads_back_to_itself() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace");
    for source in WITHOUT_CIRCLES {
        let arrows = arrows(&root.join(source));
        assert!(!arrows.is_empty() || source == "cli/test_folder/src", "{source}");
        let circles: Vec<_> = arrows.keys().filter_map(|module| circle(&arrows, module)).collect();
        assert!(circles.is_empty(), "{source}: {circles:?}");
    }
    let several =
        arrows(&root.join("injector/src")).values().filter(|names| names.len() > 3).count();
    assert!(several > 5, "the parser found arrows of {several} modules only");
}

#[test]
fn a_circle_is_found() {
    let code = "use crate::{a::B, c::{D, e}, f};\nfn g() { crate::h::i() }\n";
    let expected = ["a", "c", "f", "h"].map(str::to_owned);
    assert_eq!(named(code), BTreeSet::from(expected));
    let arrow = |from: &str, to: &[&str]| {
        (from.to_owned(), to.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>())
    };
    let round = Arrows::from([arrow("a", &["b"]), arrow("b", &["c"]), arrow("c", &["a"])]);
    assert_eq!(circle(&round, "a").expect("one"), ["a", "b", "c"]);
    let tree = Arrows::from([arrow("a", &["b", "c"]), arrow("b", &["c"]), arrow("c", &[])]);
    assert_eq!(circle(&tree, "a"), None);
}
