//! What a fixture of `truth.h` says it allocated, beside what a report says.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use crate::{
    command::{Heapattach, Outcome},
    fixture::Fixture,
    report::{Report, Site},
};

/// All threads do one round of work.
pub const ROUND: u64 = 1;
/// What was before is no longer spoken of.
pub const MARK: u64 = 2;
/// The fixture tells.
pub const TELL: u64 = 3;

/// Everything is recorded, and no record is dropped.
pub const EXACT: [&str; 4] = ["--all", "--on-full", "wait", "--hide-frames=none"];

/// Blocks and bytes, allocated since the account began and in use at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Blocks allocated.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blocks in use.
    pub live: u64,
    /// Their bytes.
    pub live_bytes: u64,
}

/// Accounts by the name of the place.
pub type Accounts = BTreeMap<String, Account>;

/// Blocks of one size from one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The bytes of each.
    pub size: u64,
    /// Blocks allocated.
    pub blocks: u64,
    /// Blocks in use.
    pub live: u64,
    /// The place.
    pub name: String,
}

/// The words of the last account that was told completely: those of the lines of one kind.
fn lines<'a>(output: &'a str, kind: &'a str) -> impl Iterator<Item = &'a str> {
    let whole = output.rfind("\nend ").map_or("", |end| &output[..end]);
    let begin = whole.rfind("\nend ").map_or(0, |end| end + 1);
    let last = whole[begin..].lines();
    last.filter_map(move |line| line.strip_prefix(kind)?.strip_prefix(' '))
}

/// Numbers, and a name that may hold spaces.
fn numbers<const N: usize>(line: &str) -> ([u64; N], &str) {
    let mut words = line.splitn(N + 1, ' ');
    let numbers = [(); N].map(|()| {
        let word = words.next().unwrap_or_default();
        word.parse().unwrap_or_else(|_| panic!("not a number of an account: `{word}` in `{line}`"))
    });
    (numbers, words.next().unwrap_or_default())
}

/// The accounts in a fixture's output.
///
/// # Panics
/// If there are none.
pub fn accounts(output: &str) -> Accounts {
    let mut accounts = Accounts::new();
    for line in lines(output, "site") {
        let ([blocks, bytes, live, live_bytes], name) = numbers(line);
        accounts.insert(name.to_owned(), Account { blocks, bytes, live, live_bytes });
    }
    assert!(!accounts.is_empty(), "no account in {output}");
    accounts
}

/// The accounts by size in a fixture's output.
///
/// # Panics
/// If there are none.
pub fn sizes(output: &str) -> Vec<Size> {
    let size = |line| {
        let ([size, blocks, live], name) = numbers(line);
        Size { size, blocks, live, name: name.to_owned() }
    };
    let sizes: Vec<Size> = lines(output, "size").map(size).collect();
    assert!(!sizes.is_empty(), "no account in {output}");
    sizes
}

/// Bytes mapped, and bytes still mapped, in a fixture's output.
///
/// # Panics
/// If they are not there.
pub fn maps(output: &str) -> (u64, u64) {
    let line = lines(output, "maps").last();
    let ([mapped, live], _) = numbers(line.unwrap_or_else(|| panic!("no account in {output}")));
    (mapped, live)
}

/// Bytes of all that is mapped, in a fixture's output, whenever that was.
///
/// # Panics
/// If they are not there.
pub fn pages(output: &str) -> u64 {
    let line = lines(output, "pages").last();
    let ([bytes], _) = numbers(line.unwrap_or_else(|| panic!("no account in {output}")));
    bytes
}

/// Bytes mapped, and bytes still mapped, by the name of the place.
///
/// # Panics
/// If there are none.
pub fn places(output: &str) -> BTreeMap<String, [u64; 2]> {
    let place = |line| {
        let (sums, name) = numbers(line);
        (name.to_owned(), sums)
    };
    let places: BTreeMap<_, _> = lines(output, "map").map(place).collect();
    assert!(!places.is_empty(), "no account in {output}");
    places
}

/// Has the fixture tell, and returns all it has written.
pub fn told(fixture: &mut Fixture) -> String {
    fixture.step(TELL, 0);
    fixture.output()
}

/// What the report says of the same places.
///
/// # Panics
/// If a number is none of an exact report.
pub fn reported(report: &Report, truth: &Accounts) -> Accounts {
    let account = |name: &String| {
        let sites = report.heap.sites.iter().filter(|site| site.is_in(name));
        (name.clone(), sites.fold(Account::default(), add))
    };
    truth.keys().map(account).collect()
}

fn add(sum: Account, site: &Site) -> Account {
    Account {
        blocks: sum.blocks + whole(site.allocated.blocks.value),
        bytes: sum.bytes + whole(site.allocated.bytes.value),
        live: sum.live + whole(site.live.blocks.value),
        live_bytes: sum.live_bytes + whole(site.live.bytes.value),
    }
}

