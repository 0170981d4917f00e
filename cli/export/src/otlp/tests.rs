//! Requests read again.

use heapattach_ledger::Metric;

use super::*;
use crate::pprof::decoded::{all, fields, number, unpacked};
use heapattach_ledger::sample;
use heapattach_profile::Sum;

/// A request, taken apart.
struct Read {
    dictionary: Vec<u8>,
    profiles: Vec<Vec<u8>>,
    resource: Vec<u8>,
}

impl Read {
    fn of(request: &[u8]) -> Self {
        let resources = &all(request, 1)[0];
        let scope = &all(resources, 2)[0];
        Self {
            dictionary: all(request, 2)[0].clone(),
            profiles: all(scope, 2),
            resource: all(resources, 1)[0].clone(),
        }
    }

    fn entry(&self, table: u64, index: u64) -> Vec<u8> {
        all(&self.dictionary, table)[usize::try_from(index).unwrap()].clone()
    }

    fn text(&self, index: u64) -> String {
        String::from_utf8(self.entry(5, index)).unwrap()
    }

    fn name(&self, profile: usize) -> String {
        self.text(number(&all(&self.profiles[profile], 1)[0], 1))
    }

    /// Functions from the innermost, and the value, of each sample.
    fn samples(&self, profile: usize) -> Vec<(Vec<String>, u64)> {
        let samples = all(&self.profiles[profile], 2);
        let told = samples.iter().map(|sample| {
            let stack = self.entry(7, number(sample, 1));
            let places = unpacked(&all(&stack, 1)[0]);
            let lines = places.iter().flat_map(|&place| all(&self.entry(2, place), 3));
            let names = lines.map(|line| self.text(number(&self.entry(3, number(&line, 1)), 1)));
            (names.collect(), unpacked(&all(sample, 4)[0])[0])
        });
        told.collect()
    }
}

fn read(ledger: &Ledger, labels: &[(&str, &str)]) -> Read {
    Read::of(&request(&Sent::of(ledger), labels))
}

#[test]
fn four_profiles_have_the_sums_of_the_ledger_and_stacks_from_the_cause_on() {
    let ledger = sample::ledger();
    let read = read(&ledger, &[]);
    let names: Vec<_> = (0..4).map(|profile| read.name(profile)).collect();
    assert_eq!(names, ["alloc_space", "alloc_objects", "inuse_space", "inuse_objects"]);
    let sums = (0..4).map(|at| read.samples(at).iter().map(|(_, value)| value).sum::<u64>());
    let of = |metric| ledger.total.measure(metric);
    let [allocated, live] = [of(Metric::Allocated), of(Metric::Live)];
    let truth = [allocated.bytes, allocated.count, live.bytes, live.count];
    assert_eq!(sums.map(|sum| sum as f64).collect::<Vec<_>>(), truth.map(|sum| sum.value));
    let (stack, value) = &read.samples(2)[0];
    assert_eq!(
        (stack.as_slice(), *value),
        (&["make_node", "grow_list", "main"].map(String::from)[..], 64_000)
    );
}

#[test]
fn the_first_entry_of_every_table_is_empty_and_no_index_leads_nowhere() {
    let read = read(&sample::ledger(), &[]);
    for table in 1..=7 {
        assert_eq!(all(&read.dictionary, table)[0], b"", "table {table}");
    }
    // Reading looks up all of them.
    assert!((0..4).all(|profile| read.samples(profile).iter().all(|(stack, _)| !stack.is_empty())));
    let empty = Read::of(&request(&Sent::of(&Ledger::default()), &[]));
    assert!((0..4).all(|profile| empty.samples(profile).is_empty()));
}

#[test]
fn what_is_in_use_is_of_the_end_and_what_is_allocated_of_the_span() {
    let read = read(&sample::ledger(), &[]);
    /// `duration_nano`.
    const LASTED: u64 = 4;
    let lasted = [0, 1, 2, 3].map(|profile| number(&read.profiles[profile], LASTED));
    assert_eq!(lasted, [20_000_000_000, 20_000_000_000, 0, 0]);
}

#[test]
fn two_ledgers_share_a_dictionary() {
    let (in_use, mut allocated) = (sample::ledger(), sample::ledger());
    allocated.rows.truncate(1);
    allocated.total = allocated.rows[0].clone();
    let sent = Sent { allocated: &allocated, ..Sent::of(&in_use) };
    let read = Read::of(&request(&sent, &[]));
    assert_eq!(
        read.samples(0),
        [(["make_node", "grow_list", "main"].map(String::from).to_vec(), 96_000)]
    );
    assert_eq!(read.samples(2).len(), 2);
    let texts = all(&read.dictionary, 5);
    assert_eq!(texts.iter().filter(|text| *text == b"grow_list").count(), 1);
}

#[test]
fn the_resource_has_the_labels_and_the_process() {
    let labels = [("service.name", "shop"), ("host.name", "a\nb")];
    let read = read(&sample::ledger(), &labels);
    let named = |attribute: &Vec<u8>| {
        let value = &all(attribute, 2)[0];
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (text(&all(attribute, 1)[0]), fields(value)[0].1, text(fields(value)[0].2))
    };
    let told: Vec<_> = all(&read.resource, 1).iter().map(named).collect();
    assert_eq!(told[0], ("process.pid".to_owned(), 4242, String::new()));
    assert_eq!(told[1], ("service.name".to_owned(), 4, "shop".to_owned()));
    assert_eq!(told[2], ("host.name".to_owned(), 3, "a b".to_owned()));
    assert_eq!(program("/usr/bin/list --long"), "list");
    assert_eq!(program(""), "unknown_service");
}

#[test]
fn stacks_not_kept_and_losses_are_told() {
    let mut ledger = sample::ledger();
    ledger.total.add(Metric::Live, &Sum::exact(100, 3));
    ledger.about.loss.frees = 7;
    let read = read(&ledger, &[]);
    assert_eq!(read.samples(2).last(), Some(&(vec![crate::sample::REST.to_owned()], 300)));
    let comment = unpacked(&all(&read.profiles[2], 11)[0])[0];
    let text = String::from_utf8_lossy(&read.entry(6, comment)).into_owned();
    assert!(text.contains("7 records of freed blocks were dropped"), "{text}");
}
