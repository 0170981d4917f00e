//! The fingerprint tool itself: it sees each single change, and nothing where nothing changed.

use heapattach_tests::{
    fingerprint::{Fingerprint, Scope, diff, diff_within},
    fixture::{Fixture, Launch},
};

/// The steps of `fixtures/truth/changer.c`, with a word each difference must contain.
const CHANGES: [(u64, &str, &str); 17] = [
    (1, "text byte", "byte"),
    (2, "lazy slot", "JumpSlot mmap"),
    (3, "GOT slot", "GlobDat"),
    (4, "data slot", "Pointer calloc"),
    (5, "descriptor", "descriptor"),
    (6, "descriptor flag", "descriptor 0"),
    (7, "handler", "SigCgt"),
    (8, "mask", "SigBlk"),
    (9, "protection", "mapping"),
    (10, "mapping", "mapping"),
    (11, "thread", "thread"),
    (12, "pending signal", "SigPnd"),
    (15, "page almost like the stub", "mapping"),
    (16, "heap growth", "mapping"),
    (18, "shared mapping", "mapping"),
    (19, "thread name", "changed"),
    (20, "byte of a library", "libc.so.6"),
];
const STUB_PAGE: u64 = 13;
const SECOND_STUB: u64 = 14;
const HEAP_GROWTH: u64 = 16;
const BIND_SLOT: u64 = 17;

fn changer() -> Option<Fixture> {
    Some(Launch::new("changer.c")?.start())
}

fn print(fixture: &Fixture) -> Fingerprint {
    Fingerprint::of(fixture.pid()).expect("a process of ours can be read")
}

#[test]
fn nothing_changed_is_no_difference() {
    let Some(fixture) = changer() else { return };
    let before = print(&fixture);
    assert_eq!(diff(&before, &print(&fixture)), Vec::<String>::new());
    assert!(before.slots.len() > 100, "only {} slots found", before.slots.len());
    let text = before.maps.values().filter(|m| m.is_executable() && m.is_of_file()).count();
    assert!(text >= 3, "the program, libc and the dynamic linker have text, {text} found");
    fixture.finish();
}

#[test]
fn each_single_change_is_seen_and_gone_when_unmade() {
    let Some(mut fixture) = changer() else { return };
    let before = print(&fixture);
    for (step, what, telling) in CHANGES {
        fixture.step(step, 1);
        let found = diff(&before, &print(&fixture));
        assert!(found.iter().any(|line| line.contains(telling)), "{what}: {found:?}");
        assert_eq!(found.len(), 1, "{what} is one change: {found:?}");
        let loosely = diff_within(&before, &print(&fixture), Scope::Loose);
        assert_eq!(loosely.is_empty(), step == HEAP_GROWTH, "{what}, loosely: {loosely:?}");
        fixture.step(step, 0);
        let found = diff(&before, &print(&fixture));
        assert!(found.is_empty(), "{what} was unmade: {found:?}");
    }
    fixture.finish();
}

#[test]
fn one_stub_page_is_allowed_and_must_stay() {
    let Some(mut fixture) = changer() else { return };
    let without = print(&fixture);
    fixture.step(STUB_PAGE, 1);
    let with = print(&fixture);
    assert_eq!(diff(&without, &with), Vec::<String>::new());
    assert_eq!(diff(&with, &with), Vec::<String>::new());
    let gone = diff(&with, &without);
    assert!(gone.iter().any(|line| line.contains("stub page is gone")), "{gone:?}");
    fixture.step(SECOND_STUB, 1);
    let twice = diff(&without, &print(&fixture));
    assert!(twice.iter().any(|line| line.contains("more than one")), "{twice:?}");
    fixture.finish();
}

#[test]
fn a_slot_the_dynamic_linker_bound_is_no_trace() {
    let Some(mut fixture) = changer() else { return };
    let before = print(&fixture);
    fixture.step(BIND_SLOT, 1);
    let after = print(&fixture);
    let value = |print: &Fingerprint| {
        let named = |s: &&heapattach_tests::fingerprint::Slot| s.symbol == "getppid";
        print.slots.values().find(named).expect("the fixture calls getppid").value
    };
    assert_ne!(value(&before), value(&after), "the slot was not lazy");
    assert_eq!(diff(&before, &after), Vec::<String>::new());
    let unbound = diff(&after, &before);
    assert!(unbound.iter().any(|line| line.contains("getppid")), "{unbound:?}");
    fixture.finish();
}

#[test]
fn a_traced_process_is_not_as_it_was() {
    use nix::{sys::ptrace, unistd::Pid};
    let Some(fixture) = changer() else { return };
    let before = print(&fixture);
    let pid = Pid::from_raw(fixture.pid());
    ptrace::seize(pid, ptrace::Options::empty()).expect("a child of ours");
    let found = diff(&before, &print(&fixture));
    assert!(found.iter().any(|line| line.contains("traced by")), "{found:?}");
    // Seized, not stopped: only a stop allows a detach.
    ptrace::interrupt(pid).expect("a tracee of ours");
    nix::sys::wait::waitpid(pid, None).expect("a tracee of ours");
    ptrace::detach(pid, None).expect("a stopped tracee of ours");
    assert_eq!(diff(&before, &print(&fixture)), Vec::<String>::new());
    fixture.finish();
}
