//! The first screen: of programs with a known defect its first sentence names the line that has it, and of
//! programs without one it accuses nothing. The table of the guide is what this test found.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::Mutex,
    time::Duration,
};

use heapattach_tests::{
    Folder,
    command::Heapattach,
    compile::{Source, fixture, is_there},
    hazard::cycles,
    seed::{Random, seed},
    skip::skip,
};
use serde_json::Value;

/// Where the table is, of which this test sees to it that it is true.
const TABLE: &str = "../cli/guide/verdict.md";
/// Programs that are looked at at once.
const TOGETHER: usize = 6;

/// A program that waits for the end of its input.
struct Patient {
    child: Child,
    input: Option<ChildStdin>,
    /// The process that is to be looked at.
    pid: String,
}

impl Patient {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a program built a moment ago");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it says that it is ready");
        let pid = line.trim().strip_prefix("ready ").expect("ready and its pid").to_owned();
        // Nothing more is said; but the pipe must not go before the program.
        std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
        Self { child, input, pid }
    }

    /// What is told after it was looked at so.
    fn answer(&self, options: &[&str]) -> Answer {
        let folder = Folder::new(&format!("first-answer-{}", self.pid));
        let recording = folder.0.join("it.heapattach").display().to_string();
        let arguments = ["-p", &self.pid, "-o", &recording];
        let page = Heapattach::new([&arguments, options].concat()).run().expect(0).stdout;
        let narrow = ["report", &recording, "--width", "80"];
        let narrow = Heapattach::new(narrow).run().expect(0).stdout;
        let of = |page: &str| {
            let mut lines = page.lines().skip_while(|line| !line.starts_with("VERDICT"));
            let first = lines.next().unwrap_or_else(|| panic!("no verdict: {page}"));
            [first.strip_prefix("VERDICT").unwrap_or_default(), lines.next().unwrap_or_default()]
                .map(|line| line.trim().to_owned())
        };
        let [verdict, _] = of(&page);
        let first_lines = of(&narrow).join(" ");
        let next = page.lines().skip_while(|line| !line.starts_with("NEXT"));
        let next = next.map(|line| line.strip_prefix("NEXT").unwrap_or(line).trim().to_owned());
        Answer { verdict, first_lines, next: next.collect(), page, narrow, _folder: folder }
    }
}

/// The first screen.
struct Answer {
    /// All of the verdict; its first two lines on a page of 80 columns.
    verdict: String,
    first_lines: String,
    /// What is to be typed next, with what it would tell.
    next: Vec<String>,
    page: String,
    narrow: String,
    /// What is to be typed next may read the recording.
    _folder: Folder,
}

impl Answer {
    fn first_sentence(&self) -> &str {
        // A sentence ends before a word, not within a number.
        self.verdict.split_once(". ").map_or(&self.verdict, |(first, _)| first)
    }

