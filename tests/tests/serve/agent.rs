//! `heapattach agent`: processes are found by rules, watched, left as they were, and left alone where that
//! is right.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use heapattach_tests::{
    Folder,
    command::{Heapattach, Running},
    compile::Source,
    deadline::{PATIENCE, wait_until},
    fingerprint::{Fingerprint, Scope, diff_within},
    fixture::{Fixture, Launch},
    json_schema::faults,
};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Looks at once, and at a machine that other tests keep busy.
const LIMITS: &str = "interval = '200ms'\n[admission]\nmin-age = '1ms'\nmax-pressure = 1000.0\n\
                      [budget]\nprocessors-percent = 100.0\nmemory = '64GiB'\nstopped-ms-per-hour = 1e9\n";

/// Agents are killed so often; many: `HEAPATTACH_CYCLES=1000 cargo test -p heapattach-tests --test serve --
/// agent::killed_again --nocapture`.
pub fn cycles() -> u32 {
    std::env::var("HEAPATTACH_CYCLES").map_or(3, |text| text.parse().expect("a number"))
}

/// A folder with the file of an agent, and a program whose name no other process has.
pub struct Place {
    pub folder: Folder,
    name: String,
}

impl Place {
    /// `None` without a compiler.
    pub fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = Folder::new("agent");
        let name = format!("ag{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        fs::copy(Source::new("holds.c").build()?, folder.0.join(&name)).expect("a copy");
        let place = Self { folder, name };
        place.write("");
        Some(place)
    }

    pub fn config(&self) -> PathBuf {
        self.folder.0.join("agent.toml")
    }

    /// The file, with more of its rule.
    pub fn write(&self, more: &str) {
        self.write_with("", more);
    }

    /// The same, with more sections before the rule.
    pub fn write_with(&self, sections: &str, more: &str) {
        let state = self.folder.0.join("state");
        let text = format!(
            "version = 1\nstate = '{}'\n{LIMITS}{sections}\n[[rule]]\nname = 'fixture'\nprocess = '{}'\nevery = '1'\n{more}\n",
            state.display(),
            self.name
        );
        fs::write(self.config(), text).expect("a file of ours");
    }

    /// The name of its program, below the folder.
    pub fn program(&self) -> &str {
        &self.name
    }

    pub fn fixture(&self) -> Fixture {
        Launch::program(&self.folder.0.join(&self.name)).start()
    }

    pub fn command(&self, more: &[&str]) -> Heapattach {
        let config = self.config();
        let args = ["agent", "--config", config.to_str().expect("a path of ours")];
        let command = Heapattach::new(args).limit(20 * PATIENCE);
        more.iter().fold(command, |command, word| command.arg(*word))
    }

    pub fn start(&self) -> Running {
        self.command(&["--log", "json"]).start()
    }

    /// What is in the spool.
    pub fn spool(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.folder.0.join("state/spool")).into_iter().flatten().flatten();
        files.map(|file| file.path()).collect()
    }

    pub fn dry_run(&self) -> Value {
        let told = self.command(&["--dry-run", "--json"]).run().expect(0).stdout;
        serde_json::from_str(&told).expect("JSON")
    }
}

/// Events of that name.
pub fn events(talk: &str, name: &str) -> Vec<Value> {
    let all = talk.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|event| event["event"] == name).collect()
}

/// Whether a session is on a process, or one left something in it.
pub fn is_touched(pid: i32) -> bool {
    let told = Heapattach::new(["status", "--json"]).run();
    told.stdout.contains(&format!("\"pid\": {pid},"))
}

/// Whether the session has its recording, so that the attach is over.
pub fn wait_for_attach(place: &Place, pid: i32) {
    let path = place.folder.0.join(format!("state/sessions/{pid}.heapattach"));
    wait_until("an attach", PATIENCE, || path.exists() && is_touched(pid));
}

pub fn assert_clean(before: &Fingerprint, pid: i32) {
    let after = Fingerprint::of(pid).expect("a process of ours");
    assert_eq!(diff_within(before, &after, Scope::Loose), [""; 0]);
}

#[test]
fn a_dry_run_says_what_would_be_done_and_touches_nothing() {
    let Some(place) = Place::new() else { return };
    let fixture = place.fixture();
    let before = Fingerprint::of(fixture.pid()).expect("a process of ours");
    let document = place.dry_run();
    let schema = Heapattach::new(["schema", "agent"]).run().expect(0).stdout;
    let schema = serde_json::from_str(&schema).expect("JSON");
    assert_eq!(faults(&schema, &document), [""; 0]);
    let [one] = &document["processes"].as_array().expect("a list")[..] else {
        panic!("{document}")
    };
    assert_eq!((&one["pid"], &one["action"]), (&fixture.pid().into(), &"watch".into()));
    let told = place.command(&["--dry-run"]).run().expect(0).stdout;
    assert!(told.contains("rule fixture: would be watched: continuous, every 1 B"), "{told}");
    assert!(!place.folder.0.join("state").exists(), "a dry run writes nothing");
    assert_clean(&before, fixture.pid());
    fixture.finish();
    fs::write(place.config(), "version = 1\ncolour = 'red'\n").expect("a file of ours");
    let refused = place.command(&["--dry-run"]).run().expect(2);
    assert!(refused.stderr.contains("unknown field `colour`"), "{}", refused.stderr);
}

