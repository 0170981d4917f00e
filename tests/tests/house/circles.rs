//! Inside of a crate the modules below its root form no circle: each can be understood, tested and moved
//! with only those that it names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use heapattach_tests::Folder;

use super::sources::{members, product, root, rust_files};

/// Of each module those that it names.
type Arrows = BTreeMap<String, BTreeSet<String>>;
/// The parts of a path: `crate`, `a`, `B`.
type Names = Vec<String>;

/// The paths that `text` begins with, lists written out: of `a::{b, c::d as e}` these are `a::b` and
/// `a::c::d::e`, where a new name stands behind the old one. And what comes after them.
fn written_out(text: &str) -> (Vec<Names>, &str) {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        let mut all = Vec::new();
        loop {
            let (paths, after) = written_out(rest);
            all.extend(paths);
            let Some(end) = after.find([',', '}']) else { return (all, "") };
            rest = &after[end + 1..];
            if after[end..].starts_with('}') {
                return (all, rest);
            }
        }
    }
    let is_name = |c: char| c.is_alphanumeric() || "_*".contains(c);
    let (name, rest) = text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()));
    let after = rest.strip_prefix("::").or_else(|| rest.strip_prefix(" as "));
    if let Some(after) = after.filter(|after| after.starts_with(|c| is_name(c) || c == '{')) {
        let (paths, rest) = written_out(after);
        let whole = |path: Names| [vec![name.to_owned()], path].concat();
        return (paths.into_iter().map(whole).collect(), rest);
    }
    // Behind the last comma of a list there is none.
    let path = (!name.is_empty()).then(|| vec![name.to_owned()]);
    (path.into_iter().collect(), rest)
}

/// The paths in code that begin with this word.
fn paths<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = Names> + 'c {
    let begins = move |at: usize| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_:".contains(c))
    };
    let places = code.match_indices(word).map(|(at, _)| at).filter(move |at| begins(*at));
    places.flat_map(|at| written_out(&code[at..]).0)
}

/// A path of a file of this module, from the root of the crate.
fn from_root(module: &[String], path: &[String]) -> Names {
    let up = path.iter().take_while(|name| *name == "super").count();
    let is_from_root = path.first().is_some_and(|name| name == "crate");
    let kept = if is_from_root { 0 } else { module.len().saturating_sub(up) };
    [&module[..kept], &path[up.max(1)..]].concat()
}

/// The module of a file: `a` of `a.rs` and of `a/mod.rs`, `a::b` of `a/b.rs`.
fn module_of(below: &Path) -> Names {
    let names = below.with_extension("");
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name != "mod").collect()
}

/// The names that a root shows, and the modules where they are.
fn shown(root: &str) -> BTreeMap<String, String> {
    let ends = |path: Names| Some((path.last()?.clone(), path.first()?.clone()));
    let uses = root.split("use ").skip(1).flat_map(|text| written_out(text).0);
    uses.filter_map(ends).collect()
}

