//! `heapattach view`: a page that follows a session, in a real browser and over plain HTTP.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use heapattach_ledger::{Ledger, Metric};
use heapattach_recording::Recording;
use heapattach_test_folder::browser::Browser;
use heapattach_tests::{
    Folder,
    command::{Heapattach, Running},
    deadline::{PATIENCE, wait_until},
    fixture::{Fixture, Launch},
    pty::Pty,
    skip::skip,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::server::{address, ask};

/// A fixture that is shown.
pub struct Viewed {
    pub fixture: Fixture,
    pub running: Running,
    host: String,
    pub folder: Folder,
}

impl Viewed {
    pub fn start(name: &str) -> Option<Self> {
        let fixture = Launch::new("holds.c")?.start();
        let folder = Folder::new(name);
        let (pid, kept) = (fixture.pid().to_string(), folder.0.join("kept").display().to_string());
        let args = ["view", "-p", &pid, "--every", "1", "--no-open", "-o", &kept];
        let running = Heapattach::new(args).target(fixture.pid()).limit(10 * PATIENCE).start();
        let host = host(&running);
        Some(Self { fixture, running, host, folder })
    }

    pub fn recording(&self) -> PathBuf {
        self.folder.0.join(format!("kept/{}.heapattach", self.fixture.pid()))
    }
}

/// Where it listens.
pub fn host(running: &Running) -> String {
    address(running).split('/').next().unwrap_or_default().to_owned()
}

/// The link that it printed.
pub fn link(running: &Running) -> String {
    let talk = running.talk();
    let link = talk.split_whitespace().find(|word| word.starts_with("http://"));
    link.unwrap_or_default().trim_end_matches(';').to_owned()
}

/// The answer to a request of a browser that has the cookie.
fn get(host: &str, path: &str, cookie: &str) -> String {
    ask(host, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n"))
}

/// The cookie that the link becomes.
fn cookie(host: &str, link: &str) -> String {
    let path = link.split_once(host).map_or("", |(_, path)| path);
    let answer = get(host, path, "none=1");
    assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
    let line = answer.lines().find_map(|line| line.strip_prefix("Set-Cookie: "));
    line.and_then(|line| line.split(';').next()).expect("a cookie").to_owned()
}

/// What the page shows of each measure: bytes and blocks, or bytes of pages.
pub fn shown(browser: &mut Browser) -> Value {
    browser.tell(
        "METRICS.map((m, i) => m.pages ? [sideTotal(0, i, 0).value] : \
         [sideTotal(0, i, 0).value, sideTotal(0, i, 1).value])",
    )
}

/// The same of a ledger, as every report has it.
pub fn told(ledger: &Ledger) -> Value {
    let of = |metric| {
        let measure = ledger.total.measure(metric);
        let bytes = if metric == Metric::Peak { ledger.peak } else { measure.bytes };
        json!([bytes.value, measure.count.value])
    };
    let metrics = [Metric::Live, Metric::Allocated, Metric::Freed, Metric::Peak, Metric::Temporary];
    let mut all: Vec<Value> = metrics.map(of).into();
    all.push(json!([ledger.total.mapped_live]));
    Value::from(all)
}

/// Numbers without their kind: 3 and 3.0 are one.
pub fn plain(value: &Value) -> Vec<Vec<f64>> {
    let all = value.as_array().into_iter().flatten();
    all.map(|one| one.as_array().into_iter().flatten().filter_map(Value::as_f64).collect())
        .collect()
}

pub fn browser(name: &str) -> Option<Browser> {
    let browser = Browser::start(name);
    if browser.is_none() {
        skip("no chromium here to show the page in", "apt-get install chromium");
    }
    browser
}

fn state(browser: &mut Browser) -> String {
    browser.text("#live-state")
}

#[test]
fn a_page_follows_a_session_to_its_end_and_says_what_the_report_says() {
    let Some(mut viewed) = Viewed::start("view-live") else { return };
    let Some(mut browser) = browser("view-live") else { return };
    viewed.fixture.step(1, 10);
    browser.go(&link(&viewed.running));
    assert_eq!(browser.tell("location.search + location.pathname"), "/", "no secret stays there");
    let live = "sideTotal(0, 0, 0).value";
    // What the reader chose stays, while numbers change.
    browser.tell("update({ metric: 1, query: 'h' })");
    let mut kept = 0;
    for blocks in [40_u64, 60, 100] {
        kept = viewed.fixture.step(1, blocks);
        browser.until(&format!("{live} === {kept}"));
    }
    assert_eq!(state(&mut browser), "live");
    assert_eq!(
        browser.tell("[state.metric, state.query, byId('search').value]"),
        json!([1, "h", "h"])
    );
    browser.keep_picture("view-live", true);

    // Held still on request, and all is there afterwards.
    browser.click("#live-pause");
    let before = kept;
    kept = viewed.fixture.step(1, 50);
    browser.until("byId('live-state').textContent === 'paused; there is more'");
    assert_eq!(browser.tell(live).as_f64(), Some(exact(before)));
    browser.click("#live-pause");
    browser.until(&format!("{live} === {kept}"));

    let recording = viewed.recording();
    let Viewed { fixture, running, folder: _folder, .. } = viewed;
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    browser.until("byId('live-state').textContent === 'ended'");
    let ledger = Recording::open(&recording).expect("it is kept").ledger(None);
    assert_eq!(plain(&shown(&mut browser)), plain(&told(&ledger)));
    assert_eq!(ledger.total.measure(Metric::Live).bytes.value, exact(kept));
    assert!(browser.text("#about-list").contains("Ended"), "{}", browser.text("#about-list"));
    browser.keep_picture("view-ended", true);
    fixture.finish();
}

#[allow(clippy::cast_precision_loss)]
fn exact(bytes: u64) -> f64 {
    bytes as f64
}

#[test]
fn a_recording_that_grows_is_followed_and_one_whose_writer_died_says_so() {
    let Some(mut fixture) = Launch::new("holds.c").map(Launch::start) else { return };
    let Some(mut browser) = browser("view-grows") else { return };
    let folder = Folder::new("view-grows");
    let whole = folder.0.join("whole.heapattach");
    let (pid, file) = (fixture.pid().to_string(), whole.display().to_string());
    let session = Heapattach::new(["-p", &pid, "--every", "1", "-o", &file]);
    let session = session.target(fixture.pid()).limit(10 * PATIENCE).start();
    wait_until("a recording", PATIENCE, || Recording::open(&whole).is_ok());
    let running = Heapattach::new(["view", &file, "--no-open"]).limit(10 * PATIENCE).start();
    host(&running);
    browser.go(&link(&running));
    let kept = fixture.step(1, 30);
    browser.until(&format!("sideTotal(0, 0, 0).value === {kept}"));

    // Its writer goes without an end: what it wrote by then, in a file that no process has open.
    let torn = folder.0.join("torn.heapattach");
    fs::copy(&whole, &torn).expect("a folder of ours");
    let other = Heapattach::new(["view", &torn.display().to_string(), "--no-open"]);
    let other = other.limit(10 * PATIENCE).start();
    host(&other);
    browser.go(&link(&other));
    browser.until("byId('live-state').textContent === 'breaks off'");
    let why = browser.tell("byId('live-state').title");
    assert!(why.as_str().is_some_and(|why| why.contains("no process has the recording open")));
    browser.keep_picture("view-torn", false);
    other.signal(Signal::SIGINT);
    other.wait().expect(0);

    session.signal(Signal::SIGINT);
    session.wait();
    browser.go(&link(&running));
    browser.until("byId('live-state').textContent === 'ended'");
    assert_eq!(
        plain(&shown(&mut browser)),
        plain(&told(&Recording::open(&whole).expect("it is whole").ledger(None)))
    );
    running.signal(Signal::SIGINT);
    running.wait().expect(0);
    fixture.finish();
}

#[test]
fn only_who_has_the_link_is_let_in() {
    let Some(viewed) = Viewed::start("view-door") else { return };
    let (host, link) = (&viewed.host.clone(), link(&viewed.running));
    let cookie = cookie(host, &link);
    wait_until("a page", PATIENCE, || get(host, "/", &cookie).starts_with("HTTP/1.1 200 "));
    for path in ["/", "/data", "/changes", "/events", "/recording", "/metrics", "/debug/pprof/heap"]
    {
        let status = |request: &str| ask(host, request).split(' ').nth(1).map(str::to_owned);
        let told = |lines: &str| status(&format!("GET {path} HTTP/1.1\r\n{lines}\r\n\r\n"));
        let own = format!("Host: {host}");
        assert_eq!(told(&own).as_deref(), Some("401"), "{path}");
        assert_eq!(told(&format!("{own}\r\nCookie: {cookie}0")).as_deref(), Some("401"), "{path}");
        let foreign = format!("Host: rebound.example\r\nCookie: {cookie}");
        assert_eq!(told(&foreign).as_deref(), Some("421"), "{path}");
        for line in ["Origin: http://evil.example", "Sec-Fetch-Site: cross-site"] {
            let foreign = format!("{own}\r\nCookie: {cookie}\r\n{line}");
            assert_eq!(told(&foreign).as_deref(), Some("403"), "{path}");
        }
        let wrong =
            format!("GET {path}?token=0123456789abcdef0123456789abcdef HTTP/1.1\r\n{own}\r\n\r\n");
        assert_eq!(status(&wrong).as_deref(), Some("401"), "{path}");
    }
    let Viewed { fixture, running, folder: _folder, .. } = viewed;
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    fixture.finish();

    for (listen, why) in [("0.0.0.0:0", "ssh -L"), ("unix:/tmp/x", "a browser cannot")] {
        let refused = Heapattach::new(["view", "-p", "1", "--listen", listen]).run().expect(2);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}

#[test]
fn a_browser_is_opened_from_a_terminal_unless_told_otherwise() {
    let Some(mut fixture) = Launch::new("holds.c").map(Launch::start) else { return };
    fixture.step(1, 1);
    let folder = Folder::new("view-opens");
    let (program, opened) = (folder.0.join("a-browser"), folder.0.join("opened"));
    let script = format!("#!/bin/sh\necho \"$2\" > {0}.new && mv {0}.new {0}\n", opened.display());
    fs::write(&program, script).expect("a folder of ours");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let pid = fixture.pid().to_string();
    let start = |more: &[&str], pty: Option<&Pty>| -> Running {
        let mut command = Heapattach::new(["view", "-p", &pid]).target(fixture.pid());
        for word in more {
            command = command.arg(*word);
        }
        let command = command.env("BROWSER", &format!("{} -x %s", program.display()));
        match pty {
            Some(pty) => command.terminal(pty.slave()).start(),
            None => command.start(),
        }
    };
    let end = |running: Running| {
        running.signal(Signal::SIGINT);
        running.wait().expect(0);
    };
    // Not a terminal; told not to.
    let running = start(&[], None);
    host(&running);
    end(running);
    let mut pty = Pty::of_columns(200);
    let running = start(&["--no-open"], Some(&pty));
    wait_until("a link", PATIENCE, || pty.seen().contains("?token="));
    end(running);
    assert!(!opened.exists());

    let mut pty = Pty::of_columns(200);
    let running = start(&[], Some(&pty));
    wait_until("a browser", PATIENCE, || opened.exists());
    let link = fs::read_to_string(&opened).expect("it was written");
    let host = link.trim().strip_prefix("http://").and_then(|rest| rest.split('/').next());
    let host = host.expect("a link").to_owned();
    assert!(!pty.seen().contains(link.trim()), "the secret of the terminal is another");
    // What others can read in the arguments of the browser leads in once.
    cookie(&host, link.trim());
    let path = link.trim().split_once(&host).map_or("", |(_, path)| path);
    assert!(get(&host, path, "none=1").starts_with("HTTP/1.1 401 "));
    end(running);
    fixture.finish();
}
