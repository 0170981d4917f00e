//! Which member of the workspace uses which, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::sources::{cargo, product, read, root, sources};

/// Every member, and the members that it is built with, their common beginning left out. Each uses only
/// what stands before it, so that none leads back to itself.
const ARROWS: [(&str, &[&str]); 28] = [
    ("abi", &[]),
    ("payload", &["abi"]),
    ("process", &["abi"]),
    ("entry", &["abi", "process"]),
    ("injector", &["abi", "entry", "process"]),
    // Only tests are built with these two.
    ("instruction-count", &[]),
    ("test-folder", &[]),
    ("text", &[]),
    ("files", &["text"]),
    ("profile", &["abi", "process"]),
    ("ledger", &["profile", "text"]),
    ("symbols", &["files", "process", "text"]),
    ("recording", &["abi", "files", "ledger", "process", "profile", "symbols", "text"]),
    ("reach", &["process"]),
    ("census", &["process", "reach", "symbols"]),
    ("golang", &["census", "process", "symbols"]),
    ("verdict", &["abi", "census", "ledger", "profile", "text"]),
    ("report", &["census", "ledger", "profile", "reach", "symbols", "text", "verdict"]),
    ("moment", &["census", "files", "report", "text", "verdict"]),
    (
        "session",
        &[
            "abi",
            "census",
            "entry",
            "files",
            "golang",
            "injector",
            "ledger",
            "process",
            "profile",
            "reach",
            "recording",
            "report",
            "symbols",
            "text",
            "verdict",
        ],
    ),
    ("view", &["ledger", "moment", "profile", "report", "text", "verdict"]),
    ("export", &["ledger", "profile", "reach", "report", "text", "verdict"]),
    ("serve", &["export", "ledger", "profile", "recording", "verdict"]),
    ("push", &["export", "ledger", "text"]),
    ("top", &["ledger", "profile", "text", "verdict", "view"]),
    ("agent", &["text"]),
    (
        "heapattach",
        &[
            "abi",
            "agent",
            "entry",
            "export",
            "files",
            "injector",
            "ledger",
            "moment",
            "payload",
            "process",
            "push",
            "reach",
            "recording",
            "report",
            "serve",
            "session",
            "symbols",
            "text",
            "top",
            "verdict",
            "view",
        ],
    ),
    (
        "tests",
        &[
            "census",
            "export",
            "heapattach",
            "injector",
            "ledger",
            "moment",
            "process",
            "recording",
            "test-folder",
        ],
    ),
];

/// What only the tests of a member are built with, besides.
const OF_TESTS: [(&str, &[&str]); 12] = [
    ("files", &["test-folder"]),
    ("profile", &["injector", "instruction-count"]),
    ("symbols", &["instruction-count", "test-folder"]),
    ("recording", &["instruction-count", "test-folder"]),
    ("census", &["test-folder"]),
    ("golang", &["test-folder"]),
    ("moment", &["reach", "test-folder"]),
    ("session", &["test-folder"]),
    ("view", &["census"]),
    ("export", &["instruction-count", "recording", "test-folder", "view"]),
    ("serve", &["test-folder"]),
    ("heapattach", &["test-folder"]),
];

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn short(name: &str) -> String {
    name.strip_prefix("heapattach-").unwrap_or(name).to_owned()
}

/// A member: its short name, its folder, and the members that it depends on, by the kind that cargo tells
/// (`null`, "build", "dev").
struct Member {
    name: String,
    folder: String,
    uses: Vec<(Value, String)>,
}

