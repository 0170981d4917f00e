//! The axes along which targets differ, and their values.

/// Whose `malloc` it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// That of glibc.
    Glibc,
    /// That of musl.
    Musl,
    /// jemalloc.
    Jemalloc,
    /// tcmalloc.
    Tcmalloc,
    /// mimalloc.
    Mimalloc,
    /// A pool of the program's own, named by `--hook`.
    Pool,
    /// One of a language's runtime, which asks the kernel by itself.
    Runtime,
}

/// How the allocator comes into the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// As a library that the program names.
    Dynamic,
    /// By `LD_PRELOAD`.
    Preloaded,
    /// As a part of a program that is dynamic otherwise.
    InExecutable,
    /// As a part of a static program at a fixed place.
    Static,
    /// As a part of a static program that moves itself.
    StaticPie,
}

/// What the program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++: operators of all kinds, and exceptions that come out of them.
    Cpp,
    /// Rust.
    Rust,
    /// Python with an extension in C.
    Python,
    /// Go without cgo.
    Go,
}

/// The C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libc {
    /// glibc.
    Glibc,
    /// musl.
    Musl,
    /// None.
    Without,
}

/// Where the program lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Where heapattach does.
    Ours,
    /// In a container: own users, pids, mounts, network; a filter of system calls.
    Container,
    /// In a user namespace.
    Users,
}

/// How the hooks come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// Mapped from outside.
    Map,
    /// Loaded by the program's own loader.
    Dlopen,
}

/// A value of any axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// See [`Allocator`].
    Allocator(Allocator),
    /// See [`Linkage`].
    Linkage(Linkage),
    /// See [`Language`].
    Language(Language),
    /// See [`Libc`].
    Libc(Libc),
    /// See [`Namespace`].
    Namespace(Namespace),
    /// See [`Loader`].
    Loader(Loader),
}

/// All values, axis by axis.
pub fn axes() -> [Vec<Value>; 6] {
    use Allocator::{Jemalloc, Mimalloc, Pool, Runtime, Tcmalloc};
    use Language::{C, Cpp, Go, Python, Rust};
    use Linkage::{Dynamic, InExecutable, Preloaded, Static, StaticPie};
    let allocators =
        [Allocator::Glibc, Allocator::Musl, Jemalloc, Tcmalloc, Mimalloc, Pool, Runtime];
    [
        allocators.map(Value::Allocator).to_vec(),
        [Dynamic, Preloaded, InExecutable, Static, StaticPie].map(Value::Linkage).to_vec(),
        [C, Cpp, Rust, Python, Go].map(Value::Language).to_vec(),
        [Libc::Glibc, Libc::Musl, Libc::Without].map(Value::Libc).to_vec(),
        [Namespace::Ours, Namespace::Container, Namespace::Users].map(Value::Namespace).to_vec(),
        [Loader::Map, Loader::Dlopen].map(Value::Loader).to_vec(),
    ]
}