    /// Types the command of NEXT that begins so, and looks at what it tells.
    fn follow(&self, begins: &str) -> String {
        let line = self.next.iter().find(|line| line.starts_with(begins));
        let line = line.unwrap_or_else(|| panic!("no {begins} in NEXT:\n{}", self.page));
        let command = line.split("   #").next().unwrap_or_default();
        let mut words = command.split(' ');
        assert_eq!(words.next(), Some("heapattach"), "{line}");
        let look = || Heapattach::new(words.clone()).run();
        // A count may differ where it was stopped in the middle of a call: looked at again, as its user would.
        let first = look();
        let again = if first.stdout.contains("\nDOUBT ") { look() } else { first };
        again.expect(0).stdout
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// A line of a fixture, told by a comment on it, and the function that the first screen must name there.
struct Culprit {
    function: &'static str,
    file: &'static str,
    mark: &'static str,
}

impl Culprit {
    /// As a sentence names it.
    fn place(&self) -> String {
        let text = fs::read_to_string(fixture(self.file)).expect("a fixture");
        let mark = format!("/* {} */", self.mark);
        let line = text.lines().position(|line| line.contains(&mark)).expect("the line is marked");
        format!("{} ({}:{})", self.function, self.file, line + 1)
    }
}

/// Where the line stands.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    /// In the first two lines on a page of 80 columns.
    First,
    /// In what the command of NEXT tells that begins so.
    Next(&'static str),
}

/// A defect, how a program that has it is started, and what the first screen must name.
struct Defect {
    what: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    environment: &'static [(&'static str, &'static str)],
    /// How the first sentence begins.
    begins: &'static str,
    told: Told,
    culprits: &'static [Culprit],
    /// What is in the first sentence besides.
    words: &'static [&'static str],
    /// How a command of NEXT begins, with `PID` for the process.
    next: &'static str,
}

impl Defect {
    /// Of a program that leaks: its first sentence says so, and NEXT is a check.
    fn leak(what: &'static str, program: impl Into<PathBuf>, arguments: Vec<String>) -> Self {
        Self {
            what,
            program: program.into(),
            arguments,
            environment: &[],
            begins: "Grows by",
            told: Told::First,
            culprits: &[],
            words: &[],
            next: CHECK,
        }
    }
}

const CHECK: &str = "heapattach check -p PID --duration 10s";
const CENSUS: &str = "heapattach heap -p PID";
const NEVER: &[&str] = &[", never freed in "];
const KEY: Culprit = Culprit { function: "forget_key", file: "sick.c", mark: "the leak of a key" };
const CONNECTION: Culprit =
    Culprit { function: "open_connection", file: "sick.c", mark: "the leak of a connection" };
const JOB: Culprit = Culprit { function: "serve_job", file: "sick.c", mark: "the leak of a job" };
const MAPPING: Culprit = Culprit { function: "map_buffer", file: "sick.c", mark: "the mapping" };
const CLIENT: Culprit =
    Culprit { function: "serve_client", file: "sick.c", mark: "the leak of a mapping" };
const CHURN: Culprit = Culprit { function: "parse_request", file: "sick.c", mark: "the churn" };
const ROW: Culprit = Culprit { function: "load_row", file: "sick.c", mark: "the blocks that stay" };
const PLUGIN: Culprit = Culprit { function: "translate", file: "sick_plugin.c", mark: "the leak" };
const VECTOR: Culprit = Culprit { function: "remember", file: "sick.cpp", mark: "the leak" };
const MAP: Culprit =
    Culprit { function: "sick::lookup::{{closure}}", file: "sick.rs", mark: "the leak" };
const STATIC: Culprit = Culprit { function: "Cache::remember", file: "sick.php", mark: "the leak" };

fn defects() -> Option<Vec<Defect>> {
    let sick = Source::new("sick.c").build()?;
    let plugin = Source::new("sick_plugin.c").build()?.to_string_lossy().into_owned();
    let in_c = |what, defect: &str| Defect::leak(what, &sick, vec![defect.to_owned()]);
    let mut all = vec![
        Defect { culprits: &[KEY], words: NEVER, ..in_c("a leak beside a busy cache", "cache") },
        Defect { culprits: &[CONNECTION], ..in_c("connections never closed", "connections") },
        Defect { culprits: &[JOB], words: NEVER, ..in_c("a worker that leaks", "worker") },
        Defect {
            begins: "Mapped memory grows by",
            culprits: &[MAPPING, CLIENT],
            words: &["was unmapped"],
            next: "heapattach report ",
            ..in_c("buffers that are mapped and never unmapped", "maps")
        },
        Defect {
            begins: "",
            told: Told::Next("heapattach report "),
            culprits: &[CHURN],
            next: "heapattach report ",
            ..in_c("churn", "churn")
        },
        Defect {
            begins: "Freed memory stays resident",
            culprits: &[ROW],
            words: &["; the allocator keeps it"],
            next: "heapattach heap -p PID --view pins",
            ..in_c("fragmentation", "fragments")
        },
    ];
    let of_plugin = vec!["plugin".to_owned(), plugin.clone()];
    all.push(Defect {
        culprits: &[PLUGIN],
        words: NEVER,
        ..Defect::leak("a plugin that leaks", &sick, of_plugin)
    });
    let vector = Source::new("sick.cpp").build()?;
    all.push(Defect {
        begins: "Gr",
        culprits: &[VECTOR],
        ..Defect::leak("a vector that only grows", vector, Vec::new())
    });
    let map = Source::new("sick.rs").build()?;
    all.push(Defect {
        culprits: &[MAP],
        words: NEVER,
        ..Defect::leak("Rust: a map without an end", map, Vec::new())
    });
    if is_there("python3") {
        let arguments = vec![script("sick_extension.py"), plugin.clone()];
        all.push(Defect {
            culprits: &[PLUGIN],
            words: NEVER,
            ..Defect::leak("Python: a library that leaks", "python3", arguments)
        });
    } else {
        skip("no python3 here", "apt-get install python3");
    }
    if has_php_with_ffi() {
        let switch = ["-d", "ffi.enable=1"].map(str::to_owned).into_iter();
        let arguments = switch.chain([script("sick_extension.php"), plugin]).collect();
        all.push(Defect {
            culprits: &[PLUGIN],
            words: NEVER,
            ..Defect::leak("PHP: a library that leaks", "php", arguments)
        });
    } else {
        skip("no php with its foreign function interface here", "apt-get install php-cli");
    }
    if is_there("php") {
        let arguments = vec![script("sick.php")];
        all.push(Defect {
            environment: &[("USE_ZEND_ALLOC", "0")],
            culprits: &[STATIC],
            ..Defect::leak("PHP: an array without an end (USE_ZEND_ALLOC=0)", "php", arguments)
        });
        // As it is: blocks of PHP's own are in the census.
        all.push(Defect {
            begins: "",
            told: Told::Next("heapattach heap -p "),
            words: &["No block was allocated"],
            next: CENSUS,
            ..Defect::leak("PHP: an array without an end", "php", vec![script("sick.php")])
        });
    } else {
        skip("no php here", "apt-get install php-cli");
    }
    Some(all)
}

fn script(file: &str) -> String {
    fixture(file).to_string_lossy().into_owned()
}

fn has_php_with_ffi() -> bool {
    let told = || Command::new("php").args(["-r", "exit((int)!extension_loaded('FFI'));"]).status();
    is_there("php") && told().is_ok_and(|status| status.success())
}

/// Runs each in its turn, some at once; what is told of them, in their order.
fn each<T: Sync, R: Send>(all: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(0..all.len());
    let told: Mutex<Vec<(usize, R)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                loop {
                    let at = next.lock().expect("no thread panics in between").next();
                    let Some(at) = at else { return };
                    let one = run(&all[at]);
                    told.lock().expect("no thread panics in between").push((at, one));
                }
            });
        }
    });
    let mut told = told.into_inner().expect("all have ended");
    told.sort_by_key(|(at, _)| *at);
    told.into_iter().map(|(_, one)| one).collect()
}