fn members() -> Vec<Member> {
    let text = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let all: Value = serde_json::from_str(&text).expect("cargo writes JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let packages = all["packages"].as_array().expect("a list");
    let members = packages.iter().map(|package| {
        let uses = package["dependencies"].as_array().expect("a list").iter();
        let own = uses.filter(|one| text(&one["name"]).starts_with("heapattach"));
        let folder = text(&package["manifest_path"]).replace("/Cargo.toml", "");
        Member {
            name: short(&text(&package["name"])),
            folder: folder.replace(&format!("{}/", root().display()), ""),
            uses: own.map(|one| (one["kind"].clone(), short(&text(&one["name"])))).collect(),
        }
    });
    members.collect()
}

/// The members that each uses, for its tests or not.
fn used(members: &[Member], is_of_tests: bool) -> Arrows {
    let own = |member: &Member| {
        let of_kind = member.uses.iter().filter(|(kind, _)| (kind == "dev") == is_of_tests);
        of_kind.map(|(_, name)| name.clone()).collect()
    };
    members.iter().map(|member| (member.name.clone(), own(member))).collect()
}

fn table(rows: &[(&str, &[&str])]) -> Arrows {
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    rows.iter().map(|(name, uses)| ((*name).to_owned(), set(uses))).collect()
}

#[test]
fn each_member_uses_exactly_those_members_that_the_table_says() {
    let members = members();
    let normal = used(&members, false);
    assert_eq!(normal, table(&ARROWS));
    let mut of_tests = used(&members, true);
    for (name, uses) in &mut of_tests {
        uses.retain(|one| !normal[name].contains(one));
    }
    of_tests.retain(|_, uses| !uses.is_empty());
    assert_eq!(of_tests, table(&OF_TESTS));
}

#[test]
fn none_leads_back_to_itself() {
    for (at, (name, uses)) in ARROWS.iter().enumerate() {
        let before: Vec<_> = ARROWS[..at].iter().map(|(name, _)| *name).collect();
        assert!(uses.iter().all(|used| before.contains(used)), "{name}");
        let of_tests = OF_TESTS.iter().find(|(one, _)| one == name).map_or(&[][..], |one| one.1);
        assert!(of_tests.iter().all(|used| before.contains(used)), "the tests of {name}");
    }
}

#[test]
fn what_a_member_depends_on_is_named_in_its_code() {
    let mut unnamed = Vec::new();
    for member in members() {
        let folder = root().join(&member.folder);
        let files = product(&folder.join("src")).into_iter();
        let mut code: String = files.map(|(_, code)| code).collect();
        if folder.join("build.rs").exists() {
            code += &read(&folder.join("build.rs"));
        }
        // The one that is nothing but tests.
        if member.name == "tests" {
            code.extend(sources("tests/tests").into_iter().map(|(_, text)| text));
        }
        for (_, name) in member.uses.iter().filter(|(kind, _)| kind != "dev") {
            let path = format!("heapattach_{}", name.replace('-', "_"));
            let path = if name == "heapattach" { "heapattach::".to_owned() } else { path };
            if !code.contains(&path) {
                unnamed.push(format!("{} does not name {name}", member.name));
            }
        }
    }
    assert!(unnamed.is_empty(), "{unnamed:#?}");
}

#[test]
fn the_command_has_the_payload_for_its_build_only() {
    let members = members();
    let command = members.iter().find(|member| member.name == "heapattach").expect("it is there");
    let kinds: Vec<_> = command.uses.iter().filter(|one| one.1 == "payload").collect();
    assert!(kinds.len() == 1 && kinds[0].0 == "build", "{kinds:?}");
}

/// The arrows as the guide draws them: a line a member, which may go on in lines that begin with blanks.
fn drawn(chapter: &str) -> Vec<(String, Vec<String>)> {
    let picture = chapter.split("```text\nabi\n").nth(1).expect("the picture of the arrows");
    let picture = format!("abi\n{}", picture.split("```").next().unwrap_or_default());
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for line in picture.lines() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        match (line.starts_with(' '), rows.last_mut()) {
            (true, Some((_, uses))) => uses.extend(words(line)),
            _ => {
                let (name, uses) = line.split_once("->").unwrap_or((line, ""));
                rows.push((name.trim().to_owned(), words(uses)));
            }
        }
    }
    rows
}

#[test]
fn the_guide_draws_the_arrows_of_the_table() {
    let chapter = read(&root().join("cli/guide/map.md"));
    let table = ARROWS.iter().map(|(name, uses)| {
        ((*name).to_owned(), uses.iter().map(|&one| one.to_owned()).collect::<Vec<_>>())
    });
    assert_eq!(drawn(&chapter), table.collect::<Vec<_>>());
}
