//! A window of time on the page, in a real browser: it says what a part of the recording says.

use std::time::Duration;

use heapattach_test_folder::{Folder, browser::Browser};
use heapattach_verdict::subject::{Ask, Subject};
use serde_json::json;

use super::{
    browser_tests::assert_same,
    reader::{page, showing},
};
use heapattach_ledger::{Filter, Ledger, Metric};
use heapattach_profile::Estimate;
use heapattach_recording::{Part, Recording, sample::waves};
use heapattach_view::Sites;

const METRICS: [Metric; 4] = [Metric::Live, Metric::Allocated, Metric::Freed, Metric::Temporary];

fn recorded(name: &str, interval: u64) -> (Folder, Recording, Ledger) {
    let folder = Folder::new(name);
    let path = folder.0.join("a");
    waves(&path, interval);
    let recording = Recording::open(&path).unwrap();
    let ledger = recording.part(&Part { with_course: true, ..Part::default() });
    (folder, recording, ledger)
}

/// The same part as the command would tell it.
fn part(recording: &Recording, whole: &Ledger, (from, to): (usize, usize)) -> Ledger {
    let bounds = &whole.course.bounds_ms;
    let end = if to + 1 == bounds.len() { 1 << 40 } else { bounds[to] };
    recording.ledger(Some(Duration::from_millis(bounds[from])..Duration::from_millis(end)))
}

fn assert_tells(browser: &mut Browser, ledger: &Ledger, what: &str) {
    for metric in METRICS {
        let ours = ledger.total.measure(metric);
        for (unit, ours) in [(0, ours.bytes), (1, ours.count)] {
            let shown = browser.tell(&format!("shownTotal(0, {}, {unit})", metric as usize));
            assert_same(&shown, ours, &format!("{what} {} {unit}", metric.name()));
        }
        // The graph is as wide as the sum, and the table adds up to it.
        let of_rows = format!(
            "(() => {{ update({{ metric: {} }}); const whole = rowWeights().reduce((a, b) => a + b, 0); \
             const columns = columnsShown(), list = sortedSites(columns); \
             return [whole, sum(list, columns.find((c) => c.metric === state.metric))]; }})()",
            metric as usize
        );
        let told = browser.tell(&of_rows);
        for number in [&told[0], &told[1]] {
            let page = json!({ "value": number, "low": number, "high": number });
            let ours = ours.bytes.value;
            assert_same(&page, Estimate { value: ours, low: ours, high: ours }, what);
        }
    }
    // By place, too.
    let sites = Sites::new(&Subject::of(ledger), &Ask { limit: 1000, ..Ask::default() });
    for site in &sites.sites {
        let shown = browser.tell(&format!(
            "(() => {{ const at = sites.filter((s) => functionOf(s.call)[0] === {}); \
             at.forEach((s) => {{ s.shown = s.rows; }}); return cellOf(at[0], \
             {{ metric: 0, part: 'now' }}); }})()",
            json!(site.place.function)
        ));
        assert_same(&shown, site.figures.amount.bytes.into(), &site.words);
    }
}

#[test]
fn a_window_says_of_sums_stacks_and_places_what_a_part_of_the_recording_says() {
    for interval in [1, 4096] {
        let (_folder, recording, ledger) = recorded(&format!("window-{interval}"), interval);
        let Some(mut browser) = showing("window", &ledger, None) else { return };
        for window in [(0, 64), (0, 1), (13, 14), (10, 40), (32, 64)] {
            browser.tell(&format!("setTime([spans[{}], spans[{}]])", window.0, window.1));
            let part = part(&recording, &ledger, window);
            assert_tells(&mut browser, &part, &format!("{interval} {window:?}"));
        }
        browser.tell("setTime(null)");
        assert_tells(&mut browser, &ledger, "whole");
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn a_brushed_window_is_told_on_the_whole_page_and_can_be_typed() {
    let (_folder, recording, ledger) = recorded("brushed", 4096);
    let Some(mut browser) = showing("brushed", &ledger, None) else { return };
    browser.tell("update({ metric: PEAK })");
    let (x, y) = browser.middle(".catch");
    browser.mouse("mousePressed", (x, y));
    browser.mouse("mouseMoved", (x + 100.0, y));
    browser.mouse("mouseMoved", (x + 200.0, y));
    browser.mouse("mouseReleased", (x + 200.0, y));
    let window = browser.tell("state.window");
    let at = |end: usize| usize::try_from(window[end].as_u64().unwrap()).unwrap();
    assert_eq!((at(0), at(1) > at(0) && at(1) < 64), (32, true), "{window}");
    assert_eq!(browser.tell("state.metric"), 0, "the peak is not known of a window");
    assert_eq!(browser.text("[data-metric='3'] .detail"), "not known of a window");
    assert_tells(&mut browser, &part(&recording, &ledger, (at(0), at(1))), "brushed");
    let bounds = &ledger.course.bounds_ms;
    let typed = format!("--since {}ms --until {}ms", bounds[at(0)], bounds[at(1)]);
    assert!(browser.text("#window-same").ends_with(&typed), "{}", browser.text("#window-same"));
    assert!(browser.text(".windowed").starts_with("allocated 30 s"));
    browser.tell("document.querySelectorAll('.handle')[1].focus()");
    browser.key("ArrowRight");
    assert_eq!(browser.tell("state.window[1]"), at(1) + 1);
    assert!(browser.keep_picture("window", true) > 20_000);
    // A picture of all of the page resizes it, and the timeline is drawn anew.
    browser.tell("document.querySelectorAll('.handle')[1].focus()");
    browser.key("Escape");
    assert_eq!(browser.tell("state.window"), json!(null));
    assert_eq!(browser.tell("document.querySelector('.windowed').hidden"), true);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_part_of_a_recording_has_windows_of_its_own() {
    let (_folder, recording, _) = recorded("window-of-part", 1);
    let window = Some(Duration::from_secs(20)..Duration::from_secs(40));
    let whole = recording.part(&Part { window, with_course: true, ..Part::default() });
    let functions = vec!["function 0*".to_owned()];
    let filter = Filter { functions, ..Filter::default() };
    let whole = filter.part_of(whole);
    assert_eq!(whole.course.bounds_ms.first(), Some(&20_000));
    let Some(mut browser) = showing("window-of-part", &whole, None) else { return };
    browser.tell("setTime([spans[16], spans[48]])");
    assert_tells(&mut browser, &filter.part_of(part(&recording, &whole, (16, 48))), "part");
    let process = browser.text("#process");
    assert!(process.contains("only from 20.0 s to 40.0 s after the attach"), "{process}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn without_windows_the_page_says_why() {
    let (_folder, _, mut ledger) = recorded("no-windows", 1);
    let Some(mut browser) = showing("no-windows", &ledger, Some(&ledger)) else { return };
    let note = browser.text("#window-note");
    assert!(note.ends_with("this page compares two recordings."), "{note}");
    ledger.course = heapattach_ledger::Course::none("the program has too many stacks");
    browser.open(&page(&ledger, None));
    assert!(browser.text("#window-note").ends_with("too many stacks."));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
