//! What `heapattach view` shows of files that do not change, and for how long it follows one that does.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use heapattach_recording::Recording;
use heapattach_tests::{
    Folder,
    command::Heapattach,
    compile::Source,
    deadline::{PATIENCE, wait_until},
    fixture::Launch,
};
use nix::sys::signal::Signal;

use crate::view::{Viewed, browser, host, link, plain, shown, told};

#[test]
fn the_file_of_a_moment_has_its_page() {
    let Some(mut fixture) = Launch::new("holds.c").map(Launch::start) else { return };
    let Some(mut browser) = browser("view-moment") else { return };
    fixture.step(1, 100);
    let folder = Folder::new("view-moment");
    let [kept, page] = ["a.heapattach-moment", "a.html"].map(|name| folder.0.join(name));
    let pid = fixture.pid().to_string();
    Heapattach::new(["heap", "-p", &pid, "-o"]).arg(&kept).target(fixture.pid()).run().expect(0);
    let report = Heapattach::new(["report"]).arg(&kept).arg("--format=html").arg("-o").arg(&page);
    report.run().expect(0);
    let running =
        Heapattach::new(["view"]).arg(&kept).arg("--no-open").limit(10 * PATIENCE).start();
    host(&running);
    browser.go(&link(&running));
    let text = "document.body.innerText";
    let served = browser.tell(text);
    browser.go(&format!("file://{}", page.display()));
    assert_eq!(served, browser.tell(text), "the page that `report` writes");
    assert!(served.as_str().is_some_and(|text| text.contains("holds")), "{served}");
    running.signal(Signal::SIGINT);
    running.wait().expect(0);
    fixture.finish();
}

/// ```text
/// cargo test -p heapattach-tests --test serve view_files -- --ignored --nocapture
/// ```
#[test]
#[ignore = "takes more than a minute"]
fn a_page_that_follows_a_session_for_a_minute_says_what_the_report_says() {
    let Some(mut viewed) = Viewed::start("view-minute") else { return };
    let Some(mut browser) = browser("view-minute") else { return };
    viewed.fixture.step(1, 10);
    browser.go(&link(&viewed.running));
    let (began, mut turn, mut told_apart) = (Instant::now(), 0_u64, 0);
    while began.elapsed() < Duration::from_secs(60) {
        let kept = viewed.fixture.step(1, 1 + turn * 31 % 97);
        turn += 1;
        if turn.is_multiple_of(40) {
            browser.until(&format!("sideTotal(0, 0, 0).value === {kept}"));
            told_apart += 1;
        }
        thread::sleep(Duration::from_millis(50));
    }
    let recording = viewed.recording();
    let Viewed { fixture, running, folder: _folder, .. } = viewed;
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    browser.until("byId('live-state').textContent === 'ended'");
    let ledger = Recording::open(&recording).expect("it is kept").ledger(None);
    assert_eq!(plain(&shown(&mut browser)), plain(&told(&ledger)));
    println!("{turn} steps, {told_apart} times the same in between");
    fixture.finish();
}

/// Tells how long it takes, and judges nothing: the machine may be slow.
///
/// ```text
/// cargo test --release -p heapattach-tests --test serve view_files -- --ignored --nocapture
/// ```
#[test]
#[ignore = "a benchmark: it tells figures and judges none"]
fn a_recording_of_a_million_blocks_is_opened() {
    let Some(program) = Source::new("million.c").build() else { return };
    let Some(mut browser) = browser("view-million") else { return };
    let folder = Folder::new("view-million");
    let path = folder.0.join("million.heapattach");
    let run = Heapattach::new(["run", "--all", "--on-full=wait", "-o"]).arg(&path).arg("--");
    run.arg(&program).limit(10 * PATIENCE).run().expect(0);
    let size = fs::metadata(&path).expect("it was written").len();
    let began = Instant::now();
    let running =
        Heapattach::new(["view"]).arg(&path).arg("--no-open").limit(10 * PATIENCE).start();
    host(&running);
    wait_until("a link", PATIENCE, || !link(&running).is_empty());
    let listens = began.elapsed();
    browser.go(&link(&running));
    browser.until("sideTotal(0, 1, 1).value >= 1000000");
    println!("{size} bytes; it listens after {listens:.3?}, shown after {:.3?}", began.elapsed());
    running.signal(Signal::SIGINT);
    running.wait().expect(0);
}
