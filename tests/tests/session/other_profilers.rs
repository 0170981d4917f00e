//! Variables by which jemalloc's and gperftools' profilers are told what to do, understood as options.

use std::{fs, path::PathBuf};

use heapattach_recording::Recording;
use heapattach_tests::{command::Heapattach, compile::Source};

/// A folder for recordings, gone with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("heapattach-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a temporary folder");
        Self(folder)
    }

    fn prefix(&self) -> String {
        self.0.join("heap").display().to_string()
    }

    /// The one recording there.
    fn recording(&self) -> Recording {
        let files: Vec<_> = fs::read_dir(&self.0).expect("ours").flatten().collect();
        assert_eq!(files.len(), 1, "{files:?}");
        let name = files[0].file_name().to_string_lossy().into_owned();
        assert!(name.starts_with("heap.") && name.ends_with(".heapattach"), "{name}");
        Recording::open(&files[0].path()).expect("a recording")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(environment: &[(&str, &str)], options: &[&str]) -> Option<String> {
    let program = Source::new("from_start.c").build()?;
    let command = Heapattach::new(["run"].iter().chain(options).chain(&["--"])).arg(program);
    let command = environment.iter().fold(command, |command, (name, text)| command.env(name, text));
    Some(command.run().expect(0).stderr)
}

#[test]
fn what_jemalloc_is_told_is_done() {
    let place = Place::new("jemalloc");
    let conf = format!("prof:true,lg_prof_sample:0,prof_prefix:{},prof_leak:true", place.prefix());
    let Some(talk) = run(&[("MALLOC_CONF", &conf)], &[]) else { return };
    let line = format!(
        "heapattach: read MALLOC_CONF: --every=1B --output-prefix={}; not taken: prof_leak:true\n",
        place.prefix()
    );
    assert!(talk.contains(&line), "{talk}");
    let ledger = place.recording().ledger(None);
    assert!(ledger.is_sound());
}

#[test]
fn what_gperftools_is_told_is_done() {
    let place = Place::new("gperftools");
    let every = ("HEAP_PROFILE_ALLOCATION_INTERVAL", "4096");
    let environment = [("HEAPPROFILE", &*place.prefix()), every];
    let Some(talk) = run(&environment, &[]) else { return };
    let line = format!(
        "heapattach: read HEAPPROFILE: --all --output-prefix={} --dump-every-allocated=4096B \
         --dump-on-growth=104857600B\n",
        place.prefix()
    );
    assert!(talk.contains(&line), "{talk}");
    assert!(place.recording().ledger(None).is_sound());
}

#[test]
fn the_command_line_comes_first_and_other_settings_are_the_allocators_own() {
    let place = Place::new("first");
    let conf = format!("prof:true,lg_prof_sample:12,prof_prefix:{}", place.prefix());
    let Some(talk) = run(&[("MALLOC_CONF", &conf)], &["--no-record", "--all"]) else { return };
    assert!(!talk.contains("MALLOC_CONF"), "{talk}");
    let Some(talk) = run(&[("MALLOC_CONF", "narenas:1")], &["--no-record"]) else { return };
    assert!(!talk.contains("MALLOC_CONF"), "{talk}");
    let program = Source::new("from_start.c").build().expect("built before");
    let outcome = Heapattach::new(["run", "--"]).env("HEAPPROFILE", "/nowhere/heap").arg(program);
    let outcome = outcome.run();
    assert_eq!(outcome.code(), Some(125), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("there is no folder `/nowhere`"), "{}", outcome.stderr);
}