#[test]
fn what_a_rule_fits_is_watched_and_left_as_it_was() {
    let Some(place) = Place::new() else { return };
    let mut fixture = place.fixture();
    let before = Fingerprint::of(fixture.pid()).expect("a process of ours");
    let running = place.start();
    wait_for_attach(&place, fixture.pid());
    fixture.step(1, 10);
    // A mistake in the file does not end what is watched.
    fs::write(place.config(), "version = 1\ncolour = 'red'\n").expect("a file of ours");
    wait_until("the refusal", PATIENCE, || !events(&running.talk(), "not-reloaded").is_empty());
    assert!(is_touched(fixture.pid()));
    place.write("");
    running.signal(Signal::SIGHUP);
    wait_until("the file", PATIENCE, || !events(&running.talk(), "reloaded").is_empty());
    assert!(is_touched(fixture.pid()));
    running.signal(Signal::SIGTERM);
    let talk = running.wait().expect(0).stderr;
    assert_eq!(events(&talk, "detached")[0]["clean"], true, "{talk}");
    assert_eq!(place.spool().len(), 1, "{talk}");
    assert!(!is_touched(fixture.pid()));
    assert_clean(&before, fixture.pid());
    fixture.finish();
}

#[test]
fn slots_follow_each_other_and_each_has_its_profile() {
    let Some(place) = Place::new() else { return };
    place.write("mode = 'rotate'\nslot = '1s'");
    let both = [place.fixture(), place.fixture()];
    let running = place.start();
    let has_each = |talk: &str| {
        let pids: Vec<_> = events(talk, "profile").iter().map(|one| one["pid"].clone()).collect();
        both.iter().all(|one| pids.contains(&one.pid().into()))
    };
    wait_until("a slot of each", 4 * PATIENCE, || has_each(&running.talk()));
    running.signal(Signal::SIGTERM);
    let talk = running.wait().expect(0).stderr;
    let told = events(&talk, "profile")[0]["told"].to_string();
    assert!(
        told.contains("survived") && told.contains("95 % CI") && told.contains("unseen"),
        "{told}"
    );
    assert!(!told.contains("inuse"), "{told}");
    for fixture in both {
        assert!(!is_touched(fixture.pid()));
        fixture.finish();
    }
}

#[test]
fn what_ends_soon_after_an_attach_is_barred_until_it_is_allowed() {
    let Some(place) = Place::new() else { return };
    let fixture = place.fixture();
    let running = place.start();
    wait_for_attach(&place, fixture.pid());
    fixture.finish();
    wait_until("the bar", PATIENCE, || !events(&running.talk(), "barred").is_empty());
    let again = place.fixture();
    // At first it may be too young.
    let is_barred = |event: &Value| event["reason"] == "barred";
    wait_until("the refusal", PATIENCE, || {
        events(&running.talk(), "refused").iter().any(is_barred)
    });
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    assert_eq!(place.dry_run()["processes"][0]["reason"], "barred");
    place.command(&["--allow", "fixture"]).run().expect(0);
    assert_eq!(place.dry_run()["processes"][0]["action"], "watch");
    again.finish();
}

#[test]
fn killed_again_and_again_it_leaves_its_targets_as_they_were() {
    let Some(place) = Place::new() else { return };
    let mut fixture = place.fixture();
    let before = Fingerprint::of(fixture.pid()).expect("a process of ours");
    for _ in 0..cycles() {
        let running = place.start();
        wait_for_attach(&place, fixture.pid());
        running.signal(Signal::SIGKILL);
        assert_eq!(running.wait().signal(), Some(9));
    }
    // The next one cleans up before it begins, and then has no rule for it.
    let text = fs::read_to_string(place.config()).expect("a file of ours");
    fs::write(place.config(), text.replace(&place.name, "no-such-program"))
        .expect("a file of ours");
    let running = place.start();
    wait_until("an agent", 4 * PATIENCE, || !events(&running.talk(), "begun").is_empty());
    assert!(!is_touched(fixture.pid()));
    assert_clean(&before, fixture.pid());
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    fixture.step(1, 1);
    fixture.finish();
}
