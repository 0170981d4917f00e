//! Objects and containers of stripped C++ programs, trait objects and collections of Rust programs, by class or shape: as
//! many as there are, and no others.

use std::{collections::BTreeMap, fs::File, os::unix::fs::FileExt, process::Command};

use heapattach_tests::{
    command::Heapattach, compile::Source, fixture::Launch, page::Word, skip::skip,
};
use serde_json::Value;

const DONE: i32 = 0;

fn look(pid: i32) -> Value {
    let pid = pid.to_string();
    let outcome = Heapattach::new(["heap", "-p", &pid, "--view", "types", "--json"]).run();
    let text = outcome.expect(DONE).stdout;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Blocks and bytes by class, of one certainty.
fn sums(document: &Value, certainty: &str) -> BTreeMap<String, (u64, u64)> {
    let rows = document["classes"].as_array().expect("classes").iter();
    let rows = rows.filter(|row| row["certainty"] == certainty);
    let number = |value: &Value| value.as_u64().expect("a number");
    let row = |row: &Value| {
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, (number(&row["blocks"]), number(&row["bytes"])))
    };
    rows.map(row).collect()
}

/// Blocks by class, of one certainty.
fn rows(document: &Value, certainty: &str) -> BTreeMap<String, u64> {
    sums(document, certainty).into_iter().map(|(name, (blocks, _))| (name, blocks)).collect()
}

fn expected(rows: &[(&str, u64)]) -> BTreeMap<String, u64> {
    rows.iter().map(|(name, blocks)| ((*name).to_owned(), *blocks)).collect()
}

/// Of all bytes in use, those with a name, in percent.
fn named(document: &Value) -> u64 {
    let typed = &document["typed"];
    let bytes = |kind: &str| typed[kind]["bytes"].as_u64().expect("a number");
    let all: u64 = ["certain", "declared", "shape", "place"].into_iter().map(bytes).sum();
    all * 100 / bytes("in_use")
}

/// What is in the fixture, whatever library it is built with: classes of its own, and containers.
fn is_the_zoo(document: &Value) {
    let certain = rows(document, "certain");
    let own = |name: &str| name.starts_with("zoo::") || name.contains("Hidden");
    let own: BTreeMap<String, u64> =
        certain.iter().filter(|(name, _)| own(name)).map(|(n, b)| (n.clone(), *b)).collect();
    let classes = [
        ("zoo::Bird", 5000),
        ("zoo::Duck", 3000),
        ("zoo::Bat", 2000),
        ("zoo::Fish", 150),
        ("zoo::Shark", 100),
        ("zoo::Cage<int, 8>", 80),
        ("zoo::Cage<double, 4>", 70),
        ("zoo::Feeding", 60),
        ("zoo::Show", 50),
        ("zoo::Keeper", 40),
        // Each pool begins with one.
        ("zoo::Ticket", 9005),
        ("zoo::Pool", 5),
        ("zoo::Shop<zoo::Ticket>", 1),
        ("zoo::Registry", 1),
        ("(anonymous namespace)::Hidden", 30),
    ];
    assert_eq!(own, expected(&classes), "{certain:?}");
    let shared = |name: &str| {
        name.contains("_Sp_counted_ptr_inplace") || name.contains("__shared_ptr_emplace")
    };
    let shared = certain.iter().filter(|(name, _)| shared(name));
    assert_eq!(shared.map(|(_, blocks)| blocks).sum::<u64>(), 120, "{certain:?}");
    let is_libcpp = certain.keys().any(|name| name.contains("__shared_ptr_emplace"));
    let shapes = [
        ("text with length and room (std::string)", 3000 + 300 + 150 + 40 + 160 + 4000),
        ("array with begin, end and room (std::vector)", 2000 + 40 + 7),
        ("node of a std::list", 3 * 250 + 70),
        ("node of a std::map or std::set", 400 + 150 + 80),
        ("node of a std::unordered_map or _set", 300 + 4000),
        ("table of a std::unordered_map or _set", 60 + 1),
        ("table of a std::deque", 40),
        // One has 512 bytes, or 4096.
        ("piece of a std::deque", if is_libcpp { 40 } else { 2 * 40 }),
    ];
    assert_eq!(rows(document, "shape"), expected(&shapes), "{}", document["typed"]);
    assert_eq!(rows(document, "declared"), BTreeMap::new());
    assert!(named(document) >= 85, "{} %: {}", named(document), document["typed"]);
}

#[test]
fn a_stripped_cpp_program_has_its_classes_and_containers_and_no_others() {
    let Some(launch) = Launch::new("zoo.cpp") else { return };
    let fixture = launch.start();
    is_the_zoo(&look(fixture.pid()));
    fixture.finish();
}

#[test]
fn a_program_that_its_library_is_linked_into_has_the_same() {
    let source = Source::new("zoo.cpp").flag("-static-libstdc++").flag("-static-libgcc");
    let Some(program) = source.build() else { return };
    let fixture = Launch::program(&program).start();
    is_the_zoo(&look(fixture.pid()));
    fixture.finish();
}

