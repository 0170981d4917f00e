//! The ledger of what a session has in memory is the one that is read from its file.

use heapattach_process::{
    addr::RemoteAddr,
    event::{StackId, What},
    python_frame::{PythonFrame, address_of},
    stack::{Stack, StackEnd},
};
use proptest::prelude::*;

use crate::names::Code;
use crate::sample::{Known as Stacks, Session, second, write_queue};
use crate::{Heading, Recording, Store, create};
use heapattach_ledger::{About, ExitReport, Ledger, Mark, Metric, Moment, Outcome, Row};
use heapattach_symbols::{Known, Symbols, python::known_of_session};
use heapattach_test_folder::Folder;

/// Where code of the program is.
const PROGRAM: u64 = 0x10_0000;
/// An address at which nothing is mapped.
const NOWHERE: u64 = 0x7000_0000;

/// All that is in a ledger.
pub fn told(ledger: &Ledger) -> Vec<String> {
    let row = |row: &Row| {
        let sums = Metric::ALL.map(|metric| {
            let sum = row.sum(metric);
            (sum.measure(), sum.records())
        });
        format!(
            "{} {} {sums:?} {:?} {} {} {:?} {:?} {:?}",
            row.stack,
            row.thread,
            row.heap.unseen(),
            row.mapped,
            row.mapped_live,
            row.sizes,
            row.lifetimes,
            row.reallocated
        )
    };
    let course = &ledger.course;
    let mut cells: Vec<String> = course.cells.iter().map(|cell| format!("{cell:?}")).collect();
    cells.sort();
    let besides = [
        serde_json::to_string(&ledger.about).unwrap(),
        format!("{:?}", ledger.about.part),
        format!("{:?}", ledger.modules),
        format!("{:?}", ledger.functions),
        format!("{:?}", ledger.locations),
        format!("{:?}", ledger.threads),
        format!("{:?}", (&ledger.births, &ledger.page_births, &ledger.kernel)),
        format!("{:?}", ledger.peak),
        format!("{:?}", ledger.moments),
        format!("{:?} {:?}", course.bounds_ms, course.why_none),
        row(&ledger.total),
    ];
    let stacks = ledger.stacks.iter().map(|stack| format!("{stack:?}"));
    let rows = ledger.rows.iter().map(row);
    besides.into_iter().chain(stacks).chain(rows).chain(cells).collect()
}

/// A module of files that are not there, and Python frames.
fn modules(has_names: bool) -> Vec<Known> {
    let frame = |function: &str, line| PythonFrame {
        function: function.into(),
        file: "/srv/app\u{1b}.py".into(),
        line,
        ..PythonFrame::default()
    };
    let python = [frame("leaf", Some(4)), frame("C.root\u{202e}", None)];
    let text = format!(
        r#"[{{"path":"/no/such/program\u001b","pieces":[
            {{"start":{PROGRAM},"end":{},"file_offset":4096}}]}}]"#,
        PROGRAM + 0x1000
    );
    let mut modules: Vec<Known> = serde_json::from_str(&text).unwrap();
    modules.extend(known_of_session(&python, has_names));
    modules
}

/// A frame of each sort.
fn address(sort: u8) -> RemoteAddr {
    match sort % 8 {
        0..4 => RemoteAddr::new(PROGRAM + 0x10 * u64::from(sort)),
        4 => address_of(0),
        5 => address_of(1),
        6 => RemoteAddr::new(NOWHERE + u64::from(sort)),
        _ => RemoteAddr::new(PROGRAM),
    }
}

fn stack(sorts: &[u8]) -> Stack {
    let ends = [
        StackEnd::Outermost,
        StackEnd::Depth,
        StackEnd::NoRule,
        StackEnd::Implausible,
        StackEnd::Lost,
        StackEnd::Late,
    ];
    let end = ends[sorts.iter().map(|&sort| usize::from(sort)).sum::<usize>() % ends.len()];
    let frames = sorts.iter().map(|&sort| address(sort)).collect();
    Stack { frames, end, native: None }
}

/// What one step is: what happens, where, and of which stack.
type Step = (u8, u8, u8, u16);

