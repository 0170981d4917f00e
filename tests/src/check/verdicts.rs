//! What `heapattach check` exits with: every fixture that leaks something, and every one that does
//! not, with the status that is to come out.

use std::path::Path;

use crate::{
    command::{Heapattach, Outcome},
    compile::Source,
};

/// A limit is passed.
const LEAKS: i32 = 23;
const CLEAN: i32 = 0;

/// Programs, and what each of their cases exits with. The words are those that the program is called
/// with; options of the check come before `--`.
const PROGRAMS: [(&str, &[(&str, i32)]); 6] = [
    (
        "several_leaks.c",
        &[
            ("h", CLEAN),
            ("i", CLEAN),
            ("--fail-on possible -- i", LEAKS),
            ("k", LEAKS),
            ("kf", LEAKS),
            ("--max-leak 1KiB -- kf", CLEAN),
            ("kf 7", 7),
        ],
    ),
    (
        "leaks.c",
        &[
            ("simple return", LEAKS),
            ("list return", LEAKS),
            ("tree return", LEAKS),
            ("cycle return", LEAKS),
            ("big_ring return", LEAKS),
            ("past_the_end return", LEAKS),
            ("ended_thread return", LEAKS),
            ("unloaded return", LEAKS),
            ("simple exit", LEAKS),
            ("simple _exit", LEAKS),
            ("simple status", 7),
            ("simple abort", 134),
            ("interior return", CLEAN),
            ("global return", CLEAN),
            ("tls return", CLEAN),
            ("mapped return", CLEAN),
            ("shared return", CLEAN),
            ("epoll return", CLEAN),
            ("timer return", CLEAN),
            ("register return", CLEAN),
            ("xmm return", CLEAN),
            ("stack return", CLEAN),
            ("thread_tls return", CLEAN),
            ("coroutine return", CLEAN),
            ("running_coroutine return", CLEAN),
            ("clean return", CLEAN),
        ],
    ),
    (
        "leaks.cpp",
        &[
            ("string", LEAKS),
            ("array", LEAKS),
            ("bases", LEAKS),
            ("vector", LEAKS),
            ("cycle", LEAKS),
            ("held_string", CLEAN),
            ("held_array", CLEAN),
            ("empty_array", CLEAN),
            ("held_second_base", CLEAN),
            ("held_shared", CLEAN),
            ("exception", CLEAN),
        ],
    ),
    (
        "leaks.rs",
        &[
            ("leaked_box", LEAKS),
            ("cycle", LEAKS),
            ("forgotten_vector", LEAKS),
            ("ended_thread", LEAKS),
            ("leaked_to_static", CLEAN),
            ("kept_in_static", CLEAN),
        ],
    ),
    (
        "leaks_around.c",
        &[("constructor", LEAKS), ("destructor", LEAKS), ("forked", LEAKS), ("robust", CLEAN)],
    ),
    ("from_start.c", &[("", CLEAN)]),
];

/// One line of the table.
#[derive(Debug)]
pub struct Verdict {
    /// The source, and how its program was called.
    pub name: String,
    /// What it was to exit with.
    pub expected: i32,
    /// What it did; `None` for a signal.
    pub actual: Option<i32>,
    /// What the command said.
    pub talk: String,
}

impl Verdict {
    /// Whether it is the one that was to come.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.actual == Some(self.expected)
    }
}

/// Checks all of them, and tells each as it is known. `None`: a program could not be built, which was
/// said.
pub fn all(mut tell: impl FnMut(&Verdict)) -> Option<Vec<Verdict>> {
    let plugin = Source::new("leaks_plugin.c").build()?;
    let mut verdicts = Vec::new();
    for (source, cases) in PROGRAMS {
        let program = Source::new(source).build()?;
        for &(line, expected) in cases {
            let Outcome { status, stderr, .. } = check(&program, &plugin, line);
            let name = format!("{source} {line}").trim_end().to_owned();
            let verdict = Verdict { name, expected, actual: status.code(), talk: stderr };
            tell(&verdict);
            verdicts.push(verdict);
        }
    }
    Some(verdicts)
}

fn check(program: &Path, plugin: &Path, line: &str) -> Outcome {
    let (options, words) = line.split_once("-- ").unwrap_or(("", line));
    let command = Heapattach::new(["check"]).env("GITHUB_ACTIONS", "");
    let command = command.env("LEAKS_PADDING", "0").env("LEAKS_PLUGIN", &plugin.to_string_lossy());
    let command = options.split_whitespace().fold(command, |command, word| command.arg(word));
    let command = command.arg("--").arg(program);
    words.split_whitespace().fold(command, |command, word| command.arg(word)).run()
}
