//! Screens as they are drawn, byte for byte. Where a change is intended, `HEAPATTACH_GOLDEN=write` writes what is
//! drawn now.

use std::{fs, path::Path, sync::Arc};

use heapattach_ledger::{Ledger, Mark, Metric, Moment, sample};
use heapattach_profile::Sum;
use ratatui_core::{backend::TestBackend, terminal::Terminal};

use super::*;
use crate::{Input, Key, Listed, Snapshot, State, Subject, Tab, Wish};

/// What a terminal of this size shows.
fn screen(model: &mut Model, columns: u16, lines: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(|frame| draw(model, frame.area(), frame.buffer_mut(), false)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..lines).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

fn assert_golden(name: &str, told: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/draw/screens");
    let path = folder.join(format!("{name}.txt"));
    if std::env::var_os("HEAPATTACH_GOLDEN").is_some_and(|value| value == "write") {
        fs::create_dir_all(&folder).unwrap();
        fs::write(&path, told).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(told == expected, "{name}:\n{told}\nexpected:\n{expected}");
}

fn ledger(at_ms: u64, more: u64) -> Ledger {
    let mut ledger = sample::ledger();
    ledger.about.lasted_ms = at_ms;
    for metric in [Metric::Live, Metric::Allocated] {
        ledger.rows[0].add(metric, &Sum::exact(64, more));
        ledger.total.add(metric, &Sum::exact(64, more));
    }
    let moment = |second: u64| Moment {
        at_ms: second * 1000,
        live: 1e5 + 64.0 * f64::from(u32::try_from(more * second * 1000 / at_ms).unwrap()),
        allocated: 1e6 * f64::from(u32::try_from(second).unwrap()),
        rss: Some(40 << 20),
        anonymous: Some(30 << 20),
        own_mapped: Some(1 << 19),
        ..Moment::default()
    };
    ledger.moments = (0..=at_ms / 1000).map(moment).collect();
    ledger
}

fn snapshot(at_ms: u64, more: u64) -> Snapshot {
    let marks = vec![Mark { at_ms: 1500, why: "by SIGUSR1".to_owned() }];
    Snapshot { ledger: Arc::new(ledger(at_ms, more)), marks }
}

fn subject() -> Subject {
    Subject { name: "list".to_owned(), pid: 4242, is_own: true, ..Subject::default() }
}

fn model() -> Model {
    let mut model = Model::new(vec![subject()]);
    model.take(0, snapshot(10_000, 0));
    model.take(0, snapshot(30_000, 20_000));
    model
}

fn press(model: &mut Model, keys: &str) -> Vec<Wish> {
    keys.chars().flat_map(|sign| model.input(Input::Key(Key::Sign(sign)))).collect()
}

#[test]
fn every_tab_on_a_usual_terminal_a_wide_and_a_tiny_one() {
    let mut model = model();
    for (number, tab) in ('1'..).zip(Tab::ALL) {
        press(&mut model, &number.to_string());
        assert_golden(&format!("{}-80x24", tab.name()), &screen(&mut model, 80, 24));
    }
    press(&mut model, "1");
    assert_golden("live-200x60", &screen(&mut model, 200, 60));
    assert_golden("live-40x8", &screen(&mut model, 40, 8));
    assert!(screen(&mut model, 20, 4).starts_with("too small"));
    screen(&mut model, 1, 1);
}

#[test]
fn a_row_in_detail_the_keys_and_what_became_different() {
    let mut model = model();
    screen(&mut model, 80, 24);
    let wishes = model.input(Input::Key(Key::Enter));
    assert_eq!(wishes, ["list.c", "main.c"].map(|file| Wish::Read(file.to_owned())));
    model.take_source("list.c".to_owned(), Some(&"\tnode = malloc(64);\n".repeat(60)));
    assert_golden("detail-80x24", &screen(&mut model, 80, 24));
    model.input(Input::Key(Key::Escape));
    press(&mut model, "?");
    assert_golden("keys-80x24", &screen(&mut model, 80, 24));
    model.input(Input::Key(Key::Escape));
    press(&mut model, "b");
    model.take(0, snapshot(40_000, 30_000));
    press(&mut model, "d");
    assert_golden("difference-80x24", &screen(&mut model, 80, 24));
}

#[test]
fn a_filter_is_typed_and_taken_back() {
    let mut model = model();
    press(&mut model, "/mak");
    assert!(screen(&mut model, 80, 24).contains("/mak"));
    model.input(Input::Key(Key::Enter));
    let told = screen(&mut model, 80, 24);
    assert!(told.contains("make_node") && !told.contains("main (main.c:7)"), "{told}");
    model.input(Input::Key(Key::Escape));
    assert!(screen(&mut model, 80, 24).contains("main (main.c:7)"));
}

#[test]
fn a_click_chooses_a_row_and_opens_it_and_a_tab() {
    let mut model = model();
    let told = screen(&mut model, 80, 24);
    let line = told.lines().position(|line| line.contains("main (main.c:7)")).unwrap();
    let line = u16::try_from(line).unwrap();
    model.input(Input::Click { column: 70, line });
    assert!(screen(&mut model, 80, 24).contains("LIVE ±"));
    model.input(Input::Click { column: 70, line });
    assert!(screen(&mut model, 80, 24).contains("STACK     1 of 1"));
    let tabs = told.lines().nth(2).unwrap();
    let column = u16::try_from(tabs.find("7 Threads").unwrap()).unwrap();
    model.input(Input::Click { column, line: 2 });
    assert!(screen(&mut model, 80, 24).contains("worker (4711)"));
}

#[test]
fn the_sessions_of_others_are_neither_ended_nor_marked() {
    let mut model = Model::new(vec![Subject { is_own: false, ..subject() }]);
    model.take(0, snapshot(1000, 0));
    assert_eq!(press(&mut model, "D"), []);
    assert!(screen(&mut model, 120, 24).contains("cannot be ended from here"));
    assert_eq!(press(&mut model, "m"), []);
    assert_eq!(press(&mut model, "q"), [Wish::End]);
    let mut own = self::model();
    assert_eq!(press(&mut own, "mD"), [Wish::Mark(0), Wish::Detach(0)]);
    own.tell(0, State::Over("the session is over".to_owned()));
    assert_eq!(press(&mut own, "D"), []);
}

#[test]
fn a_process_is_chosen_from_those_that_grow() {
    let mut model = Model::choosing();
    let listed = |anonymous: u64| Listed {
        pid: 7,
        command: "server --port 80".to_owned(),
        anonymous,
        resident: 50 << 20,
        ..Listed::default()
    };
    let other = Listed { pid: 8, command: "cache".to_owned(), anonymous: 1 << 30, ..listed(0) };
    let processes = model.processes().unwrap();
    processes.take(0, vec![listed(30 << 20), other.clone()]);
    processes.take(30_000, vec![listed(40 << 20), other]);
    assert_golden("processes-80x24", &screen(&mut model, 80, 24));
    assert_eq!(model.input(Input::Key(Key::Enter)), [Wish::Attach(7)]);
    model.input(Input::Key(Key::Down));
    assert_eq!(model.input(Input::Key(Key::Enter)), [Wish::Attach(8)]);
    model.add(subject());
    assert!(screen(&mut model, 80, 24).contains("nothing is known yet"));
}

#[test]
fn names_of_a_hostile_file_and_sizes_of_any_terminal_do_no_harm() {
    let mut hostile = ledger(2000, 1);
    hostile.functions[1].name = "名前\u{1b}[2J".repeat(300);
    for moment in &mut hostile.moments {
        (moment.live, moment.allocated, moment.rss) = (f64::NAN, f64::INFINITY, Some(u64::MAX));
    }
    let mut model = Model::new(vec![Subject { name: "a\u{1b}b".to_owned(), ..subject() }]);
    model.take(0, Snapshot { ledger: Arc::new(hostile), ..Snapshot::default() });
    for (columns, lines) in [(0, 0), (1, 50), (30, 6), (31, 7), (79, 24), (300, 3)] {
        for keys in ["1", "2", "4", "5", "7", "8", "9", "?"] {
            press(&mut model, keys);
            assert!(!screen(&mut model, columns, lines).contains('\u{1b}'));
        }
    }
}
