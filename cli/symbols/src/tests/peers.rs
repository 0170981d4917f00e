//! The names of two peers, `addr2line` of binutils and `llvm-symbolizer`, against ours.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use heapattach_process::proc::{Process, maps};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::tests::folder::{BASE, Folder, map_of, skip};
use crate::{Symbols, demangle::demangle};

const SAMPLE: usize = 1000;

/// One call as all three tell it: function, file, line.
type Told = (String, String, u32);

/// A program with calls inlined into each other, templates, lambdas and sections of all sorts.
const SOURCE: &str = r#"
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>
namespace {
struct Item { int a; std::string b; bool operator<(Item const& o) const { return b < o.b; } };
template <class T> struct Store {
    std::map<std::string, std::vector<T>> items;
    std::shared_ptr<T> last;
    void add(T t) { last = std::make_shared<T>(t); items[t.b].push_back(std::move(t)); }
};
}
int use(int x, char const* text) {
    Store<Item> store;
    std::function<int(Item const&)> g = [&](auto const& t) { return t.a + x; };
    for (int i = 0; i < x; i++) store.add(Item{i, text});
    std::vector<Item> v;
    for (auto& [key, items] : store.items) v.insert(v.end(), items.begin(), items.end());
    std::sort(v.begin(), v.end());
    for (auto& t : v) x += g(t);
    return x + std::regex_match(text, std::regex(text));
}
extern "C" int plain(int x) { if (x < 0) throw std::string("no"); return use(x, "abc"); }
"#;

fn compiled(flags: &str) -> Folder {
    let folder = Folder::new("peers");
    fs::write(folder.0.join("peer.cc"), SOURCE).unwrap();
    let link = "-shared -fPIC -Wl,-z,noseparate-code";
    folder.run(&format!("g++ -std=c++17 {link} {flags} -o peer.so peer.cc"));
    folder
}

/// An address of a function, and where it lies in the file.
#[derive(Clone, Copy)]
struct Sampled {
    address: u64,
    file_offset: u64,
}

/// Addresses all over the functions: what is between them peers count to the one before.
fn sample(path: &Path) -> Vec<Sampled> {
    let bytes = fs::read(path).unwrap();
    let elf = object::File::parse(&bytes[..]).unwrap();
    let text = elf.section_by_name(".text").unwrap();
    let (start, (file_start, size)) = (text.address(), text.file_range().unwrap());
    let in_text = |s: &object::Symbol<'_, '_>| (start..start + size).contains(&s.address());
    let functions = elf.symbols().filter(|s| s.kind() == SymbolKind::Text && s.size() > 0);
    let functions: Vec<_> = functions.filter(in_text).map(|s| (s.address(), s.size())).collect();
    let mut number = 0x9e37_79b9_u64;
    let mut random = |below: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (number >> 24) % below
    };
    let one = || {
        let (function, size) = functions[usize::try_from(random(functions.len() as u64)).unwrap()];
        let address = function + random(size);
        Sampled { address, file_offset: address - start + file_start }
    };
    std::iter::repeat_with(one).take(SAMPLE).collect()
}

fn ours(path: &Path, addresses: &[Sampled]) -> Vec<Vec<Told>> {
    let process = Process::open(std::process::id().cast_signed()).unwrap();
    let mut symbols = Symbols::new();
    symbols.note(&process, &maps::parse(map_of(path).as_bytes()).unwrap());
    symbols.prepare(addresses.iter().map(|at| BASE + at.file_offset));
    let told = addresses.iter().map(|at| {
        let frames = symbols.symbolize(BASE + at.file_offset);
        let unknown = || "??".to_owned();
        let told = frames.iter().map(|frame| {
            let function = frame.function.as_ref().map_or_else(unknown, ToString::to_string);
            let file = frame.file.as_ref().map_or_else(unknown, ToString::to_string);
            (function, base(&file), frame.line.unwrap_or(0))
        });
        told.collect()
    });
    told.collect()
}