#[test]
fn the_first_screen_names_the_line_that_has_the_defect() {
    let Some(defects) = defects() else { return };
    let rows = each(&defects, row);
    println!("{}", rows.join("\n"));
    let table = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE))
        .expect("the table of the guide");
    for row in rows {
        assert!(table.lines().any(|line| line == row), "the guide has no row\n{row}");
    }
}

/// Looks at a program with a defect; what the table has of it.
fn row(defect: &Defect) -> String {
    let mut command = Command::new(&defect.program);
    command.args(&defect.arguments).envs(defect.environment.iter().copied());
    let patient = Patient::start(&mut command);
    // The window begins anywhere in the course of the program: of few samples there is another one.
    let answer = patient.answer(&["--duration", "4s", "--every", "16KiB"]);
    let first = answer.first_sentence();
    let of = || format!("{}: {first}\n{}\n{}", defect.what, answer.page, answer.narrow);
    assert!(first.starts_with(defect.begins), "not {}: {}", defect.begins, of());
    for words in defect.words {
        assert!(first.contains(words), "no {words}: {}", of());
    }
    let next = defect.next.replace("PID", &patient.pid);
    assert!(answer.next.iter().any(|line| line.starts_with(&next)), "no {next}: {}", of());
    let (told, at) = match defect.told {
        Told::First => (answer.first_lines.clone(), "the first lines".to_owned()),
        Told::Next(begins) => (answer.follow(begins), typed(&answer, begins)),
    };
    // As the newer mangling of Rust has it.
    let told = told.replace("{closure#0}", "{{closure}}");
    for culprit in defect.culprits {
        let place = culprit.place();
        assert!(told.contains(&place), "no {place} in {told}: {}", of());
    }
    if defect.next == CENSUS {
        assert!(told.contains("HEAP      Zend's allocator of PHP"), "{told}: {}", of());
    }
    let places = defect.culprits.iter();
    let mut names: Vec<_> =
        places.map(|Culprit { function, file, .. }| format!("`{function} ({file})`")).collect();
    if defect.next == CENSUS {
        names.push("\"Zend's allocator of PHP\"".to_owned());
    }
    let begins = match defect.begins {
        "" => "(nothing grows)",
        "Gr" => "Grows by, Grew by",
        begins => begins,
    };
    format!("| {} | {begins} | {} | {at} |", defect.what, names.join(", "))
}

