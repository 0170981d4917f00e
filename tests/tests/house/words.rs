//! The words that users meet: one for each thing. Every text of the product is looked through: literals of
//! its sources, the help of its options, the page for browsers, the guide and the README. And of the comments of
//! all sources, that they name the process, thread or block, and state a reason instead of pointing to one.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// What is not said, and what is said instead. A phrase is whole words, in any case of letters.
const PHRASES: [(&str, &str); 41] = [
    ("asked for", "allocated; requested"),
    ("asks for memory", "allocates"),
    ("ask for memory", "allocate"),
    ("given back", "freed; restored"),
    ("gives back", "frees; restores"),
    ("give back", "free; restore"),
    ("gave back", "freed; restored"),
    ("handed out", "allocated"),
    ("still held", "in use"),
    ("is held", "is in use"),
    ("are held", "are in use"),
    ("was held", "was in use"),
    ("were held", "were in use"),
    ("held", "in use; kept by"),
    ("only holds", "does not grow"),
    ("code holds", "code has memory in use"),
    ("holds memory", "has memory in use"),
    ("holds the memory", "has the memory in use"),
    ("lost", "leaked (blocks), dropped (records)"),
    ("gone", "ended; removed; no longer mapped"),
    ("silent", "stopped; says nothing"),
    ("led to", "called from"),
    ("a way from", "a path from"),
    ("on a way", "on a path"),
    ("the way to", "the path to"),
    ("the way from", "the path from"),
    ("which way", "how"),
    ("in 1 blocks", "in 1 block"),
    ("1 processes", "1 process"),
    ("nothing is missing", "no records dropped"),
    ("in brackets", "in parentheses: 95 % CI"),
    ("95 % interval", "95 % CI"),
    ("95 % intervals", "95 % CI"),
    ("would have hurt", "unsafe window"),
    ("stood still", "was stopped"),
    ("stands still", "is stopped"),
    ("stand still", "are stopped"),
    ("nobody", "no pointer; no process"),
    ("dearer", "at a higher overhead"),
    ("comes first", "is the largest"),
    ("no names but", "no debug symbols"),
];

/// What no comment says: it names the subject, and a reason where it is needed.
const NOT_IN_COMMENTS: [&str; 5] = ["somebody", "nobody", "whoever", "anybody", "see above"];

/// Texts in which one of them is right.
const RIGHT: [(&str, &str); 3] = [
    // A pause for tests: no user has it.
    ("injector/process/src/fault.rs", "held"),
    // A measurement: statisticians call it so.
    ("cli/guide/measured.md", "95 % intervals"),
    // The processes of a benchmark that nothing was done to.
    ("cli/guide/peers.md", "nobody"),
];

/// Sources whose texts no user meets.
const NOT_MET: [&str; 6] =
    ["/tests/", "/benches/", "/fuzz/", "/test_folder/", "/instruction_count/", "/sample"];

/// Options are described in comments, which clap shows.
const OPTIONS: [&str; 2] = ["cli/src/args/", "cli/src/choose_process/"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies in the workspace").to_owned()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of ours").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// What is between quotation marks in code, comments aside; and the comments that are help, if wanted.
fn texts(code: &str, has_help: bool) -> Vec<String> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut texts, mut rest) = (Vec::<String>::new(), code);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(at);
        rest = if from.starts_with("//") {
            let (line, after) = from.split_once('\n').unwrap_or((from, ""));
            let help = line.strip_prefix("/// ").filter(|_| has_help);
            // Lines of one description belong together.
            match (help, texts.last_mut()) {
                (Some(help), Some(last)) if is_help_before(code, from) => {
                    *last = format!("{last} {help}");
                }
                (Some(help), _) => texts.push(help.to_owned()),
                (None, _) => {}
            }
            after
        } else if let Some(from) = from.strip_prefix('"') {
            let (text, after) = literal(before, from);
            texts.push(text.to_owned());
            after
        } else {
            from.split_at(letter(from).unwrap_or(1)).1
        };
    }
    texts
}

/// The comments of code, a line each.
fn comments(code: &str) -> Vec<&str> {
    let (mut comments, mut rest) = (Vec::new(), code);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(at);
        rest = if from.starts_with("//") {
            let (line, after) = from.split_once('\n').unwrap_or((from, ""));
            comments.push(line);
            after
        } else if let Some(from) = from.strip_prefix('"') {
            literal(before, from).1
        } else {
            from.split_at(letter(from).unwrap_or(1)).1
        };
    }
    comments
}