/// Of each module below the root of a crate those that it names.
fn arrows(source: &Path) -> Arrows {
    let mut arrows = Arrows::new();
    let mut at_root = BTreeMap::new();
    for (path, code) in product(source) {
        let module = module_of(path.strip_prefix(source).expect("it lies in there"));
        if module == ["lib"] || module == ["main"] {
            at_root.extend(shown(&code));
        } else {
            let named = ["crate::", "super::"].into_iter().flat_map(|word| paths(&code, word));
            let firsts = named.filter_map(|path| from_root(&module, &path).into_iter().next());
            arrows.entry(module[0].clone()).or_default().extend(firsts);
        }
    }
    let modules: BTreeSet<String> = arrows.keys().cloned().collect();
    for (module, names) in &mut arrows {
        let places = names.iter().map(|name| at_root.get(name).unwrap_or(name).clone());
        let mut places: BTreeSet<String> = places.collect();
        if places.contains("*") {
            places.extend(modules.iter().cloned());
        }
        places.retain(|name| name != module && modules.contains(name));
        *names = places;
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

fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    arrows.keys().filter_map(|module| circle(arrows, module)).collect()
}

#[test]
fn no_module_leads_back_to_itself() {
    let mut found = Vec::new();
    for member in members() {
        let source = root().join(&member).join("src");
        let arrows = arrows(&source);
        assert_eq!(arrows.is_empty(), rust_files(&source).len() == 1, "{member}");
        found.extend(circles(&arrows).into_iter().map(|circle| (member.clone(), circle)));
    }
    assert!(found.is_empty(), "{found:#?}");
    let several =
        arrows(&root().join("injector/src")).values().filter(|names| names.len() > 3).count();
    assert!(several > 5, "the parser found arrows of {several} modules only");
}

#[test]
fn a_circle_is_found() {
    let arrow = |from: &str, to: &[&str]| {
        (from.to_owned(), to.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>())
    };
    let round = Arrows::from([arrow("a", &["b"]), arrow("b", &["c"]), arrow("c", &["a"])]);
    assert_eq!(circle(&round, "a").expect("one"), ["a", "b", "c"]);
    let tree = Arrows::from([arrow("a", &["b", "c"]), arrow("b", &["c"]), arrow("c", &[])]);
    assert_eq!(circle(&tree, "a"), None);
}

#[test]
fn paths_are_written_out_and_led_to_the_root() {
    let code =
        "use crate::{a::B, c::{D, e as f}, g,};\nfn h() { crate::i::<u8>(); super::super::j::K }\n";
    let all = ["crate::", "super::"].into_iter().flat_map(|word| paths(code, word));
    let all: Vec<String> = all.map(|path| path.join("::")).collect();
    let here = ["crate::a::B", "crate::c::D", "crate::c::e::f", "crate::g", "crate::i"];
    assert_eq!(all, [&here[..], &["super::super::j::K"]].concat());
    let root_path = |file: &str, path: &str| {
        let path: Names = path.split("::").map(str::to_owned).collect();
        from_root(&module_of(Path::new(file)), &path).join("::")
    };
    assert_eq!(root_path("a.rs", "super::b::C"), "b::C");
    assert_eq!(root_path("a/mod.rs", "super::b::C"), "b::C");
    assert_eq!(root_path("a/d.rs", "super::b::C"), "a::b::C");
    assert_eq!(root_path("a/d/mod.rs", "super::super::b"), "b");
    assert_eq!(root_path("a/d/e.rs", "crate::b"), "b");
}

/// The circles of a crate of these files, which lie in a folder of their own.
fn planted(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let folder = Folder::new("circles");
    for (name, text) in files {
        let path = folder.0.join(name);
        fs::create_dir_all(path.parent().expect("it is below")).expect("the folder is ours");
        fs::write(path, text).expect("the folder is ours");
    }
    circles(&arrows(&folder.0))
}

#[test]
fn the_parser_finds_a_planted_circle_however_it_is_written() {
    let begin = ("a/mod.rs", "mod inner;\n// crate::c\nuse super::b::B;\n");
    let between = ("b.rs", "use crate::{\n    c::{C, D},\n};\n");
    let roots = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::{inner::E as F};\n");
    for closing in [
        ("c.rs", "use super::a;\n"),
        ("c.rs", "fn f() { crate::a::g() }\n"),
        ("c/mod.rs", "use super::{a::A};\n"),
        ("c/d/e.rs", "use super::super::super::a::inner;\n"),
        ("c/d.rs", "fn f(of: crate::F) {}\n"),
        ("c.rs", "use super::*;\n"),
    ] {
        let found = planted(&[roots, begin, between, ("c/z.rs", "\n"), closing]);
        let whole = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert!(found.contains(&whole), "{closing:?}: {found:?}");
    }
    for closing in [
        ("c/d.rs", "use super::a;\n"),
        ("c/d.rs", "// use super::a;\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"),
        ("c/tests.rs", "use crate::a;\n"),
        ("c/tests/hostile.rs", "use crate::a;\n"),
    ] {
        let with_tests = ("c/mod.rs", "#[cfg(test)]\nmod tests;\n");
        let found = planted(&[roots, begin, between, with_tests, closing]);
        assert_eq!(found, Vec::<Vec<String>>::new(), "{closing:?}");
    }
}
