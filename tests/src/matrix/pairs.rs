//! Which two values can come together in one program.

use super::{
    Cell,
    axes::{Allocator, Language, Libc, Linkage, Value, axes},
};

/// Why there is no program with both values; `None` if there is.
pub fn why_not(one: Value, other: Value) -> Option<&'static str> {
    against(one, other).or_else(|| against(other, one))
}

fn against(one: Value, other: Value) -> Option<&'static str> {
    use Value as V;
    match (one, other) {
        (V::Allocator(allocator), V::Linkage(linkage)) => of_linkage(allocator, linkage),
        (V::Allocator(allocator), V::Language(language)) => of_language(allocator, language),
        (V::Allocator(allocator), V::Libc(libc)) => of_libc(allocator, libc),
        (V::Language(Language::Go), V::Loader(super::axes::Loader::Dlopen))
        | (V::Allocator(Allocator::Runtime), V::Loader(super::axes::Loader::Dlopen))
        | (V::Libc(Libc::Without), V::Loader(super::axes::Loader::Dlopen)) => {
            Some("static, and other static programs show what is said then")
        }
        (V::Linkage(linkage), V::Language(language)) => match (linkage, language) {
            (Linkage::Static, Language::Go) => None,
            (_, Language::Go) => Some("Go without cgo is static"),
            (Linkage::Static | Linkage::StaticPie | Linkage::InExecutable, Language::Python) => {
                Some("the interpreter comes as it is installed")
            }
            _ => None,
        },
        (V::Linkage(linkage), V::Libc(libc)) => match (linkage, libc) {
            (Linkage::Preloaded, Libc::Musl) => Some("the libraries are glibc's"),
            (Linkage::Static, Libc::Without) => None,
            (_, Libc::Without) => Some("Go without cgo is static"),
            _ => None,
        },
        (V::Language(language), V::Libc(libc)) => match (language, libc) {
            (Language::Go, Libc::Without) => None,
            (Language::Go, _) | (_, Libc::Without) => Some("Go alone has no C library"),
            (Language::Cpp, Libc::Musl) => Some("no C++ library for musl is packaged"),
            (Language::Python, Libc::Musl) => Some("the interpreter comes as it is installed"),
            _ => None,
        },
        _ => None,
    }
}

fn of_linkage(allocator: Allocator, linkage: Linkage) -> Option<&'static str> {
    use Allocator as A;
    use Linkage as L;
    match (allocator, linkage) {
        (A::Glibc | A::Musl, L::Preloaded | L::InExecutable) => Some("it is a C library's part"),
        (A::Mimalloc, L::Static | L::StaticPie) => Some("no archive of it is packaged"),
        (A::Pool, L::Dynamic | L::Preloaded) => Some("it is the program's own"),
        (A::Runtime, L::Static) => None,
        (A::Runtime, _) => Some("Go without cgo is static"),
        _ => None,
    }
}

fn of_language(allocator: Allocator, language: Language) -> Option<&'static str> {
    use Allocator as A;
    use Language as L;
    match (allocator, language) {
        (A::Runtime, L::Go) => None,
        (A::Runtime, _) | (_, L::Go) => Some("Go alone has an allocator of its runtime"),
        (A::Musl, L::Cpp) => Some("no C++ library for musl is packaged"),
        (A::Musl, L::Python) => Some("the interpreter comes as it is installed"),
        (A::Pool, L::Rust | L::Python) => Some("a pool is a function, whoever calls it"),
        _ => None,
    }
}

fn of_libc(allocator: Allocator, libc: Libc) -> Option<&'static str> {
    use Allocator as A;
    match (allocator, libc) {
        (A::Runtime, Libc::Without) => None,
        (A::Runtime, _) | (_, Libc::Without) => Some("Go alone has no C library"),
        (A::Glibc, Libc::Musl) | (A::Musl, Libc::Glibc) => Some("each has its own"),
        (A::Jemalloc | A::Tcmalloc | A::Mimalloc, Libc::Musl) => Some("the packages are glibc's"),
        _ => None,
    }
}

/// The pairs that can be and that no cell has, and the cells with pairs that cannot be.
pub fn gaps(cells: &[Cell]) -> Vec<String> {
    let axes = axes();
    let mut gaps = Vec::new();
    for (at, first) in axes.iter().enumerate() {
        for second in &axes[at + 1..] {
            for (&one, &other) in first.iter().flat_map(|a| second.iter().map(move |b| (a, b))) {
                let has = cells.iter().find(|c| c.has(one) && c.has(other));
                match (has, why_not(one, other)) {
                    (None, None) => gaps.push(format!("no cell has {one:?} and {other:?}")),
                    (Some(cell), Some(why)) => {
                        gaps.push(format!("{cell} has {one:?} and {other:?}, but {why}"));
                    }
                    _ => {}
                }
            }
        }
    }
    gaps
}