/// The text of a literal, and what comes after it; `before` says whether it is a raw one.
fn literal<'a>(before: &str, from: &'a str) -> (&'a str, &'a str) {
    let bare = before.trim_end_matches('#');
    if bare.ends_with('r') {
        let close = format!("\"{}", "#".repeat(before.len() - bare.len()));
        return from.split_once(&close).expect("a raw literal ends");
    }
    let mut is_escaped = false;
    let end = from.find(|c| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    let (text, after) = from.split_at(end.expect("a literal ends"));
    (text, &after[1..])
}

/// The bytes of a single letter between quotation marks; `None` for a lifetime and for a division.
fn letter(from: &str) -> Option<usize> {
    let inside = from.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    // Behind a backslash one letter is certainly part of it: it may be the mark itself.
    let least = if first == '\\' { 2 } else { first.len_utf8() };
    let end = least + inside.get(least..)?.find('\'')?;
    (first == '\\' || end == least).then_some(end + 2)
}

/// Whether the line before the one that begins `from` is help, too.
fn is_help_before(code: &str, from: &str) -> bool {
    let before = code[..code.len() - from.len()].trim_end_matches([' ', '\t']);
    let line = before.strip_suffix('\n').and_then(|text| text.lines().next_back());
    line.is_some_and(|line| line.trim_start().starts_with("///"))
}

/// Words with single blanks between them, without marks; a blank at both ends.
fn words(text: &str) -> String {
    let text = text.replace("\\n", " ").replace('\\', " ").to_lowercase();
    let words: Vec<_> = text
        .split(|c: char| !c.is_alphanumeric() && !"%_-".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    format!(" {} ", words.join(" "))
}

/// The phrases in a text that are not said, and "is no" where it should be "is not a".
fn wrong(text: &str) -> Vec<String> {
    let words = words(text);
    let told = PHRASES.iter().filter(|(phrase, _)| words.contains(&format!(" {phrase} ")));
    let told = told.map(|(phrase, instead)| format!("`{phrase}` (say: {instead})"));
    let negations = words.match_indices(" is no ").filter(|&(at, _)| {
        let before = words[..at].rsplit(' ').next().unwrap_or_default();
        !["there", "where", "longer"].contains(&before)
            && !words[at..].starts_with(" is no longer ")
            && !words[at..].starts_with(" is no more ")
    });
    let negations = negations.map(|_| "`is no ...` (say: is not a valid ...)".to_owned());
    told.chain(negations).collect()
}

/// Every text that users meet, with the file that it stands in.
fn all() -> Vec<(String, String)> {
    let root = root();
    let mut paths = Vec::new();
    for folder in ["cli", "injector", "payload"] {
        files(&root.join(folder), &mut paths);
    }
    files(&root.join(".ci/release_files"), &mut paths);
    paths.push(root.join("README.md"));
    let mut all = vec![newest_changes(&root)];
    for path in paths {
        let name = path.strip_prefix(&root).expect("it lies there").display().to_string();
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_met = !NOT_MET.iter().any(|part| name.contains(part))
            && !["tests", "test"].iter().any(|end| stem.ends_with(end));
        let is_read = ["rs", "js", "html", "md", "h", "json"].contains(&kind)
            || name.starts_with(".ci/release_files/");
        if !is_met || !is_read {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a text of ours");
        match kind {
            "rs" => {
                let has_help = OPTIONS.iter().any(|folder| name.starts_with(folder));
                all.extend(texts(&text, has_help).into_iter().map(|text| (name.clone(), text)));
            }
            "js" => {
                // Scripts are commented by line; what is left is short enough to be read whole.
                let lines = text.lines().filter(|line| !line.trim_start().starts_with(['/', '*']));
                let lines = lines.map(|line| line.split(" // ").next().unwrap_or_default());
                all.extend(lines.map(|line| (name.clone(), line.to_owned())));
            }
            // Of a schema what is said of its fields: their names stay as they were.
            "json" => {
                let told = |line: &str| {
                    let line = line.trim();
                    ["\"description\": ", "\"title\": "]
                        .iter()
                        .find_map(|f| line.strip_prefix(f))
                        .map(str::to_owned)
                };
                all.extend(text.lines().filter_map(told).map(|text| (name.clone(), text)));
            }
            _ => all.extend(text.split("\n\n").map(|part| (name.clone(), part.to_owned()))),
        }
    }
    all
}

/// What is new since the last release: what is older is history.
fn newest_changes(root: &Path) -> (String, String) {
    let text = fs::read_to_string(root.join("CHANGELOG.md")).expect("the changes");
    let from = text.split_once("\n## ").expect("a section").1;
    let newest = from.split_once("\n## ").map_or(from, |(newest, _)| newest);
    // What was renamed is told by its old names, between marks of code.
    let told: Vec<_> = newest.split('`').step_by(2).collect();
    ("CHANGELOG.md".to_owned(), told.join("`"))
}

/// All of them, to be read aloud.
#[test]
#[ignore = "prints a table of all messages: cargo test -p heapattach-tests --test house -- --ignored --nocapture"]
fn the_table_of_all_messages() {
    for (name, text) in all() {
        println!("{name} | {}", text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
}

#[test]
fn every_text_that_users_meet_has_the_words_of_the_glossary() {
    let all = all();
    let wrong: Vec<_> = all
        .iter()
        .flat_map(|(name, text)| wrong(text).into_iter().map(move |why| (name, why, text)))
        .filter(|(name, why, _)| {
            !RIGHT
                .iter()
                .any(|(file, phrase)| file == name && why.starts_with(&format!("`{phrase}")))
        })
        .map(|(name, why, text)| {
            let text: String = text.chars().take(160).collect();
            format!("{name}: {why}: {text:?}")
        })
        .collect();
    assert!(wrong.is_empty(), "{} texts:\n{}", wrong.len(), wrong.join("\n"));
    // The look is not past them: texts of every kind are there.
    let has = |file: &str, words: &str| {
        all.iter().any(|(name, text)| name == file && text.contains(words))
    };
    assert!(all.len() > 3000, "{} texts only", all.len());
    assert!(has("cli/src/args/session/mod.rs", "Record every block: exact"));
    assert!(has("cli/src/commands/check.rs", "a check needs a program or a process"));
    assert!(has("cli/export/src/html/script/about.js", "no records dropped"));
    assert!(has("cli/guide/checks.md", "What counts as leaked"));
    assert!(has("CHANGELOG.md", "Unreleased"));
    assert!(has("cli/include/heapattach.h", "HEAPATTACH_IGNORE"));
    assert!(has("cli/schemas/report.json", "The report of a session"));
    assert!(has(".ci/release_files/deb", "Description"));
}

#[test]
fn comments_name_their_subject() {
    let root = root();
    let mut paths = Vec::new();
    for folder in ["cli", "injector", "payload", "tests", "fixtures"] {
        files(&root.join(folder), &mut paths);
    }
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "rs"));
    let (mut all, mut wrong) = (0, Vec::new());
    for path in paths {
        let text = fs::read_to_string(&path).expect("a text of ours");
        let comments = comments(&text);
        all += comments.len();
        let is_wrong = |line: &&&str| {
            let words = words(line);
            NOT_IN_COMMENTS.iter().any(|phrase| words.contains(&format!(" {phrase} ")))
        };
        let told = |line: &&str| format!("{}: {line}", path.display());
        wrong.extend(comments.iter().filter(is_wrong).map(told));
    }
    assert!(wrong.is_empty(), "{} comments:\n{}", wrong.len(), wrong.join("\n"));
    assert!(all > 20_000, "{all} comments only");
}

#[test]
fn literals_are_found_in_code_and_comments_are_not() {
    let code = "// \"no\"\nlet a = ('\"', '\\'', '\\u{e9}', &'a b, \"one \\\"two\\\"\", r#\"th\"ree\"#); x / y;\n\
                /// Help that\n/// goes on\nf(\"four\")";
    assert_eq!(texts(code, false), ["one \\\"two\\\"", "th\"ree", "four"]);
    assert_eq!(texts(code, true)[2..], ["Help that goes on", "four"]);
    assert_eq!(comments(code), ["// \"no\"", "/// Help that", "/// goes on"]);
}

#[test]
fn phrases_are_found_whole_and_in_any_case() {
    assert_eq!(wrong("Blocks Asked\\\n    for, since").len(), 1);
    assert_eq!(wrong("the mask for that; almost").len(), 0);
    assert_eq!(wrong("`{x}` is no signal").len(), 1);
    assert_eq!(wrong("there is no signal; it is no longer there").len(), 0);
}
