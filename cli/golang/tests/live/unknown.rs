//! A release that no table is of: refused by name, in each respect.

use std::{fs, os::unix::fs::PermissionsExt};

use heapattach_golang::Go;

use super::{
    compiler::{Build, Compiler},
    teller::{Teller, at_moment},
};

#[test]
fn a_release_between_those_that_are_known_is_refused_by_name() {
    let Some(compiler) = Compiler::all().into_iter().next() else { return };
    let file = compiler.build("moments.go", &Build::default()).expect("it compiles");
    let mut bytes = fs::read(&file).expect("its file");
    // The note of the release, as any program has it: the length stays.
    let note = compiler.release.as_bytes();
    let mut other = note.to_vec();
    other[4..6].copy_from_slice(b"20");
    let is_note = |at: &usize| bytes[*at..].starts_with(note);
    let places: Vec<usize> = (0..bytes.len() - note.len()).filter(is_note).collect();
    assert!(!places.is_empty(), "it has its release");
    for at in places {
        bytes[at..at + note.len()].copy_from_slice(&other);
    }
    let file = file.with_extension("go1.20");
    fs::write(&file, bytes).expect("our folder");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut teller = Teller::start(&file, 0);
    teller.tell_and_stop();
    let all = at_moment(&teller.process(), |moment| {
        let go = Go::find(moment).expect("it is Go").expect("its functions");
        let nothing = |_: &str| None;
        let told = [
            go.profile(moment, &nothing).err(),
            go.clone().figures(moment, &nothing).err(),
            go.runtime(moment, &nothing).err(),
        ];
        told.map(|error| error.map(|error| error.to_string()).unwrap_or_default())
    });
    let name = String::from_utf8_lossy(&other);
    for why in all {
        assert!(why.starts_with(&format!("{name} is not known to this heapattach")), "{why}");
        assert!(why.contains("go1.19, go1.21 to go1.27"), "{why}");
    }
}
