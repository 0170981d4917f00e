//! What a stripped program's code states of the types that it allocates, beside the types of the sampled objects
//! themselves, in its twin with debug data.

use std::{collections::BTreeMap, fs::File};

use heapattach_census::Moment;
use heapattach_golang::{
    Go, dwarf,
    graph::{
        goroutine::Goroutine,
        objects::{self, ByCode, Objects},
        site::{Code, Sites, stated},
        types::{Slot, What},
    },
    profile,
};

use super::{
    compiler::{Build, Compiler},
    teller::at_moment,
};

/// Part of all buckets whose type must be told.
const LEAST_PERCENT: usize = 95;

/// Of 1,000 bytes of its objects so many have a type at least, stripped or not.
const LEAST_TYPED: u64 = 980;

/// Memory that does not change.
struct Still<'a, 'm>(&'a Moment<'m>);

impl profile::Live for Still<'_, '_> {
    fn read(&self, at: u64, buffer: &mut [u8]) -> bool {
        self.0.read(at, buffer) == buffer.len()
    }
}

/// By bucket: its size and stack, as far behind the beginning of the code as they are, and what is said of it.
type Said = BTreeMap<(u64, Vec<u64>), String>;

/// What the code states, and what the sampled objects are, as far as that is known.
fn look(compiler: &Compiler, flags: &'static [&'static str]) -> (usize, Said, Said) {
    let build = Build { flags, ..Build::default() };
    let file = compiler.build("sites.go", &build).expect("it compiles");
    let program = super::stopped::Stopped::start(&file);
    at_moment(&program.process(), |moment| {
        let go = Go::find(moment).expect("it is Go").expect("its functions");
        let debug = dwarf::Variables::read(File::open(&file).expect("its file"));
        let named = |name: &str| Some(debug.as_ref()?.named(name)?.wrapping_add(go.bias));
        let runtime = go.runtime(moment, &named).expect("it is known");
        let (layout, variables) = (&runtime.layout, &runtime.variables);
        let types = objects::types(moment, layout, variables);
        let first = types.modules.types.first().map_or(0, |range| range.start);
        let known = |at: u64| {
            let pointer = debug.as_ref()?.pointer_at(at.wrapping_sub(go.bias))?;
            let what = match pointer.what {
                dwarf::Pointer::One => What::One,
                dwarf::Pointer::Many => What::Many,
                dwarf::Pointer::Text => What::Text,
                dwarf::Pointer::Map => What::Map,
                dwarf::Pointer::Chan => What::Chan,
                dwarf::Pointer::Held => What::Held,
            };
            Some(Slot { offset: 0, what, of: pointer.of.map_or(0, |of| first.wrapping_add(of)) })
        };
        let name = |code| go.functions.name(moment, code);
        let range = |code| go.functions.range(code);
        let code = Code { name: &name, range: &range };
        let sites = Sites::new(moment, code, &types, go.release.minor);
        let read_with = |known: objects::KnownVariables<'_>, code: ByCode<'_>| {
            let goroutines = Goroutine::all(moment, layout, variables);
            let (of, is_pointer): (_, objects::IsPointer<'_>) = ((layout, variables), &|_| true);
            Objects::read(moment, &types, of, goroutines, (known, is_pointer), code)
                .expect("its objects")
        };
        let read = |code: ByCode<'_>| read_with(&known, code);
        // By what memory and debug data tell, without the code.
        let objects = read(ByCode::NOTHING);
        let allocated = |stack: &[u64], size| sites.allocates_itself(stack, size);
        let with_sites = read(ByCode { allocated: &allocated, ..ByCode::NOTHING });
        let set = |wanted: &[u64]| stated(&sites, &go.functions.text, wanted);
        let with_code = read(ByCode { allocated: &allocated, set: &set });
        let typed = |objects: &Objects<'_, '_>| {
            let all = objects.kinds().into_iter().filter(|(kind, _)| *kind > 0);
            let bytes: u64 = all.map(|(_, sum)| sum.bytes).sum();
            bytes * 1000 / objects.marks.reached.bytes.max(1)
        };
        let parts = [typed(&objects), typed(&with_sites), typed(&with_code)];
        let mut profile = go.profile(moment, &named).expect("it is known");
        let reading = profile.read(&Still(moment)).expect("it is still");
        let text = go.functions.text.start;
        let (mut by_code, mut by_object) = (Said::new(), Said::new());
        let keys: BTreeMap<u64, (u64, Vec<u64>)> = reading
            .buckets
            .iter()
            .map(|one| (one.at, (one.size, one.stack.iter().map(|at| at - text).collect())))
            .collect();
        for bucket in &reading.buckets {
            if let Some(name) =
                sites.allocates(&bucket.stack, bucket.size).and_then(|of| sites.name(of))
            {
                by_code.insert(keys[&bucket.at].clone(), name);
            } else {
                let names = bucket.stack.iter().filter_map(|at| go.functions.name(moment, at - 1));
                println!("  not told: {} {:?}", bucket.size, names.take(6).collect::<Vec<_>>());
            }
        }
        for sampled in &objects.roots.sampled {
            if let Some((key, name)) = keys.get(&sampled.bucket).zip(objects.name(sampled.object)) {
                by_object.insert(key.clone(), name);
            }
        }
        println!(
            "  {flags:?}: {parts:?} of 1000 bytes have a type: without the code, with what it allocates, with what it sets"
        );
        assert!(parts.is_sorted() && parts[2] >= LEAST_TYPED, "{parts:?}");
        if debug.is_some() {
            // As it would be told without debug data.
            let blind = read_with(&|_| None, ByCode { allocated: &allocated, set: &set });
            hold_to_debug_data(&objects, &blind);
        }
        (reading.buckets.len(), by_code, by_object)
    })
}

/// No object is of another type by the code than by debug data.
fn hold_to_debug_data(objects: &Objects<'_, '_>, blind: &Objects<'_, '_>) {
    let all = objects.heap.spans.iter().flat_map(|span| span.first..span.first + span.slots);
    let both = all.filter_map(|object| Some((blind.name(object)?, objects.name(object)?)));
    let both: Vec<(String, String)> = both.collect();
    let wrong: Vec<_> = both.iter().filter(|(by_code, own)| !is_same(by_code, own)).collect();
    println!("  {} objects typed by both, {} of them different", both.len(), wrong.len());
    assert!(wrong.is_empty() && both.len() > 1000, "{:?}", &wrong[..wrong.len().min(20)]);
}

/// What belongs to a map, a channel, a closure or a string is called by several names.
fn is_same(by_code: &str, by_object: &str) -> bool {
    let plain = |name: &str| name.split(" (").next().unwrap_or_default().to_owned();
    let is_bytes = |name: &str| ["string (bytes)", "[]uint8"].contains(&name);
    // One value, or an array that a slice is made of.
    let element = |name: &str| match name.split_once(']') {
        Some((length, of)) if length[1..].parse::<u64>().is_ok() || length == "[" => of.to_owned(),
        _ => name.to_owned(),
    };
    let is_head = match by_code {
        "maps.Map" | "runtime.hmap" => by_object.starts_with("map["),
        "slice" | "unsafeheader.Slice" => by_object.starts_with("[]"),
        _ => false,
    };
    plain(by_code) == plain(by_object)
        || by_object == "small values without pointers"
        || by_code.starts_with("struct { F uintptr")
        || (is_bytes(by_code) && is_bytes(by_object))
        || by_code.strip_prefix("chan ").is_some_and(|of| by_object == format!("[]{of}"))
        || element(by_code) == element(by_object)
        || is_head
}

fn hold(compiler: &Compiler) {
    let release = &compiler.release;
    let (all, by_code, _) = look(compiler, &["-ldflags=-s -w"]);
    let (_, of_twin, by_object) = look(compiler, &[]);
    let wrong: Vec<String> = of_twin
        .iter()
        .filter_map(|(key, name)| Some((key, name, by_object.get(key)?)))
        .filter(|(_, name, own)| !is_same(name, own))
        .map(|(key, name, own)| format!("{name}, which is {own}: {key:x?}"))
        .collect();
    let compared = of_twin.keys().filter(|key| by_object.contains_key(*key)).count();
    let same = by_code.iter().filter(|(key, name)| of_twin.get(*key) == Some(*name)).count();
    let percent = by_code.len() * 100 / all.max(1);
    println!(
        "{release}: {} of {all} buckets ({percent} %) stripped, {same} as its twin says; {compared} compared with objects",
        by_code.len()
    );
    assert_eq!(wrong, [""; 0], "{release}");
    assert!(compared >= 20, "{release}: {compared} compared");
    assert!(percent >= LEAST_PERCENT, "{release}: {percent} %");
}

#[test]
fn the_code_of_a_stripped_program_states_what_it_allocates() {
    let Some(compiler) = Compiler::all().pop() else { return };
    hold(&compiler);
}

#[test]
#[ignore = "of every release that is here: a minute"]
fn the_code_of_every_release_states_what_it_allocates() {
    for compiler in &Compiler::all() {
        hold(compiler);
    }
}