/// Peers simplify folders, each in its own way.
fn base(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// What a peer tells of all addresses: lines of function and place, an empty one or the address
/// itself between the addresses.
fn peer(command: &mut Command, addresses: &[Sampled]) -> Vec<Vec<Told>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let asked: String = addresses.iter().map(|at| format!("{:#x}\n", at.address)).collect();
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut all, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            all.push(Vec::new());
        } else if !line.is_empty() {
            let place = lines.next().unwrap();
            let place = place.split(" (discriminator").next().unwrap();
            let mut parts = place.rsplitn(3, ':').collect::<Vec<_>>();
            // LLVM tells the column too.
            if parts.len() == 3 && parts[1].parse::<u32>().is_ok() {
                parts.remove(0);
            }
            let number = parts[0].parse().unwrap_or(0);
            let told = (demangle(line.as_bytes()), base(parts[1]), number);
            all.last_mut().unwrap().push(told);
        }
    }
    all
}

/// Whether two frames are of the same place. For code without a line peers tell the unit's file.
fn is_same_place(ours: &Told, theirs: &Told) -> bool {
    ours.2 == theirs.2 && (ours.1 == theirs.1 || ours.2 == 0)
}

/// Copies of a function have its name in the debug information, and a mark in the symbol table.
fn is_same_name(ours: &Told, theirs: &Told) -> bool {
    let short = ours.0.split('<').next().unwrap_or_default();
    // Some names cannot be demangled: then we tell the short one of the debug information.
    ours.0.split(" [clone").next() == theirs.0.split(" [clone").next()
        || (theirs.0.starts_with("_Z") && theirs.0.contains(&format!("{}{short}", short.len())))
}

/// How many addresses have other calls than both peers say, or a name that neither does. Where a
/// function has two names, a whole one in the symbol table and a short one in the debug information,
/// the peers do not agree: binutils gives the former to the innermost inlined call. It also takes some
/// files of DWARF 4 for the unit's own.
fn differences(addresses: &[Sampled], ours: &[Vec<Told>], peers: &[Vec<Vec<Told>>]) -> usize {
    let is_told = |at: usize, ours: &[Told]| {
        let theirs: Vec<&Vec<Told>> = peers.iter().map(|peer| &peer[at]).collect();
        theirs.iter().all(|theirs| theirs.len() == ours.len())
            && ours.iter().enumerate().all(|(depth, call)| {
                theirs.iter().any(|theirs| is_same_place(call, &theirs[depth]))
                    && theirs.iter().any(|theirs| is_same_name(call, &theirs[depth]))
            })
    };
    let differing: Vec<_> = (0..ours.len()).filter(|&at| !is_told(at, &ours[at])).collect();
    for &at in differing.iter().take(10) {
        println!("{:#x}\n  ours   {:?}", addresses[at].address, ours[at]);
        peers.iter().for_each(|peer| println!("  theirs {:?}", peer[at]));
    }
    differing.len()
}

fn compare(path: &Path) -> usize {
    let addresses = sample(path);
    let ours = ours(path, &addresses);
    let inlined = ours.iter().filter(|calls| calls.len() > 1).count();
    assert!(inlined * 10 > SAMPLE, "{inlined} inlined: too little to compare");
    let mut binutils = Command::new("addr2line");
    binutils.args(["-afi", "-e"]).arg(path);
    let mut peers = vec![peer(&mut binutils, &addresses)];
    if Command::new("llvm-symbolizer").arg("--version").output().is_ok() {
        let mut llvm = Command::new("llvm-symbolizer");
        llvm.args(["--addresses", "--no-demangle", "--inlines", "--obj"]).arg(path);
        peers.push(peer(&mut llvm, &addresses));
    } else {
        skip("no llvm-symbolizer here: only binutils is asked", "apt-get install llvm");
    }
    peers.iter().for_each(|peer| assert_eq!(peer.len(), SAMPLE));
    let differing = differences(&addresses, &ours, &peers);
    println!("{differing} of {SAMPLE} differ, {inlined} with inlined calls");
    differing
}

#[test]
fn names_of_a_program_in_cpp_are_those_of_its_peers() {
    for flags in ["-g -O2", "-gdwarf-4 -O1"] {
        assert_eq!(compare(&compiled(flags).0.join("peer.so")), 0);
    }
}

#[test]
fn names_of_a_program_in_rust_are_those_of_its_peers() {
    // Of functions that the linker found to be the same each of us names another.
    assert!(compare(&std::env::current_exe().unwrap()) <= SAMPLE / 100);
}
