//! What is shown of recordings that are kept with the tests, byte for byte: a change of the code that
//! is to change nothing that a user sees is held to it.
//!
//! Where a change is intended, `HEAPATTACH_GOLDEN=write cargo test --test session golden` writes what is shown
//! now; the difference of the files tells it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use heapattach_tests::{
    command::Heapattach,
    compile::{folder, is_there},
    skip::skip,
};

/// Every recording that is kept.
const RECORDINGS: [&str; 4] = ["before", "after", "sampled", "python"];
/// The views of one recording.
const VIEWS: [&str; 13] = [
    "summary",
    "top",
    "tree",
    "flame",
    "sites",
    "threads",
    "sizes",
    "lifetimes",
    "temporary",
    "timeline",
    "peak",
    "mmap",
    "kernel",
];
/// The view that takes an argument: it is one of the questions.
const ASKED_VIEW: &str = "source";
/// What else a report may be asked.
const QUESTIONS: [(&str, &[&str]); 10] = [
    ("source", &["story::serve", "--view", "source", "--metric", "allocated"]),
    ("bottom-up", &["--view", "tree", "--bottom-up"]),
    ("allocated", &["--view", "sites", "--metric", "allocated"]),
    ("peak-tree", &["--view", "tree", "--metric", "peak"]),
    ("blocks", &["--view", "top", "--unit", "blocks", "--metric", "allocated"]),
    ("part", &["--view", "sites", "--since", "10ms", "--until", "100ms", "--metric", "allocated"]),
    ("young", &["--view", "sites", "--age", "..100ms"]),
    ("threads", &["--view", "top", "--thread", "story", "--metric", "allocated"]),
    ("large", &["--view", "sites", "--size", "16KiB..", "--metric", "allocated"]),
    ("files", &["--view", "top", "--file", "*.cpp", "--metric", "allocated"]),
];
/// Files for other programs; those that are compressed are compared as what is in them.
const FORMATS: [(&str, bool); 11] = [
    ("pprof", true),
    ("collapsed", false),
    ("flamegraph", false),
    ("heaptrack", true),
    ("dhat", false),
    ("firefox", true),
    ("heapprofile", false),
    ("callgraph", false),
    ("massif", false),
    ("otlp", false),
    ("json", false),
];
/// Formats that are compared by what is in them.
const OTHER_FORMATS: [&str; 2] = ["html", "parquet"];

/// Columns of a terminal as it comes, and of a wide one.
const WIDTHS: [usize; 2] = [80, 200];

/// How the line begins that tells the page its data.
const PAGE_DATA: &[u8] = b"<script type=\"application/json\"";

fn golden() -> PathBuf {
    folder().join("golden")
}

/// What the command writes to standard output, run beside the recordings, so that their names are short.
fn shown(words: &[&str], is_packed: bool) -> Vec<u8> {
    let file = std::env::temp_dir().join(format!("heapattach-golden-{}", std::process::id()));
    let file = file.with_extension(format!("{:?}", std::thread::current().id()));
    let command = Heapattach::new(words).folder(golden()).stdout(&file);
    command.env("TZ", "UTC").env("COLUMNS", "100").run().expect(0);
    let written = if is_packed {
        let packed = fs::File::open(&file).expect("written");
        Command::new("gzip").arg("-dc").stdin(packed).output().expect("gzip runs").stdout
    } else {
        fs::read(&file).expect("written")
    };
    let _ = fs::remove_file(&file);
    assert!(!written.is_empty(), "{words:?} shows nothing");
    written
}

/// Text at each width, all of whose lines are as narrow as that, but for commands, which are copied.
fn compare_widths(name: &str, words: &[&str], differing: &mut Vec<String>) {
    for width in WIDTHS {
        let columns = width.to_string();
        let words = [words, &["--width", &columns]].concat();
        let text = shown(&words, false);
        let is_command = |line: &&str| line.contains("heapattach report ");
        let told = String::from_utf8_lossy(&text);
        for line in told.lines().filter(|line| !is_command(line)) {
            assert!(line.chars().count() <= width, "{words:?}: {line}");
        }
        compare(&format!("{name}.{width}.txt"), &text, differing);
    }
}

