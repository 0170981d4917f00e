//! A program that tells its own numbers, and its counters as they are read from outside.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use heapattach_census::{
    Live, Moment,
    counters::{self, AllocatorKind, Statistics},
};
use heapattach_process::proc::Process;

use crate::program::Running;

/// The program, and what it told.
pub struct Told {
    pub child: Running,
    /// All that it printed.
    pub text: String,
    /// Lines of a name and a value.
    pub lines: BTreeMap<String, String>,
}

impl Told {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (mut text, mut line) = (String::new(), String::new());
        while line != "done\n" {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "{command:?} told {text:?}");
            text.push_str(&line);
        }
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let lines = lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { child: Running(child), text, lines }
    }

    pub fn process(&self) -> Process {
        Process::open(self.child.0.id().cast_signed()).unwrap()
    }

    /// The counters of the one allocator of that kind.
    pub fn read(&self, allocator: AllocatorKind) -> Statistics {
        let process = self.process();
        let live = Live::open(&process).unwrap();
        let moment = Moment::new(&live, Live::regions(&process).unwrap(), Vec::new());
        let before = std::time::Instant::now();
        let places = counters::find(&moment);
        let found = before.elapsed();
        let all: Vec<_> = places.iter().filter_map(|place| place.read(&moment)).collect();
        eprintln!("found in {found:?}, read in {:?}", before.elapsed() - found);
        let own: Vec<_> = all.iter().filter(|own| own.allocator == allocator).collect();
        let [own] = own[..] else { panic!("{} of {all:#?}", own.len()) };
        own.clone()
    }
}

/// Compares all of `told` whose names `own` has as well; at least so many.
pub fn assert_equal(told: &BTreeMap<String, String>, own: &BTreeMap<String, String>, least: usize) {
    let both = told.iter().filter_map(|(name, value)| Some((name, value, own.get(name)?)));
    let both: Vec<_> = both.collect();
    let wrong: Vec<_> = both.iter().filter(|(_, told, own)| told != own).collect();
    eprintln!("{} of {} are equal", both.len() - wrong.len(), both.len());
    assert!(
        wrong.is_empty(),
        "{} (name, told, read): {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(40)]
    );
    let missing: Vec<_> = told.keys().filter(|name| !own.contains_key(*name)).take(20).collect();
    assert!(missing.is_empty() && both.len() >= least, "{}; not read: {missing:?}", both.len());
}
