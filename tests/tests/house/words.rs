//! The words that users meet: one for each thing. Every text of the product is looked through: literals of
//! its sources, the help of its options, the page for browsers, the guide and the README.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// What is not said, and what is said instead. A phrase is whole words, in any case of letters.
const PHRASES: [(&str, &str); 26] = [
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
    ("lost", "leaked (blocks), dropped (records)"),
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

/// Texts in which one of them is right.
const RIGHT: [(&str, &str); 2] = [
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
    paths.push(root.join("README.md"));
    let mut all = Vec::new();
    for path in paths {
        let name = path.strip_prefix(&root).expect("it lies there").display().to_string();
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_met = !NOT_MET.iter().any(|part| name.contains(part))
            && !["tests", "test"].iter().any(|end| stem.ends_with(end));
        if !is_met || !["rs", "js", "html", "md"].contains(&kind) {
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
            _ => all.extend(text.split("\n\n").map(|part| (name.clone(), part.to_owned()))),
        }
    }
    all
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
}

#[test]
fn literals_are_found_in_code_and_comments_are_not() {
    let code = "// \"no\"\nlet a = ('\"', '\\'', '\\u{e9}', &'a b, \"one \\\"two\\\"\", r#\"th\"ree\"#); x / y;\n\
                /// Help that\n/// goes on\nf(\"four\")";
    assert_eq!(texts(code, false), ["one \\\"two\\\"", "th\"ree", "four"]);
    assert_eq!(texts(code, true)[2..], ["Help that goes on", "four"]);
}

#[test]
fn phrases_are_found_whole_and_in_any_case() {
    assert_eq!(wrong("Blocks Asked\\\n    for, since").len(), 1);
    assert_eq!(wrong("the mask for that; almost").len(), 0);
    assert_eq!(wrong("`{x}` is no signal").len(), 1);
    assert_eq!(wrong("there is no signal; it is no longer there").len(), 0);
}