/// The command that was followed, for the table.
fn typed(answer: &Answer, begins: &str) -> String {
    let line = answer.next.iter().find(|line| line.starts_with(begins));
    let command = line.and_then(|line| line.split("   #").next()).unwrap_or_default();
    let is_own = |word: &&str| word.contains('/') || word.chars().all(|c| c.is_ascii_digit());
    let words = command.split(' ').map(|word| match word {
        word if is_own(&word) && word.contains('/') => "FILE",
        word if is_own(&word) => "PID",
        word => word,
    });
    format!("`{}`", words.collect::<Vec<_>>().join(" "))
}

#[test]
fn a_healthy_program_is_not_accused() {
    let Some(program) = Source::new("healthy.c").build() else { return };
    let habits = [
        "server", "cache", "sessions", "bursts", "texts", "queue", "pages", "table", "files",
        "idle",
    ];
    each(&habits, |habit| is_not_accused(habit, Command::new(&program).arg(habit)));
    if is_there("php") {
        is_not_accused("PHP under load", Command::new("php").arg(fixture("healthy.php")));
    } else {
        skip("no php here", "apt-get install php-cli");
    }
}

fn is_not_accused(what: &str, command: &mut Command) {
    let patient = Patient::start(command);
    let look = |duration| patient.answer(&["--duration", duration, "--every", "16KiB"]);
    // On a slow machine its blocks live for longer than the session, which looks the same as never freed.
    let mut answer = look("4s");
    for longer in ["8s", "16s"] {
        if answer.first_sentence().contains(", never freed in ") {
            answer = look(longer);
        }
    }
    let Answer { page, next, .. } = &answer;
    let first = answer.first_sentence();
    let words = [
        "Grows",
        "grows",
        "Grew",
        "Keeps",
        "Leaks",
        "leak",
        "never freed",
        "never unmapped",
        "Freed memory stays",
    ];
    for word in words {
        assert!(!first.contains(word), "{what} is accused: {first}\n{page}");
    }
    let is_checked = next.iter().any(|line| line.starts_with("heapattach check"));
    assert!(!is_checked, "{what} is suspected: {next:?}\n{page}");
}

/// What a program holds besides its leak, in MiB; of the second one the kernel takes long to tell.
const RESIDENT: [&str; 2] = ["0", "512"];
/// How many moments a session of twelve seconds has.
const MOMENTS: usize = 100;