fn happen(session: &mut Session, (what, at, stack, size): Step, interval: u64) {
    let ring = if what & 0x40 == 0 { 0 } else { 5 };
    let (place, stack) = (RemoteAddr::new(0x1000 + u64::from(at) * 16), StackId(stack.into()));
    let page = RemoteAddr::new(0x100_0000 + u64::from(at) * 4096);
    let what = match what % 8 {
        0..4 => What::Allocated { at: place, size: size.into(), stack, interval },
        4 | 5 => What::Freed { at: place, block: None },
        6 => What::Mapped { at: page, length: 8192, stack },
        _ => What::Unmapped { at: page, length: 4096, stack },
    };
    session.event(ring, what);
}

/// What is said of the session at its end, by a target that wishes us ill.
fn heading(interval: u64) -> Heading {
    let about = About {
        pid: 7,
        command: "program\u{1b}[2J".to_owned(),
        every: interval,
        asked: Some([200, 400_000]),
        outcome: Outcome::Exited.into(),
        exit: Some(ExitReport::Code(3)),
        blind: vec!["a function\u{7}".to_owned()],
        missing_symbols: vec!["a module\u{202e}".to_owned()],
        lasted_ms: 900,
        ..About::default()
    };
    Heading { about, hide_frames: vec!["leaf".to_owned()], is_final: true, ..Heading::default() }
}

/// Writes it down; the ledgers of memory and of the file.
fn both(
    stacks: &[Vec<u8>],
    steps: &[Step],
    (interval, has_names, counts): (u64, bool, bool),
) -> [Ledger; 2] {
    let folder = Folder::new("in-memory");
    let path = folder.0.join("a");
    let file = create(&path).unwrap();
    let mut session = Session::on(write_queue(file, &path, 1 << 30));
    session.stacks = Stacks::of(stacks.iter().map(|sorts| stack(sorts)).collect());
    let known = modules(has_names);
    session.session_writer.modules(&known);
    let mut moments = Vec::new();
    for (number, &step) in (0_u64..).zip(steps) {
        session.now = number * second() / 20;
        happen(&mut session, step, interval);
        if number % 30 == 0 {
            let flow = counts.then(|| vec![[1, number, 0]]);
            let moment = Moment { at_ms: number * 50, live: 7.0, flow, ..Moment::default() };
            session.session_writer.moment(moment.clone());
            session.session_writer.mark(Mark { at_ms: number * 50, why: "it is time".to_owned() });
            moments.push(moment);
            session.keep_up();
        }
    }
    let named = |addresses: &[u64]| Code::of(addresses.iter().copied(), &mut Symbols::of(&known));
    let (mut ledger, replay) = session.finish_as(heading(interval), named, moments, has_names);
    assert_eq!(replay.is_some(), counts && !steps.is_empty());
    if let Some(replay) = replay {
        let store = Store { path: Some(path.clone()), file: create(&folder.0.join("b")).unwrap() };
        ledger.course = replay.course(store, || true).unwrap();
    }
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.damage(), None);
    [ledger, recording.ledger(None)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn what_is_in_memory_is_what_is_read(
        // Fewer than are named: some stacks are not known.
        stacks in prop::collection::vec(prop::collection::vec(0..32u8, 0..9), 0..6),
        steps in prop::collection::vec((any::<u8>(), 0..20u8, 0..8u8, 0..5000u16), 0..200),
        interval in prop_oneof![Just(1_u64), Just(4096)],
        has_names: bool,
        counts: bool,
    ) {
        let [memory, file] = both(&stacks, &steps, (interval, has_names, counts));
        prop_assert!(memory.is_sound());
        prop_assert_eq!(told(&memory), told(&file));
    }
}

#[test]
fn hostile_text_is_clean_and_the_certain_calls_are_told() {
    // Native, nowhere, Python, native; and one that no table knows.
    let stacks = [vec![1, 6, 4, 2], vec![2, 6, 3]];
    let steps = [(0, 1, 1, 100), (0, 2, 2, 100), (0, 3, 7, 100), (6, 4, 1, 0)];
    let [memory, file] = both(&stacks, &steps, (1, true, false));
    assert_eq!(told(&memory), told(&file));
    let text = told(&memory).concat();
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}']) && !text.contains("\\u001b"), "{text}");
    let depths: Vec<usize> = memory.stacks.iter().map(|stack| stack.locations.len()).collect();
    // What follows the Python frame is not certain; of what is in no module the call before it is all.
    assert_eq!(depths, [3, 1, 0]);
    assert!(memory.cause(0).unwrap().function.name.starts_with("program"));
}
