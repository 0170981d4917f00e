//! How long names for the stacks of a large program take.

use std::{fs, time::Instant};

use heapattach_injector::proc::{Process, maps};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

use super::{
    Symbols,
    folder::{BASE, Folder},
};

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

/// Kilobytes in use at most, so far.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "a measurement, with minutes of compiling: cargo test --release -p heapattach --lib symbols::speed -- --ignored --nocapture"]
fn a_hundred_thousand_stacks_of_a_large_program() {
    let folder = Folder::new("large");
    // A file of one's own choice spares the compiling.
    let path = std::env::var("HEAPATTACH_LARGE").unwrap_or_else(|_| {
        large(&folder);
        folder.0.join("large.so").display().to_string()
    });
    let bytes = fs::read(&path).unwrap();
    let (places, size) = (places(&bytes, PLACES), megabytes_of_debug(&bytes));
    drop(bytes);
    println!("{size} MiB of debug information, {} places", places.len());
    for round in ["first", "warm", "warm"] {
        let mut symbols = Symbols::new();
        let text = super::folder::map_of(path.as_ref());
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        symbols.note(&process, &maps::parse(text.as_bytes()).unwrap());
        let mut number = 0x9e37_79b9_u64;
        let mut random = || {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            places[usize::try_from(number >> 33).unwrap() % places.len()] + BASE
        };
        let stacks: Vec<[u64; DEPTH]> =
            (0..STACKS).map(|_| std::array::from_fn(|_| random())).collect();
        let before = peak();
        let start = Instant::now();
        symbols.prepare(stacks.iter().flatten().copied());
        let prepared = start.elapsed().as_secs_f64();
        let (mut frames, mut named) = (0, 0);
        for stack in &stacks {
            for &pc in stack {
                let calls = symbols.calls(pc);
                frames += calls.len();
                named += calls.iter().filter(|call| call.function.is_some()).count();
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{round}: {seconds:.2} s ({prepared:.2} s of it for {} addresses), {frames} calls, \
             {named} with names; peak {} MiB, {} MiB before",
            symbols.remembered.len(),
            peak() >> 10,
            before >> 10
        );
        assert!(named * 10 > frames * 9);
    }
}