/// A leak is as plain in a large program as in a small one, and its course is told as often.
#[test]
fn a_leak_is_told_however_much_is_resident() {
    let Some(program) = Source::new("sick.c").build() else { return };
    let told = each(&RESIDENT, |resident| {
        let mut command = Command::new(&program);
        let patient = Patient::start(command.arg("cache").env("RESIDENT", resident));
        let folder = Folder::new(&format!("resident-{resident}"));
        let file = folder.0.join("recording");
        let arguments = ["-p", &patient.pid, "--duration", "12s", "--every", "16KiB", "-o"];
        let page = Heapattach::new(arguments).arg(&file).run().expect(0).stdout;
        let report = Heapattach::new(["report", "--json", "--view", "timeline"]).arg(&file);
        let course: Value = serde_json::from_str(&report.run().expect(0).stdout).expect("JSON");
        (page, course["moments"].as_array().expect("a list").clone())
    });
    let [(_, few), (_, many)] = &told[..] else { panic!("two programs") };
    for ((page, moments), resident) in told.iter().zip(RESIDENT) {
        let verdict = page.lines().find(|line| line.starts_with("VERDICT"));
        let verdict = verdict.unwrap_or_else(|| panic!("no verdict: {page}"));
        for word in ["Grows by", "forget_key (sick.c:"] {
            assert!(verdict.contains(word), "{resident} MiB besides: no {word} in {verdict}");
        }
        println!("{resident} MiB besides: {} moments, {verdict}", moments.len());
    }
    // Where the machine is so slow that a small program has fewer moments, a large one has some fewer, too.
    let least = MOMENTS.min(few.len() * 9 / 10);
    assert!(few.len() > 10 && many.len() >= least, "{} moments of {}", many.len(), few.len());
    let rss = |moment: &Value| moment["rss"].as_f64().expect("a number");
    assert!(many.iter().all(|moment| rss(moment) > 512.0 * 1048576.0), "{many:?}");
}

/// Windows of the demonstration for each allocator, unless more are asked for than tests usually have.
const FEW: u64 = 2;
const OFTEN: u64 = 10;

/// A window of the demonstration.
struct Window {
    preload: Option<PathBuf>,
    /// How long the program runs before it, and how long it is.
    phase: Duration,
    length: Duration,
    /// Whether every block is recorded.
    is_exact: bool,
}

/// Two functions allocate a mebibyte a second each, one calls the other, and nothing is freed: with each
/// allocator, at any phase, the first two lines tell the rate, both functions with their shares, and that
/// nothing was freed. In every second window each block is recorded: the rate is the true one, and it is
/// shorter, so that it has but five bursts. `HEAPATTACH_CYCLES=100` looks at a hundred windows of each allocator.
#[test]
fn the_demonstration_is_told_with_every_allocator() {
    let Some(program) = Source::new("two_functions.rs").build() else { return };
    let preloads = [None, library("libjemalloc.so.2"), library("libtcmalloc.so.4")];
    let seed = seed();
    eprintln!("the demonstration: seed {seed}");
    let mut random = Random::new(seed);
    let mut windows = Vec::new();
    let each_of = if cycles() > OFTEN { cycles() } else { FEW };
    for turn in 0..each_of {
        let is_exact = turn % 2 == 1;
        for preload in &preloads {
            let phase = Duration::from_millis(random.between(0, 1000));
            let longest = if is_exact { 6000 } else { 10_000 };
            let length = Duration::from_millis(random.between(5000, longest + 1));
            windows.push(Window { preload: preload.clone(), phase, length, is_exact });
        }
    }
    let mut rates = each(&windows, |window| tells_the_demonstration(&program, window, seed));
    let within = rates.iter().filter(|(_, [low, high])| (*low..=*high).contains(&2.0)).count();
    rates.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let [(least, _), .., (most, _)] = &rates[..] else { return };
    println!(
        "{} windows, each told in two lines: {least:.1} to {most:.1} MiB/s; 2 MiB/s is in the 95 % CI of {within}",
        rates.len()
    );
}

