//! How long names for the stacks of a large program take.

use std::{fs, path::PathBuf, time::Instant};

use heapattach_process::proc::{Process, maps};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::Symbols;
use crate::tests::folder::{BASE, Folder, map_of};

const STACKS: usize = 100_000;
const DEPTH: usize = 24;
/// Different places that call, in stacks of a program that has run for a while.
const PLACES: usize = 50_000;
const UNITS: usize = 10;

/// A program of many templates, with more than a hundred megabytes of debug information.
fn large(folder: &Folder) {
    let types = |unit: usize| (0..40).map(move |n| (unit, n));
    for unit in 0..UNITS {
        let mut source = String::from(
            "#include <algorithm>\n#include <functional>\n#include <map>\n#include <memory>\n\
             #include <regex>\n#include <string>\n#include <unordered_map>\n#include <vector>\n",
        );
        for (unit, n) in types(unit) {
            source += &format!(
                "struct T{unit}_{n} {{ int a; std::string b; bool operator<(T{unit}_{n} const& o)\
                 const {{ return b < o.b; }} }};\n\
                 int f{unit}_{n}(int x) {{ std::map<std::string, std::vector<T{unit}_{n}>> m;\n\
                 std::unordered_map<int, std::shared_ptr<T{unit}_{n}>> u;\n\
                 std::function<int(T{unit}_{n} const&)> g = [&](auto const& t) {{ return t.a + x; }};\n\
                 m[\"x\"].push_back(T{unit}_{n}{{x, \"y\"}}); u[x] = std::make_shared<T{unit}_{n}>();\n\
                 std::vector<T{unit}_{n}> v(x); std::sort(v.begin(), v.end());\n\
                 for (auto& t : v) x += g(t); return x + m.size() + u.size(); }}\n"
            );
        }
        fs::write(folder.0.join(format!("u{unit}.cc")), source).unwrap();
        folder.run(&format!("g++ -g -O1 -fPIC -c u{unit}.cc"));
    }
    let objects: Vec<String> = (0..UNITS).map(|unit| format!("u{unit}.o")).collect();
    let link = "g++ -shared -Wl,-z,noseparate-code -Wl,--build-id=sha1 -o large.so";
    folder.run(&format!("{link} {}", objects.join(" ")));
}

/// As many places of code as wanted, all over the functions of a file.
fn places(bytes: &[u8], count: usize) -> Vec<u64> {
    let elf = object::File::parse(bytes).unwrap();
    let functions = elf.symbols().filter(|s| s.kind() == SymbolKind::Text && s.size() > 1);
    let mut functions: Vec<(u64, u64)> = functions.map(|s| (s.address(), s.size())).collect();
    functions.sort_unstable();
    functions.dedup();
    let code: u64 = functions.iter().map(|f| f.1).sum();
    let step = code / count as u64;
    assert!(step > 0, "{code} bytes of code are too few");
    let in_function = |(start, size): (u64, u64)| {
        (0..size / step.max(1) + 1).map(move |n| start + n * step % size)
    };
    functions.into_iter().flat_map(in_function).take(count).collect()
}

fn megabytes_of_debug(bytes: &[u8]) -> u64 {
    let elf = object::File::parse(bytes).unwrap();
    let debug = elf.sections().filter(|s| s.name().is_ok_and(|n| n.starts_with(".debug_")));
    debug.map(|s| s.size()).sum::<u64>() >> 20
}

/// Megabytes in use: now, and at most since [`forget_peak`].
fn memory() -> [u64; 2] {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    ["VmRSS:", "VmHWM:"].map(|key| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
    })
}

fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// The library once, or with a copy beside it: as if half of the program were in each.
fn mapped(paths: &[PathBuf]) -> Symbols {
    let process = Process::open(std::process::id().cast_signed()).unwrap();
    let mut symbols = Symbols::new();
    for (path, start) in paths.iter().zip((BASE..).step_by(0x1000_0000)) {
        let map = map_of(path);
        let (_, rest) = map.split_once(' ').unwrap();
        let map = format!("{start:x}-{:x} {rest}", start + 0x1000_0000);
        symbols.note(&process, &maps::parse(map.as_bytes()).unwrap());
    }
    symbols
}

fn measure(paths: &[PathBuf], places: &[u64]) {
    let mut symbols = mapped(paths);
    let mut number = 0x9e37_79b9_u64;
    let mut random = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let place = usize::try_from(number >> 33).unwrap() % places.len();
        BASE + (place % paths.len()) as u64 * 0x1000_0000 + places[place]
    };
    let stacks: Vec<[u64; DEPTH]> =
        (0..STACKS).map(|_| std::array::from_fn(|_| random())).collect();
    forget_peak();
    let ([before, _], start) = (memory(), Instant::now());
    symbols.prepare(stacks.iter().flatten().copied());
    let prepared = start.elapsed().as_secs_f64();
    let (mut frames, mut named) = (0, 0);
    for pc in stacks.iter().flatten() {
        let calls = symbols.calls(*pc);
        frames += calls.len();
        named += calls.iter().filter(|call| call.function.is_some()).count();
    }
    let (seconds, [after, peak]) = (start.elapsed().as_secs_f64(), memory());
    println!(
        "{} modules: {seconds:.2} s ({prepared:.2} s of it for {} addresses), {frames} calls, \
         {named} with names; memory {before} MiB, then {after}, at most {peak}",
        paths.len(),
        symbols.remembered.len(),
    );
    assert!(named * 10 > frames * 9);
}

#[test]
#[ignore = "a measurement, with minutes of compiling: cargo test --release -p heapattach-symbols --lib speed -- --ignored --nocapture"]
fn a_hundred_thousand_stacks_of_a_large_program() {
    let folder = Folder::new("large");
    let (one, two) = (folder.0.join("large.so"), folder.0.join("copy.so"));
    // A file of one's own choice spares the compiling.
    match std::env::var("HEAPATTACH_LARGE") {
        Ok(path) => _ = fs::copy(path, &one).unwrap(),
        Err(_) => large(&folder),
    }
    fs::copy(&one, &two).unwrap();
    let bytes = fs::read(&one).unwrap();
    let (places, size) = (places(&bytes, PLACES), megabytes_of_debug(&bytes));
    drop(bytes);
    println!("{size} MiB of debug information, {} places", places.len());
    let both = [one, two];
    for paths in [&both[..1], &both[..1], &both[..]] {
        measure(paths, &places);
    }
}
