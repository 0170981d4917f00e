//! What a user meets first: help, the guide, a process by its name, and what opens a file.

use std::{fs, path::Path};

use heapattach_tests::{
    Folder,
    command::{Heapattach, Outcome},
    compile::Source,
    fixture::Launch,
    recorded::Recorded,
};

const USAGE: i32 = 2;
const NOT_FOUND: i32 = 127;

fn run(arguments: &[&str]) -> Outcome {
    Heapattach::new(arguments).run().expect(0)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace")
}

#[test]
fn every_topic_of_the_guide_is_listed_printed_and_a_manual_page() {
    let list = run(&["help"]).stdout;
    let folder = Recorded::new();
    let section = folder.0.join("man1");
    run(&["man", section.to_str().expect("a path of ours")]);
    let chapters = fs::read_dir(root().join("cli/guide")).expect("the guide").flatten();
    let mut number = 0;
    for path in chapters.map(|chapter| chapter.path()) {
        let topic = path.file_stem().and_then(|stem| stem.to_str()).expect("a name of ours");
        if topic == "README" {
            continue;
        }
        assert!(list.contains(&format!("\n  {topic} ")), "{topic}: {list}");
        let text = run(&["help", topic]).stdout;
        assert!(!text.contains("|---") && !text.contains("**"), "{topic}: {text}");
        let page = folder.0.join(format!("man7/heapattach-{topic}.7"));
        let page = fs::read_to_string(page).expect("a manual page of the topic");
        assert!(page.contains(".SH DESCRIPTION\n"), "{topic}: {page}");
        number += 1;
    }
    assert!(number > 15, "{number} chapters");
    fs::remove_dir_all(&folder).expect("a folder of ours");
    let unknown = Heapattach::new(["help", "nonsense"]).run().expect(USAGE);
    assert!(unknown.stderr.contains("`heapattach help` lists both"), "{}", unknown.stderr);
}

#[test]
fn the_readme_is_short_and_begins_with_what_runs_it() {
    let text = fs::read_to_string(root().join("README.md")).expect("the README");
    assert!(text.lines().count() <= 150, "{} lines", text.lines().count());
    for command in ["cargo run --release -- -p PID", "cargo test --workspace"] {
        assert!(text.lines().take(10).any(|line| line.contains(command)), "{command}");
    }
}

/// A chapter that is not listed is not found by readers who begin with the README.
#[test]
fn the_readme_has_a_link_to_every_chapter() {
    let text = fs::read_to_string(root().join("README.md")).expect("the README");
    let chapters = fs::read_dir(root().join("cli/guide")).expect("the guide").flatten();
    for chapter in chapters.map(|chapter| chapter.file_name()) {
        let name = chapter.to_str().expect("a name of ours");
        assert!(name == "README.md" || text.contains(&format!("](cli/guide/{name})")), "{name}");
    }
}

/// What `--quiet` leaves of a session: the verdict.
#[test]
fn a_quiet_session_says_its_verdict_and_no_more() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.start();
    let pid = fixture.pid().to_string();
    let is_verdict = |text: &str| text.starts_with("VERDICT   ") && text.lines().count() == 1;
    let told = run(&["-p", &pid, "--duration", "500ms", "--quiet", "--no-record"]);
    assert!(is_verdict(&told.stdout) && told.stderr.is_empty(), "{told:?}");
    fixture.assert_well();
    fixture.finish();
    let told = run(&["run", "--quiet", "--no-record", "--", "echo", "of the program"]);
    assert_eq!(told.stdout, "of the program\n");
    assert!(is_verdict(&told.stderr), "{told:?}");
}

