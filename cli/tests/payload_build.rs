//! The payload that the command carries: self-contained, and the same from every build.
#![cfg(target_arch = "x86_64")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use heapattach_injector::attach::PayloadImage;

const BUILT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/payload.so"));

/// Runs the build script of this package once more.
fn build(name: &str, environment: &[(&str, &str)]) -> Vec<u8> {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&out).unwrap();
    let mut script = Command::new(PathBuf::from(env!("HEAPATTACH_BUILD_SCRIPT")));
    script.env("OUT_DIR", &out).env("RUSTC", env!("HEAPATTACH_BUILD_RUSTC"));
    script.env("TARGET", env!("HEAPATTACH_BUILD_TARGET")).env("CARGO_CFG_TARGET_ARCH", "x86_64");
    let output = script.envs(environment.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !said.contains("cargo::error"), "{said}");
    fs::read(out.join("payload.so")).unwrap()
}

#[test]
fn the_payload_needs_nothing_and_exports_only_its_descriptor() {
    let image = PayloadImage::parse(BUILT).unwrap();
    // Twenty-four pages in the target at most; a sudden growth would mean that something was linked in.
    assert!((1 << 14..24 << 12).contains(&image.text().len()), "{} bytes", image.text().len());
    for mark in ["rustc", "panicked", env!("CARGO_MANIFEST_DIR"), env!("OUT_DIR")] {
        let found = image.text().windows(mark.len()).any(|bytes| bytes == mark.as_bytes());
        assert!(!found, "{mark} is in the text");
    }
}

#[test]
fn every_build_gives_the_same_bytes_whatever_the_environment_says() {
    let hostile = [
        ("RUSTFLAGS", "-Ctarget-cpu=native"),
        ("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-cpu=native"),
        ("RUSTC_WRAPPER", "/does/not/exist"),
        ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
        ("LD_RUN_PATH", "/does/not/exist"),
    ];
    assert!(build("one", &[]) == BUILT, "a second build differs");
    assert!(build("a longer path", &hostile) == BUILT, "a build with flags set differs");
}

#[test]
fn a_cut_or_changed_payload_is_refused_or_read_without_a_panic() {
    for len in (0..BUILT.len()).step_by(97) {
        assert!(PayloadImage::parse(&BUILT[..len]).is_err(), "{len} bytes");
    }
    let mut changed = BUILT.to_vec();
    for at in 0..BUILT.len() {
        for value in [0, 0x7f, 0xff] {
            changed[at] = value;
            let _ = PayloadImage::parse(&changed);
        }
        changed[at] = BUILT[at];
    }
}
