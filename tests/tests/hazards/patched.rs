//! Attaching to a process that another tool has patched: its bytes stay as they are.

use std::{fs::OpenOptions, os::unix::fs::FileExt};

use heapattach_tests::{
    command::Hooks,
    fingerprint::Fingerprint,
    fixture::{Fixture, Launch},
    hazard::Hazard,
    report::Report,
    skip::skip,
    uprobe::Uprobe,
};

const INT3: u8 = 0xcc;
const LIBC: &str = "/libc.so.6";

fn print(fixture: &Fixture) -> Fingerprint {
    Fingerprint::of(fixture.pid()).expect("a process of ours can be read")
}

fn hammer() -> Option<Fixture> {
    Some(Launch::new("hammer.c")?.arg("2").arg("400").start())
}

/// An earlier patch stays, and the report says what we did instead.
fn assert_left_alone(report: &Report, function: &str, hooks: Hooks) {
    let hooked = report.functions.iter().find(|f| f.function == function);
    let excused = report.not_hooked.iter().any(|f| f.function == function && !f.why.is_empty());
    assert!(hooked.is_none_or(|f| f.via == "slots"), "{hooked:?}");
    assert!(hooked.is_some() || excused || hooks == Hooks::Slots, "{function}: {report:?}");
}

fn a_debuggers_breakpoint_in_an_entry(hooks: Hooks) {
    let Some(fixture) = hammer() else { return };
    let address = print(&fixture).address_of(LIBC, "valloc").expect("libc has valloc");
    let memory = format!("/proc/{}/mem", fixture.pid());
    let memory = OpenOptions::new().write(true).open(memory).expect("a child of ours");
    memory.write_all_at(&[INT3], address).expect("text can be written through mem");
    let hazard = Hazard::new("debugger's breakpoint", fixture, hooks).loose();
    hazard.run_with(|fixture, report| {
        assert_eq!(print(fixture).byte_at(address), Some(INT3), "the breakpoint is gone");
        assert_left_alone(report, "valloc", hooks);
    });
}

fn a_uprobe_in_an_entry(hooks: Hooks) {
    let Some(mut fixture) = hammer() else { return };
    let before = print(&fixture);
    let address = before.address_of(LIBC, "malloc").expect("libc has malloc");
    let mapping = before.mapping_at(address).expect("malloc is mapped");
    let offset = address - mapping.start + mapping.offset;
    let probe = match Uprobe::set(fixture.pid(), &mapping.path, offset) {
        Ok(probe) => probe,
        Err(error) => return skip(&format!("no uprobe: {error}"), "run as root, CONFIG_UPROBES"),
    };
    // The kernel sets it when the event starts, and takes its time.
    fixture.wait_for("the probe to be set", |f| print(f).byte_at(address) == Some(INT3));
    fixture.advance(10);
    let hazard = Hazard::new("uprobe", fixture, hooks).loose();
    hazard.run_with(|fixture, report| {
        assert_eq!(print(fixture).byte_at(address), Some(INT3), "the probe is gone");
        assert_left_alone(report, "malloc", hooks);
    });
    drop(probe);
}

heapattach_tests::hazards![a_debuggers_breakpoint_in_an_entry, a_uprobe_in_an_entry];