/// Whether clang can build with libc++.
fn has_libcpp() -> bool {
    let mut compiler = Command::new("clang++");
    compiler.args([
        "-stdlib=libc++",
        "-fsyntax-only",
        "-include",
        "vector",
        "-x",
        "c++",
        "/dev/null",
    ]);
    compiler.output().is_ok_and(|output| output.status.success())
}

#[test]
fn containers_of_libcpp_are_those_of_libstdcpp_with_the_bytes_that_they_have() {
    if !has_libcpp() {
        return skip("no libc++ here", "apt-get install clang libc++-dev libc++abi-dev");
    }
    let source = Source::new("zoo.cpp").compiler("clang++");
    // Beside it, and linked into it.
    let linked = ["-nostdlib++", "-Wl,-Bstatic,-lc++,-lc++abi,-Bdynamic"];
    for flags in [&["-stdlib=libc++"][..], &["-stdlib=libc++", linked[0], linked[1]]] {
        let source = flags.iter().fold(source.clone(), |source, flag| source.flag(flag));
        let Some(program) = source.build() else { return };
        let fixture = Launch::program(&program).start();
        let document = look(fixture.pid());
        is_the_zoo(&document);
        // Nodes as that library has them, in blocks of glibc's, of which a few keep what is too little for another one;
        // texts have room for a multiple of 16.
        let sizes = [
            (
                "text with length and room (std::string)",
                3000 * 56 + 4300 * 40 + 310 * 72 + 40 * 120,
            ),
            ("node of a std::list", 820 * 24),
            ("node of a std::map or std::set", 630 * 56),
            ("node of a std::unordered_map or _set", 4300 * 56),
            ("table of a std::deque", 40 * 24),
            ("piece of a std::deque", 40 * 4104),
        ];
        let all = sums(&document, "shape");
        for (name, bytes) in sizes {
            assert!((bytes..bytes + 16 * 16).contains(&all[name].1), "{name}: {all:?}");
        }
        fixture.finish();
    }
}

/// Kinds of the fixture, in the order of its numbers.
const RUST_KINDS: [&str; 4] = [
    "array with room and length (Rust Vec)",
    "text with room and length (Rust String)",
    "table of a HashMap or HashSet (Rust)",
    "value with counts (Rust Rc or Arc)",
];

#[test]
fn what_a_stripped_rust_program_keeps_in_collections_has_its_form_and_nothing_else_has() {
    let Some(launch) = Launch::new("vectors.rs") else { return };
    let fixture = launch.start();
    let page = fixture.page();
    let (at, kinds) = (page.get(Word::Seen), page.get(Word::Answer));
    assert_eq!(kinds, RUST_KINDS.len() as u64);
    let memory = File::open(format!("/proc/{}/mem", fixture.pid())).expect("its memory");
    let mut bytes = [0; RUST_KINDS.len() * 16];
    memory.read_exact_at(&mut bytes, at).expect("its table");
    let (words, _) = bytes.as_chunks::<8>();
    let (truth, _) = words.as_chunks::<2>();
    let document = look(fixture.pid());
    let found = sums(&document, "shape");
    println!("{} %: {}, {found:?}", named(&document), document["typed"]);
    for (kind, truth) in RUST_KINDS.into_iter().zip(truth) {
        let [blocks, bytes] = truth.map(u64::from_le_bytes);
        assert!(blocks > 0 && bytes > 0, "{kind}");
        assert_eq!(found.get(kind), Some(&(blocks, bytes)), "{kind}: {found:?}");
    }
    let others: Vec<_> = found.keys().filter(|name| !RUST_KINDS.contains(&name.as_str())).collect();
    assert!(others.iter().all(|name| name.starts_with("trait object of")), "{others:?}");
    fixture.finish();
}

#[test]
fn trait_objects_of_a_rust_program_have_the_types_that_their_functions_are_of() {
    let Some(launch) = Launch::new("objects.rs") else { return };
    let fixture = launch.start();
    let document = look(fixture.pid());
    let shapes = rows(&document, "shape");
    let own = shapes.iter().filter(|(name, _)| name.contains("objects::"));
    let own: BTreeMap<String, u64> = own.map(|(name, blocks)| (name.clone(), *blocks)).collect();
    let objects = [
        ("objects::Circle", 3000),
        ("objects::Polygon", 2000),
        ("objects::Label", 1000),
        ("objects::Group<objects::Circle>", 300),
        ("objects::Shared", 70 + 50),
    ];
    assert_eq!(own, expected(&objects), "{shapes:?}");
    // What the standard library has are a few.
    let containers = [
        ("text with room and length (Rust String)", 2000),
        ("table of a HashMap or HashSet (Rust)", 1),
    ];
    for (name, blocks) in containers {
        let found = shapes.get(name).copied().unwrap_or_default();
        assert!((blocks..blocks + 20).contains(&found), "{name}: {shapes:?}");
    }
    println!("{} %: {}", named(&document), document["typed"]);
    // What else is one is the standard library's: its name says so, or there is none.
    let is_other =
        |name: &&String| !name.contains("objects::") && !RUST_KINDS.contains(&name.as_str());
    let others = shapes.keys().filter(is_other);
    let others: Vec<_> = others.filter(|name| !name.contains("std::")).collect();
    assert!(others.iter().all(|name| name.starts_with("trait object of")), "{others:?}");
    fixture.finish();
}
