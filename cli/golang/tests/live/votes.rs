//! Votes beside the symbols of programs that have them: by the right table, by tables with faults and, for what is
//! taken from the table of an older release, by those of all others. What is certain is right; the rest is not
//! answered.

use std::{cell::RefCell, collections::HashMap, fs, path::Path};

use heapattach_census::Moment;
use heapattach_golang::{Go, tables::Table};
use object::{Object, ObjectSymbol};

use super::{
    compiler::{Build, Compiler},
    teller::{Teller, at_moment},
};

const RELEASES: [u32; 8] = [19, 21, 22, 23, 24, 25, 26, 27];
/// What the profile of a release without a table is found by. They are no structures, which change their layout.
const OF_PROFILE: [&str; 2] = ["runtime.mbuckets", "runtime.MemProfileRate"];
/// Functions are other ones then: few variables are certain.
const WITHOUT_OPTIMIZATION: &str = "-gcflags=all=-N -l";

/// Where its symbols say that variables of the runtime are, as its file has them.
pub(super) fn symbols(file: &Path) -> HashMap<String, u64> {
    let bytes = fs::read(file).expect("its file");
    let file = object::File::parse(&*bytes).expect("a program");
    let named = file.symbols().filter_map(|one| Some((one.name().ok()?.to_owned(), one.address())));
    named.filter(|(name, _)| name.starts_with("runtime.")).collect()
}

/// The table with one of its references changed.
fn with_fault(table: &Table, number: usize, fault: usize) -> Table {
    let mut seen = 0;
    let lines = table.text().lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, variable, function, ordinal, addend] = words[..] else { return line.to_owned() };
        assert_eq!(kind, "refers");
        seen += 1;
        let more = |word: &str, by: u64| word.parse::<u64>().expect("a number") + by;
        match fault {
            _ if seen != number + 1 => line.to_owned(),
            0 => format!("refers {variable} {function} {} {addend}", more(ordinal, 1)),
            1 => format!("refers {variable} {function} {ordinal} {}", more(addend, 8)),
            _ => format!("refers {variable} runtime.mallocgc {ordinal} {addend}"),
        }
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    Table::of_text(Box::leak(text.into_boxed_str()))
}

/// Faults that are tried: all of them, some 400 a release, in a soak.
fn tries() -> usize {
    let cycles = std::env::var("HEAPATTACH_CYCLES").ok().and_then(|text| text.parse().ok());
    cycles.unwrap_or(10) * 4
}

/// Holds all tables against one program.
fn hold(compiler: &Compiler, flags: &'static [&'static str]) {
    let build = Build { flags, ..Build::default() };
    let file = compiler.build("moments.go", &build).expect("it compiles");
    let mut teller = Teller::start(&file, 0);
    teller.tell_and_stop();
    let is_plain = !flags.contains(&WITHOUT_OPTIMIZATION);
    at_moment(&teller.process(), |moment| judge(moment, compiler, is_plain, &symbols(&file)));
}

fn judge(moment: &Moment<'_>, compiler: &Compiler, is_plain: bool, symbols: &HashMap<String, u64>) {
    let (minor, name) = (compiler.minor, &compiler.release);
    let go = Go::find(moment).expect("it is Go").expect("it is known");
    let wrong = RefCell::new(Vec::new());
    // How many variables are certain.
    let count_certain = |table: &Table, only: &[&str], what: &str| {
        let mut all = go.variables(moment, table);
        all.retain(|name, _| only.is_empty() || only.contains(&name.as_str()));
        let certain = all.iter().filter_map(|(name, found)| Some((name, found.certain()?, found)));
        let mut count = 0;
        for (name, at, found) in certain {
            count += 1;
            let truth = symbols.get(name).map(|own| own.wrapping_add(go.bias));
            if truth != Some(at) {
                wrong.borrow_mut().push(format!("{what}: {name} {found:x?}, not {truth:x?}"));
            }
        }
        count
    };
    for other in RELEASES {
        let table = Table::of(other).expect("a table");
        let only = if other == minor { &[][..] } else { &OF_PROFILE };
        let count = count_certain(&table, only, &format!("table go1.{other}, program {name}"));
        println!("table go1.{other}, program {name}: {count} certain");
        assert!(other != minor || !is_plain || count >= 10, "{name}: {count}");
    }
    if let Some(table) = Table::of(minor).filter(|_| is_plain) {
        let all = table.references().count() * 3;
        let step = all / tries().min(all);
        let first = std::process::id() as usize % step;
        println!("faults {first}, and each {step}th after it");
        for fault in (first..all).step_by(step) {
            let (number, kind) = (fault / 3, fault % 3);
            let broken = with_fault(&table, number, kind);
            count_certain(
                &broken,
                &[],
                &format!("program {name}, fault {kind} in reference {number}"),
            );
        }
    }
    assert_eq!(*wrong.borrow(), [""; 0], "{name}");
}

#[test]
fn what_is_certain_is_right_by_every_table_and_by_tables_with_faults() {
    for compiler in &Compiler::all() {
        for flags in [&[][..], &[WITHOUT_OPTIMIZATION], &["-buildmode=pie"]] {
            hold(compiler, flags);
        }
    }
}