/// Compares with the file of this name, or writes it.
fn compare(name: &str, shown: &[u8], differing: &mut Vec<String>) {
    let path = golden().join("shown").join(name);
    if std::env::var_os("HEAPATTACH_GOLDEN").is_some_and(|value| value == "write") {
        fs::create_dir_all(path.parent().expect("in a folder")).expect("a folder of ours");
        return fs::write(path, shown).expect("a file of ours");
    }
    let kept = fs::read(&path).unwrap_or_default();
    if kept != shown {
        differing.push(format!("{}: {}", path.display(), first_difference(&kept, shown)));
    }
}

/// Tables of a recording: their names and bytes.
fn compare_tables(recording: &str, file: &str, differing: &mut Vec<String>) {
    let folder = heapattach_tests::report::fresh_file().with_extension("tables");
    let words = ["report", file, "--format", "parquet", "--host", "there", "-o"];
    Heapattach::new(words).arg(&folder).folder(golden()).run().expect(0);
    let mut names = String::new();
    for table in files_below(&folder) {
        let name = table.strip_prefix(&folder).expect("below it").display().to_string();
        let bytes = fs::read(&table).expect("a file of ours");
        let (kind, _) = name.split_once('/').expect("a folder of each table");
        compare(&format!("{recording}/{kind}.parquet"), &bytes, differing);
        names += &format!("{name}\n");
    }
    fs::remove_dir_all(&folder).expect("a folder of ours");
    compare(&format!("{recording}/tables.txt"), names.as_bytes(), differing);
}

/// All files in a folder and those within, by name.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of ours").filter_map(Result::ok);
    let mut all: Vec<_> = entries
        .flat_map(|entry| match entry.path() {
            inner if inner.is_dir() => files_below(&inner),
            file => vec![file],
        })
        .collect();
    all.sort();
    all
}

fn first_difference(kept: &[u8], shown: &[u8]) -> String {
    let at = kept.iter().zip(shown).take_while(|(a, b)| a == b).count();
    let part = |bytes: &[u8]| {
        let from = at.saturating_sub(60);
        String::from_utf8_lossy(bytes.get(from..(at + 100).min(bytes.len())).unwrap_or_default())
            .into_owned()
    };
    format!("from byte {at} on:\n  kept:  {}\n  shown: {}", part(kept), part(shown))
}

fn assert_none(differing: &[String]) {
    assert!(
        differing.is_empty(),
        "{} differ; if that is intended, write them anew with HEAPATTACH_GOLDEN=write:\n{}",
        differing.len(),
        differing.join("\n")
    );
}

#[test]
fn reports_in_text_and_json_are_what_they_were() {
    let mut differing = Vec::new();
    for recording in RECORDINGS {
        let file = format!("{recording}.heapattach");
        let mut ask = |name: &str, options: &[&str]| {
            let words = [&["report", &file], options].concat();
            compare(&format!("{recording}/{name}.txt"), &shown(&words, false), &mut differing);
            let words = [&words[..], &["--json"]].concat();
            compare(&format!("{recording}/{name}.json"), &shown(&words, false), &mut differing);
        };
        for view in VIEWS {
            ask(&format!("view-{view}"), &["--view", view]);
        }
        ask("ask-cum", &["--view", "top", "--cum", "--metric", "allocated"]);
        ask("ask-full-names", &["--full-names", "--view", "top", "--metric", "allocated"]);
        for (name, options) in QUESTIONS {
            ask(&format!("ask-{name}"), options);
        }
    }
    assert_none(&differing);
}

#[test]
fn text_has_room_on_narrow_and_on_wide_pages() {
    let mut differing = Vec::new();
    for recording in RECORDINGS {
        let file = format!("{recording}.heapattach");
        for view in VIEWS {
            let name = format!("{recording}/view-{view}");
            compare_widths(&name, &["report", &file, "--view", view], &mut differing);
        }
        let words = ["report", &file, "--view", "sites", "--metric", "allocated"];
        compare_widths(&format!("{recording}/ask-allocated"), &words, &mut differing);
    }
    for view in ["sites", "top", "tree"] {
        let words = ["diff", "before.heapattach", "after.heapattach", "--view", view];
        compare_widths(&format!("diff-runs/{view}-live"), &words, &mut differing);
    }
    assert_none(&differing);
}

