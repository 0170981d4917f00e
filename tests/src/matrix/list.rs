//! The cells.

use super::{
    Cell, Expected,
    axes::{
        Allocator::{self, Jemalloc, Mimalloc, Pool, Runtime, Tcmalloc},
        Language::{self, C, Cpp, Go, Python, Rust},
        Libc,
        Linkage::{self, Dynamic, InExecutable, Preloaded, Static, StaticPie},
        Loader::{self, Dlopen, Map},
        Namespace::{self, Container, Ours, Users},
    },
    rows::{DLOPEN_FILTERED, DLOPEN_IDLE, DLOPEN_MUSL, DLOPEN_STATIC, NO_LIBC},
};

const GLIBC: Allocator = Allocator::Glibc;
const MUSL: Allocator = Allocator::Musl;

/// All cells.
pub fn cells() -> Vec<Cell> {
    let exact = [
        glibc(GLIBC, Dynamic, C, Ours, Map),
        glibc(GLIBC, Dynamic, Cpp, Container, Map),
        glibc(GLIBC, Dynamic, Rust, Users, Map),
        glibc(GLIBC, Dynamic, Python, Ours, Dlopen),
        glibc(GLIBC, Static, C, Container, Map),
        glibc(GLIBC, StaticPie, Cpp, Users, Map),
        glibc(GLIBC, StaticPie, Rust, Ours, Map),
        musl(MUSL, Dynamic, C, Ours, Map),
        musl(MUSL, Static, C, Users, Map),
        musl(MUSL, StaticPie, Rust, Container, Map),
        glibc(Jemalloc, Dynamic, C, Users, Dlopen),
        glibc(Jemalloc, InExecutable, Rust, Ours, Map),
        glibc(Jemalloc, Preloaded, C, Ours, Map),
        glibc(Jemalloc, Preloaded, Python, Container, Map),
        glibc(Jemalloc, Static, C, Ours, Map),
        glibc(Tcmalloc, Preloaded, Rust, Container, Dlopen),
        glibc(Tcmalloc, InExecutable, C, Users, Map),
        glibc(Tcmalloc, Preloaded, Python, Users, Map),
        glibc(Tcmalloc, StaticPie, C, Ours, Map),
        glibc(Mimalloc, Dynamic, C, Ours, Map),
        glibc(Mimalloc, InExecutable, Rust, Container, Map),
        glibc(Mimalloc, Preloaded, Python, Users, Dlopen),
        glibc(Pool, InExecutable, C, Ours, Map),
        musl(Pool, InExecutable, C, Container, Map),
        musl(Pool, Static, C, Users, Map),
        glibc(Pool, StaticPie, Cpp, Container, Map),
    ];
    let in_all = [
        glibc(Jemalloc, Preloaded, Cpp, Ours, Map),
        glibc(Jemalloc, StaticPie, Cpp, Container, Map),
        glibc(Tcmalloc, Dynamic, Cpp, Users, Map),
        glibc(Tcmalloc, Static, Cpp, Ours, Map),
        glibc(Mimalloc, Preloaded, Cpp, Ours, Dlopen),
    ];
    let refused = [
        (glibc(GLIBC, Static, Rust, Ours, Dlopen), DLOPEN_STATIC),
        (musl(MUSL, StaticPie, Rust, Users, Dlopen), DLOPEN_STATIC),
        (musl(MUSL, Dynamic, C, Users, Dlopen), DLOPEN_MUSL),
        (glibc(Pool, InExecutable, Cpp, Ours, Dlopen), DLOPEN_IDLE),
        (glibc(GLIBC, Dynamic, Cpp, Container, Dlopen), DLOPEN_FILTERED),
        (cell(Runtime, Static, Go, Libc::Without, Ours, Map), NO_LIBC),
        (cell(Runtime, Static, Go, Libc::Without, Container, Map), NO_LIBC),
        (cell(Runtime, Static, Go, Libc::Without, Users, Map), NO_LIBC),
    ];
    let in_all = in_all.map(|cell| Cell { expected: Expected::ExactInAll, ..cell });
    let refused = refused.map(|(cell, row)| Cell { expected: Expected::Refused(row), ..cell });
    exact.into_iter().chain(in_all).chain(refused).collect()
}

fn glibc(
    allocator: Allocator,
    linkage: Linkage,
    language: Language,
    namespace: Namespace,
    loader: Loader,
) -> Cell {
    cell(allocator, linkage, language, Libc::Glibc, namespace, loader)
}

fn musl(
    allocator: Allocator,
    linkage: Linkage,
    language: Language,
    namespace: Namespace,
    loader: Loader,
) -> Cell {
    cell(allocator, linkage, language, Libc::Musl, namespace, loader)
}

fn cell(
    allocator: Allocator,
    linkage: Linkage,
    language: Language,
    libc: Libc,
    namespace: Namespace,
    loader: Loader,
) -> Cell {
    let expected = Expected::Exact;
    Cell { allocator, linkage, language, libc, namespace, loader, expected }
}
