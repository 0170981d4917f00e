//! `--symbols server`: no names are sent, but addresses and build ids that name code to who has its file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use heapattach_ledger::Ledger;
use heapattach_recording::Recording;
use heapattach_tests::{
    Folder,
    command::Heapattach,
    compile::is_there,
    deadline::{PATIENCE, wait_until},
    skip::skip,
};
use nix::sys::signal::Signal;

use crate::{
    push_stub::{Manner, Pprof, Stub, all, fields},
    server::Served,
};

/// By build id, addresses that were sent.
type Sent = BTreeMap<String, BTreeSet<u64>>;

fn number(message: &[u8], field: u64) -> u64 {
    let found = fields(message).expect("a message");
    found.into_iter().find(|(number, ..)| *number == field).map_or(0, |(_, number, _)| number)
}

fn messages(message: &[u8], field: u64) -> Vec<Vec<u8>> {
    all(message, field).expect("a message")
}

/// Of Parca, which takes them as they are: those of the file.
fn of_pprof(profile: &Pprof, sent: &mut Sent) {
    let name = |at: u64| profile.names[usize::try_from(at).expect("few")].clone();
    let mappings = messages(&profile.message, 3);
    let builds: BTreeMap<_, _> =
        mappings.iter().map(|one| (number(one, 1), name(number(one, 6)))).collect();
    for place in messages(&profile.message, 4) {
        let Some(build) = builds.get(&number(&place, 2)).filter(|build| !build.is_empty()) else {
            continue;
        };
        assert!(messages(&place, 4).is_empty(), "it has lines");
        sent.entry(build.clone()).or_default().insert(number(&place, 3));
    }
}

/// Of OpenTelemetry: those of the process, with the mappings that they are in.
fn of_otlp(profile: &Pprof, sent: &mut Sent) {
    let tables = messages(&profile.message, 2).concat();
    let at = |table: &[Vec<u8>], at: u64| table[usize::try_from(at).expect("few")].clone();
    let [mappings, attributes] = [1, 6].map(|table| messages(&tables, table));
    for place in messages(&tables, 2) {
        let mapping = at(&mappings, number(&place, 1));
        let attribute = match messages(&mapping, 5).concat()[..] {
            [one] => at(&attributes, one.into()),
            _ => continue,
        };
        let key = &profile.names[usize::try_from(number(&attribute, 1)).expect("few")];
        assert_eq!(key, "process.executable.build_id.gnu");
        let build = messages(&messages(&attribute, 2).concat(), 1).concat();
        assert!(messages(&place, 3).is_empty(), "it has lines");
        let address = number(&place, 2);
        assert!((number(&mapping, 1)..number(&mapping, 2)).contains(&address));
        // In the fixture what is at an offset in the file has that address.
        let of_file = address - number(&mapping, 1) + number(&mapping, 3);
        sent.entry(String::from_utf8(build).expect("digits")).or_default().insert(of_file);
    }
}

/// Names of code of files with a build id, and what of them is in this one.
fn names(ledger: &Ledger, build: Option<&str>) -> BTreeSet<String> {
    let has = |module: u32| match (&*ledger.modules[module as usize].build_id, build) {
        (id, Some(build)) => id == build,
        (id, None) => !id.is_empty(),
    };
    let places = ledger.locations.iter().filter(|place| has(place.module));
    let lines = places.flat_map(|place| &place.lines);
    let functions = lines.map(|line| &ledger.functions[line.function as usize]);
    functions.filter(|one| one.is_named).map(|one| one.name.clone()).collect()
}

/// As a server that has the file names it.
fn named(program: &str, addresses: &BTreeSet<u64>) -> BTreeSet<String> {
    let mut command = Command::new("addr2line");
    command.args(["-f", "-i", "-e", program]);
    command.args(addresses.iter().map(|address| format!("{address:#x}")));
    let told = String::from_utf8(command.output().expect("it is there").stdout).expect("text");
    // Each with its line after it.
    told.lines().step_by(2).map(str::to_owned).collect()
}

#[test]
fn who_has_the_file_names_the_code_and_no_name_is_sent() {
    if !is_there("addr2line") {
        return skip("no addr2line here, to name addresses", "apt-get install binutils");
    }
    let [parca, otlp] = [0; 2].map(|_| Stub::start(|_| Manner::Strict));
    let urls = [format!("parca+http://{}", parca.host), format!("otlp+http://{}", otlp.host)];
    let folder = Folder::new("push-symbols");
    let output = folder.0.display().to_string();
    let more = ["--push", &urls[0], "--push", &urls[1], "--push-every", "1s", "-o", &output];
    let Some(mut served) = Served::start(&[&more[..], &["--symbols", "server"]].concat()) else {
        return;
    };
    let pid = served.fixture.pid();
    let program = fs::read_link(format!("/proc/{pid}/exe")).expect("ours").display().to_string();
    let bytes = served.keep(100);
    let stubs = [&parca, &otlp];
    wait_until("what is in use", PATIENCE, || {
        stubs.iter().all(|stub| stub.last("inuse_space") == bytes)
    });
    served.running.signal(Signal::SIGTERM);
    served.running.wait().expect(0);
    served.fixture.finish();
    let recording = Recording::open(&folder.0.join(format!("{pid}.heapattach"))).expect("kept");
    let ledger = recording.ledger(None);
    let ours = names(&ledger, None);
    let module = ledger.modules.iter().find(|module| module.path == program).expect("it runs");
    let (build, of_program) = (&module.build_id, names(&ledger, Some(&module.build_id)));
    assert!(!build.is_empty() && of_program.contains("keep"), "{build} {of_program:?}");
    for (stub, read) in [(&parca, of_pprof as fn(&Pprof, &mut Sent)), (&otlp, of_otlp)] {
        assert_eq!(stub.refused(), Vec::<String>::new());
        let mut sent = Sent::new();
        for one in stub.taken().iter().flat_map(|taken| &taken.profiles) {
            let names = one.names.iter().filter(|name| ours.contains(*name));
            assert_eq!(names.collect::<Vec<_>>(), Vec::<&String>::new(), "sent");
            read(one, &mut sent);
        }
        assert_eq!(named(&program, &sent[build]), of_program, "{sent:x?}");
    }
}

#[test]
fn a_backend_that_may_not_name_code_is_refused_by_name() {
    let words = ["serve", "-p", "1", "--symbols", "server", "--push", "pyroscope+http://a"];
    let refused = Heapattach::new(words).run().expect(2);
    let told = refused.stderr;
    assert!(told.contains("pyroscope") && told.contains("need parca+ or otlp+"), "{told}");
}