/// A count that was made a fraction on its way.
///
/// # Panics
/// If it is not one.
pub fn whole(number: f64) -> u64 {
    assert!(number >= 0.0 && number.fract() == 0.0 && number < 9e15, "{number} is no count");
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
    let whole = number as u64;
    whole
}

/// Panics unless nothing is missing from an exact report and it says of each place what is true.
///
/// # Panics
/// If anything differs; the message names the places.
pub fn assert_exact(what: &str, report: &Report, truth: &Accounts) {
    let mut wrong = String::new();
    if !report.is_complete() {
        let _ = writeln!(wrong, "lost: {:?}", report.heap.lost);
    }
    if report.heap.every != 1 || report.heap.more_sites != 0 {
        let heap = &report.heap;
        let _ = writeln!(wrong, "every {}, {} sites not listed", heap.every, heap.more_sites);
    }
    let got = reported(report, truth);
    for (name, account) in truth.iter().filter(|(name, account)| got[*name] != **account) {
        let _ = writeln!(wrong, "{name}: {:?} instead of {account:?}", got[name]);
    }
    let (all, freed, live) = (report.heap.allocated, report.heap.freed, report.heap.live);
    let differ = all.blocks.value != freed.blocks.value + live.blocks.value
        || all.bytes.value != freed.bytes.value + live.bytes.value;
    if differ {
        let _ = writeln!(wrong, "{all:?} is not the sum of {freed:?} and {live:?}");
    }
    let sum = report.heap.sites.iter().fold(Account::default(), add);
    let total = [all.blocks, all.bytes, live.blocks, live.bytes].map(|range| whole(range.value));
    if total != [sum.blocks, sum.bytes, sum.live, sum.live_bytes] {
        let _ = writeln!(wrong, "the sites are {sum:?} together and the heap is {total:?}");
    }
    if !wrong.is_empty() {
        let places: Vec<_> = report.heap.sites.iter().map(brief).collect();
        panic!("{what}:\n{wrong}reported:\n{}", places.join("\n"));
    }
}

fn brief(site: &Site) -> String {
    let [blocks, bytes] = [site.allocated.blocks.value, site.allocated.bytes.value];
    let [live, live_bytes] = [site.live.blocks.value, site.live.bytes.value];
    format!("  {blocks} {bytes} {live} {live_bytes} {}", site.place)
}

/// Panics unless each block that is missing from the report is counted as dropped; so may be others, of
/// which the program does not tell.
fn assert_counted(what: &str, report: &Report, truth: &Accounts) {
    let got = reported(report, truth);
    let blocks = |accounts: &Accounts| accounts.values().map(|one| one.blocks).sum::<u64>();
    let missing = blocks(truth).checked_sub(blocks(&got));
    let lost = report.heap.lost.get("blocks").copied();
    assert!(missing.is_some() && missing <= lost, "{what}: {got:?} instead of {truth:?}");
}

/// `heapattach run --json` of a program; its report too.
///
/// A machine that gives the reader no time at all costs blocks: then each of them must be counted,
/// and it is tried again.
///
/// # Panics
/// If there is no report, or the program does not end well.
pub fn run(options: &[&str], program: &Path, arguments: &[&str]) -> (Outcome, Report) {
    const TURNS: u32 = 3;
    for turn in 1.. {
        let (outcome, report) = run_once(options, program, arguments);
        let has_lost = report.heap.lost.get("blocks").is_some_and(|&blocks| blocks > 0);
        if turn == TURNS || !has_lost || lines(&outcome.stdout, "site").next().is_none() {
            return (outcome, report);
        }
        let what = format!("{} {arguments:?}", program.display());
        eprintln!("{what}: lost {:?}; once more", report.heap.lost);
        assert_counted(&what, &report, &accounts(&outcome.stdout));
        let recording = options.iter().skip_while(|option| **option != "-o").nth(1);
        recording.map(fs::remove_file);
    }
    unreachable!("a last turn")
}

fn run_once(options: &[&str], program: &Path, arguments: &[&str]) -> (Outcome, Report) {
    let file = crate::report::fresh_file();
    let mut command = Heapattach::new(["run", "--json", "--report"]).arg(&file);
    for option in options {
        command = command.arg(*option);
    }
    command = command.arg("--").arg(program);
    for argument in arguments {
        command = command.arg(*argument);
    }
    let outcome = command.run().expect(0);
    let text = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(&file);
    let report = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("no report ({error}): {text}\n{}", outcome.stderr));
    (outcome, report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_account_counts() {
        let output = "site 1 2 3 4 a\nend 0\nnoise\nsite 5 6 7 8 operator new(int)\nend 1\nsite 9";
        let account = Account { blocks: 5, bytes: 6, live: 7, live_bytes: 8 };
        assert_eq!(accounts(output), Accounts::from([("operator new(int)".to_owned(), account)]));
        assert_eq!(maps("maps 8192 4096\nend 0\n"), (8192, 4096));
        let size = Size { size: 16, blocks: 3, live: 1, name: "a".to_owned() };
        assert_eq!(sizes("size 16 3 1 a\nend 0\n"), [size]);
    }
}