/// The rate that is told, and its interval, in MiB/s.
fn tells_the_demonstration(program: &Path, window: &Window, seed: u64) -> (f64, [f64; 2]) {
    let mut command = Command::new(program);
    if let Some(preload) = &window.preload {
        command.env("LD_PRELOAD", preload);
    }
    let patient = Patient::start(&mut command);
    // Any moment of its second is as good: no outcome depends on how exactly this is kept.
    std::thread::sleep(window.phase);
    let length = format!("{}ms", window.length.as_millis());
    let every_block: &[&str] = if window.is_exact { &["--all"] } else { &[] };
    let answer = patient.answer(&[&["--duration", &length], every_block].concat());
    let Window { preload, phase, is_exact, .. } = window;
    let Answer { page, narrow, first_lines: first, .. } = &answer;
    let of = || {
        format!(
            "{preload:?}, phase {phase:?}, {length}, exact {is_exact}, seed {seed}:\n{page}\n{narrow}"
        )
    };
    // That more came in the second half may be chance: then it is kept, but not said to grow.
    let words = ["Grows by ", "Keeps "];
    let rate = words.iter().find_map(|word| first.strip_prefix(word)?.split_once("/s, "));
    let rate =
        rate.and_then(|(rate, _)| mebibytes(rate)).unwrap_or_else(|| panic!("no rate: {}", of()));
    let within = answer.first_sentence().rsplit_once(" (rate: ");
    let within = within.and_then(|(_, text)| text.strip_suffix("/s)")?.split_once(" to "));
    let within = within.and_then(|(low, high)| {
        let unit = high.rsplit(' ').next()?;
        Some([mebibytes(&format!("{low} {unit}"))?, mebibytes(high)?])
    });
    // What is counted has none.
    let counted = is_exact.then_some([rate, rate]);
    let within = within.or(counted).unwrap_or_else(|| panic!("no interval: {}", of()));
    // 2 MiB come at once each second: one time more or less is within the window. An end of the interval is
    // two standard deviations away, and 300 windows have none that is five away.
    let step = 2.0 / window.length.as_secs_f64();
    let [low, high] = within.map(|end| rate + (end - rate) * 2.5);
    assert!(low <= 2.0 + step && high >= 2.0 - step, "2 MiB/s are not near: {}", of());
    assert!(within[1] - within[0] < 4.0, "an interval as wide as that says nothing: {}", of());
    assert!(first.contains(", never freed in "), "not that it is never freed: {}", of());
    for (function, mark) in [("inner", "the inner one"), ("outer", "the outer one")] {
        let place = Culprit { function, file: "two_functions.rs", mark }.place();
        let before = first.split_once(&format!(" % two_functions::{place}"));
        let before = before.unwrap_or_else(|| panic!("no {place}: {}", of())).0;
        let share = before.rsplit(' ').next().and_then(|share| share.parse::<f64>().ok());
        // Both allocate as much; the inner one does so a moment before, and the window may begin or end in between.
        let more = 50.0 / (2.0 * window.length.as_secs_f64().floor()) + 1.0;
        let range = if *is_exact { 50.0 - more..=50.0 + more } else { 1.0..=99.0 };
        assert!(share.is_some_and(|share| range.contains(&share)), "{function} {}", of());
    }
    (rate, within)
}

/// `2.0 MiB` or `900.0 KiB`.
fn mebibytes(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let scale = match unit {
        "KiB" => 1024.0,
        "MiB" => 1.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? / scale)
}

/// The library, where the loader finds it.
fn library(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found =
        folders.map(|folder| Path::new(folder).join(name)).into_iter().find(|p| p.is_file());
    if found.is_none() {
        skip(&format!("no {name} here"), "apt-get install libjemalloc2 libgoogle-perftools4");
    }
    found
}
