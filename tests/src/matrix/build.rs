//! From the values of a cell to a program that can be started.

use std::path::{Path, PathBuf};

use super::{
    Cell,
    axes::{Allocator, Language, Libc, Linkage, Loader, Namespace},
};
use crate::{
    compile::{Source, fixture},
    fixture::Launch,
    real::python,
    skip::skip,
    toolchain::{go, has_rust_target, rust_with_crates},
};

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
const RUST_MUSL: &str = "x86_64-unknown-linux-musl";
const THREADS: &str = "4";
const TURNS: &str = "5000";

/// A program and its first arguments.
type Words = Vec<PathBuf>;

/// The program of a cell, with all that it is started with; `None` (reported as skipped) where something
/// is missing.
pub fn launch(cell: &Cell, seed: u64) -> Option<Launch> {
    let mut words = program(cell)?;
    if cell.namespace != Namespace::Ours {
        words.splice(0..0, confinement(cell.namespace)?);
    }
    let mut launch = Launch::program(&words[0]);
    for word in &words[1..] {
        launch = launch.arg(word);
    }
    launch = launch.arg(THREADS).arg(TURNS).arg(seed.to_string());
    if cell.language == Language::Cpp && cell.allocator != Allocator::Pool && !cell.throws() {
        launch = launch.arg("calm");
    }
    let preloads = preloads(cell)?;
    let variable =
        if cell.namespace == Namespace::Ours { "LD_PRELOAD" } else { "CONFINED_PRELOAD" };
    Some(if preloads.is_empty() { launch } else { launch.env(variable, preloads.join(":")) })
}

/// The command line of a cell that can simply be run: nothing preloaded, no confinement.
pub fn words(cell: &Cell, seed: u64) -> Option<Vec<String>> {
    let is_plain = cell.namespace == Namespace::Ours && cell.linkage != Linkage::Preloaded;
    let program = is_plain.then(|| program(cell)).flatten()?;
    let words = program.iter().map(|word| word.to_string_lossy().into_owned());
    Some(words.chain([THREADS.into(), TURNS.into(), seed.to_string()]).collect())
}

fn program(cell: &Cell) -> Option<Words> {
    match (cell.language, cell.allocator) {
        (Language::Go, _) => Some(vec![go("plain.go")?]),
        (Language::Python, _) => {
            let Some(python) = python() else {
                skip("no python3 here", "apt-get install python3");
                return None;
            };
            let object = Source::new("truth.c").flag("-shared").flag("-fPIC");
            let object = object.flag("-Dmain=truth_main").build()?;
            Some(vec![python, fixture("python_extension.py"), object])
        }
        (Language::Rust, Allocator::Jemalloc) if cell.linkage == Linkage::InExecutable => {
            Some(vec![rust_with_crates("truth-jemalloc")?])
        }
        (Language::Rust, Allocator::Mimalloc) if cell.linkage == Linkage::InExecutable => {
            Some(vec![rust_with_crates("truth-mimalloc")?])
        }
        (Language::Rust, _) => Some(vec![rust(cell)?]),
        (_, Allocator::Pool) => Some(vec![linked(cell, Source::new("pools.c"))?]),
        (Language::C, _) => Some(vec![linked(cell, Source::new("truth.c"))?]),
        (Language::Cpp, _) => Some(vec![linked(cell, Source::new("truth.cpp"))?]),
    }
}

fn rust(cell: &Cell) -> Option<PathBuf> {
    let source = Source::new("truth.rs");
    let source = match (cell.libc, cell.linkage) {
        (Libc::Musl, _) if !has_rust_target(RUST_MUSL) => return None,
        (Libc::Musl, _) => source.flag(&format!("--target={RUST_MUSL}")),
        (_, Linkage::Static) => {
            source.flag("-Ctarget-feature=+crt-static").flag("-Crelocation-model=static")
        }
        (_, Linkage::StaticPie) => source.flag("-Ctarget-feature=+crt-static"),
        _ => source,
    };
    source.build()
}

fn linked(cell: &Cell, mut source: Source) -> Option<PathBuf> {
    if cell.libc == Libc::Musl {
        source = source.compiler("musl-gcc");
    } else if cell.language == Language::Cpp {
        source = source.compiler("c++");
    }
    source = match cell.linkage {
        Linkage::Static => source.flag("-static"),
        Linkage::StaticPie => source.flag("-static-pie"),
        _ => source,
    };
    let archive = !matches!(cell.linkage, Linkage::Dynamic | Linkage::Preloaded);
    if let Some((shared, archived, package)) = files(cell.allocator, cell.linkage)
        && cell.linkage != Linkage::Preloaded
    {
        let file = installed(if archive { archived } else { shared }, package)?;
        source = source.flag(&file);
        for library in if archive { &["-lstdc++", "-lm", "-ldl"][..] } else { &[] } {
            source = source.flag(library);
        }
    }
    source.build()
}

/// The shared library of an allocator, its archive, and who has them.
fn files(
    allocator: Allocator,
    linkage: Linkage,
) -> Option<(&'static str, &'static str, &'static str)> {
    match (allocator, linkage) {
        (Allocator::Jemalloc, Linkage::StaticPie) => {
            Some(("libjemalloc.so.2", "libjemalloc_pic.a", "libjemalloc-dev"))
        }
        (Allocator::Jemalloc, _) => {
            Some(("libjemalloc.so.2", "libjemalloc.a", "libjemalloc2 libjemalloc-dev"))
        }
        (Allocator::Tcmalloc, _) => {
            Some(("libtcmalloc_minimal.so.4", "libtcmalloc_minimal.a", "libgoogle-perftools-dev"))
        }
        (Allocator::Mimalloc, _) => Some(("libmimalloc.so.2", "", "libmimalloc2.0")),
        _ => None,
    }
}

fn installed(file: &str, package: &str) -> Option<String> {
    let path = Path::new(LIBRARIES).join(file);
    if !path.exists() {
        skip(&format!("no {file} here"), &format!("apt-get install {package}"));
        return None;
    }
    Some(path.to_string_lossy().into_owned())
}

/// Libraries to preload: the allocator, and for a loader that waits for a thread to come by, one
/// that does so while the program rests.
fn preloads(cell: &Cell) -> Option<Vec<String>> {
    let mut preloads = Vec::new();
    if cell.linkage == Linkage::Preloaded
        && let Some((shared, _, package)) = files(cell.allocator, cell.linkage)
    {
        preloads.push(installed(shared, package)?);
    }
    if cell.loader == Loader::Dlopen && cell.libc == Libc::Glibc && !cell.is_static() {
        preloads.push(Source::new("comes_by.c").build()?.to_string_lossy().into_owned());
    }
    Some(preloads)
}

fn confinement(namespace: Namespace) -> Option<Words> {
    let kind = if namespace == Namespace::Container { "container" } else { "users" };
    Some(vec![Source::new("confined.c").build()?, kind.into(), "exec".into()])
}