/// The line that the guide has for those who want hooks as a shared object and pointers in tables.
#[test]
fn the_textbook_way_is_a_line_of_the_guide_and_works() {
    let chapter = fs::read_to_string(root().join("cli/guide/start.md")).expect("the chapter");
    let line = "heapattach -p PID --duration 60s --loader dlopen --hooks slots";
    assert!(chapter.lines().any(|text| text.trim() == line), "{chapter}");
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.start();
    let pid = fixture.pid().to_string();
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let words = words.into_iter().map(|word| match word {
        "PID" => &*pid,
        "60s" => "1s",
        word => word,
    });
    let outcome = Heapattach::new(words.chain(["--json", "--no-record"])).run().expect(0);
    let report = outcome.report();
    assert!(report.functions.iter().any(|row| row.calls > 0), "{report:?}");
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn a_process_is_found_by_a_bare_pid_or_name_and_several_are_listed() {
    let Some(program) = Source::new("steady.c").build() else { return };
    let name = format!("bare-name-{}", std::process::id());
    let copy = std::env::temp_dir().join(&name);
    fs::copy(&program, &copy).expect("room for a small program");
    let one = Launch::program(&copy).start();
    let pid = one.pid().to_string();
    for word in [&*pid, &*name] {
        let line = [word, "--duration", "200ms", "--json", "--no-record"];
        assert_eq!(run(&line).report().pid, one.pid(), "{word}");
    }
    let other = Launch::program(&copy).start();
    let several = Heapattach::new([&*name]).run().expect(USAGE);
    for pid in [one.pid(), other.pid()] {
        assert!(several.stderr.contains(&format!("-p {pid} ")), "{}", several.stderr);
    }
    let none = Heapattach::new(["no-such-process-or-command"]).run().expect(USAGE);
    assert!(none.stderr.contains("`heapattach help` lists commands"), "{}", none.stderr);
    one.finish();
    other.finish();
    fs::remove_file(&copy).expect("a file of ours");
}

#[test]
fn a_check_of_nothing_says_what_can_be_checked() {
    let told = Heapattach::new(["check"]).run().expect(USAGE).stderr;
    assert!(told.contains("heapattach check -- CMD") && told.contains("check -p PID"), "{told}");
}

#[test]
fn an_option_that_there_is_not_is_no_command() {
    for of in ["run", "check"] {
        let told = Heapattach::new([of, "--no-such-option", "--", "true"]).run().expect(USAGE);
        assert!(told.stderr.contains("unexpected argument '--no-such-option'"), "{}", told.stderr);
        // Behind `--`, or behind the program, it is the program's.
        let told = Heapattach::new([of, "--", "--no-such-option"]).run().expect(NOT_FOUND);
        assert!(told.stderr.contains("`--no-such-option`"), "{}", told.stderr);
        let line = [of, "sh", "-c", "test \"$1\" = --quiet", "sh", "--quiet"];
        // It may leave a recording where it runs.
        let folder = Folder::new("option-of-the-program");
        Heapattach::new(line).folder(&folder.0).run().expect(0);
    }
}

#[test]
fn after_an_export_comes_the_command_that_opens_it() {
    let recording = root().join("fixtures/golden/after.heapattach");
    let recording = recording.to_str().expect("a path of ours");
    let folder = Recorded::new();
    fs::create_dir_all(&folder).expect("a folder of ours");
    for (format, opener) in [
        ("html", "xdg-open "),
        ("pprof", "go tool pprof -http=: "),
        ("heaptrack", "heaptrack_gui "),
        ("collapsed", "flamegraph.pl "),
    ] {
        let file = folder.0.join(format);
        let file = file.to_str().expect("a path of ours");
        let told = run(&["report", recording, "--format", format, "-o", file]).stderr;
        assert!(told.contains(&format!("open it with: {opener}{file}")), "{told}");
        let piped = run(&["report", recording, "--format", format]);
        assert!(!piped.stderr.contains("open it"), "{}", piped.stderr);
    }
    fs::remove_dir_all(&folder).expect("a folder of ours");
}

#[test]
fn more_than_two_moments_are_compared_step_by_step() {
    let golden = |name: &str| {
        root().join("fixtures/golden").join(name).to_str().expect("a path of ours").to_owned()
    };
    let (before, after) = (golden("before.heapattach"), golden("after.heapattach"));
    let text = run(&["diff", &before, &after, &before]).stdout;
    assert!(text.contains("no place certainly grew in every step"), "{text}");
    let json = run(&["diff", &format!("{before}@1ms"), &before, &after, "--json"]).stdout;
    let told: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(told["schema"], "heapattach/view/moments/1");
    assert_eq!(told["moments"][1]["name"], before.as_str());
    let sites = told["sites"].as_array().expect("a list");
    assert!(!sites.is_empty());
    for site in sites {
        let amount = |at: usize| site["amounts"][at]["bytes"]["value"].as_f64().expect("a number");
        let step = |at: usize| site["steps"][at]["bytes"]["value"].as_f64().expect("a number");
        assert_eq!([step(0), step(1)], [amount(1) - amount(0), amount(2) - amount(1)], "{site}");
        assert_eq!(site["growth"] == "every_step", step(0) > 0.0 && step(1) > 0.0, "{site}");
    }
    let grew = |site: &&serde_json::Value| site["growth"] == "every_step";
    assert_eq!(sites.iter().take_while(grew).count(), sites.iter().filter(grew).count());
    for options in [["--view", "tree"], ["--format", "html"]] {
        let line = [&["diff", &before, &after, &before], &options[..]].concat();
        let refused = Heapattach::new(line).run().expect(USAGE);
        assert!(refused.stderr.contains("more than two recordings"), "{}", refused.stderr);
    }
}