#[test]
fn files_for_other_programs_are_what_they_were() {
    if !is_there("gzip") {
        return skip("no gzip here", "apt-get install gzip");
    }
    let mut differing = Vec::new();
    for recording in ["before", "python"] {
        for (format, is_packed) in FORMATS {
            let file = format!("{recording}.heapattach");
            let words = ["report", &file, "--format", format, "-o", "-"];
            let name = format!("{recording}/export.{format}");
            compare(&name, &shown(&words, is_packed), &mut differing);
        }
        // Of the page what it is told: the rest is its source. Source files of this machine are not those of
        // another.
        let file = format!("{recording}.heapattach");
        let page = shown(&["report", &file, "--format", "html", "--no-source"], false);
        let data = page.split(|&byte| byte == b'\n').find(|line| line.starts_with(PAGE_DATA));
        let data = data.expect("the page has data");
        compare(&format!("{recording}/page.data"), data, &mut differing);
        compare_tables(recording, &file, &mut differing);
    }
    assert_none(&differing);
}

#[test]
fn differences_of_two_recordings_are_what_they_were() {
    let mut differing = Vec::new();
    let files = ["diff", "before.heapattach", "after.heapattach"];
    let moments = ["diff", "after.heapattach@20ms", "after.heapattach@120ms"];
    for (name, files) in [("runs", files), ("moments", moments)] {
        for view in ["sites", "top", "tree"] {
            for metric in ["live", "allocated"] {
                let asked = ["--view", view, "--metric", metric];
                let words = [&files[..], &asked].concat();
                let name = format!("diff-{name}/{view}-{metric}");
                compare(&format!("{name}.txt"), &shown(&words, false), &mut differing);
                let words = [&words[..], &["--json"]].concat();
                compare(&format!("{name}.json"), &shown(&words, false), &mut differing);
            }
        }
        let words = [&files[..], &["--format", "collapsed", "-o", "-"]].concat();
        let name = format!("diff-{name}/export.collapsed");
        compare(&name, &shown(&words, false), &mut differing);
    }
    assert_none(&differing);
}

/// What the help of `report` names as values of an option, each with what is said of it.
fn values_of(option: &str) -> Vec<(String, String)> {
    let help = Heapattach::new(["report", "--help"]).run().expect(0).stdout;
    let is_option = |line: &str| line.trim_start().starts_with(&format!("{option} <"));
    let all = help.lines().skip_while(|line| !is_option(line)).skip(1);
    let all = all.take_while(|line| !line.trim_start().starts_with("--"));
    let values = all.filter_map(|line| line.trim_start().strip_prefix("- ")?.split_once(": "));
    values.map(|(name, about)| (name.to_owned(), about.trim().to_owned())).collect()
}

#[test]
fn each_view_and_each_format_that_report_has_is_compared() {
    let mut views: Vec<_> = values_of("--view");
    views.retain(|(_, about)| !about.starts_with("A moment: "));
    let views: BTreeSet<_> = views.into_iter().map(|(name, _)| name).collect();
    let compared = VIEWS.into_iter().chain([ASKED_VIEW]).map(str::to_owned);
    assert_eq!(views, compared.collect());
    let formats: BTreeSet<_> = values_of("--format").into_iter().map(|(name, _)| name).collect();
    let compared = FORMATS.into_iter().map(|(name, _)| name).chain(OTHER_FORMATS);
    assert_eq!(formats, compared.map(str::to_owned).collect());
}

/// A file that is kept and that no test compares with proves nothing.
#[test]
fn each_file_that_is_kept_belongs_to_a_recording() {
    let kept: Vec<_> = fs::read_dir(golden().join("shown"))
        .expect("a folder of ours")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let known = |name: &str| RECORDINGS.contains(&name) || name.starts_with("diff-");
    assert!(!kept.is_empty() && kept.iter().all(|name| known(name)), "{kept:?}");
    let is_whole = |name: &str| Path::new(&golden()).join(format!("{name}.heapattach")).is_file();
    assert!(RECORDINGS.iter().all(|name| is_whole(name)));
}
