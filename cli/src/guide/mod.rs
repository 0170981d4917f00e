//! The guide: chapters of Markdown beside this source, for the terminal, for `man` and for the web.
//!
//! ```text
//! cli/guide/TOPIC.md -> blocks (pure) -> plain: `heapattach help TOPIC`
//!                                   \-> roff:  heapattach-TOPIC(7)
//! ```
//!
//! The chapters are part of the command: nothing is looked up at run time.

mod blocks;
mod plain;
mod roff;

/// The width of a text that is not written to a terminal.
const USUAL_WIDTH: usize = 80;

/// One topic.
#[derive(Clone, Copy, Debug)]
pub struct Chapter {
    /// What the user types.
    pub topic: &'static str,
    /// One line on what it is about.
    pub about: &'static str,
    markdown: &'static str,
}

macro_rules! chapters {
    ($($topic:literal: $about:literal,)*) => {
        /// All chapters, in the order in which they are read.
        pub const CHAPTERS: &[Chapter] = &[$(Chapter {
            topic: $topic,
            about: $about,
            markdown: include_str!(concat!("../../guide/", $topic, ".md")),
        }),*];
    };
}

chapters! {
    "start": "the first answers: is it growing, what leaks, which code",
    "install": "one static file, cargo install, a package of Debian; what a release has, --version",
    "verdict": "the first sentence: what grows, what does not, what is turnover",
    "words": "the words of reports: in use, peak, 95 % CI, unsafe window",
    "recordings": "files of sessions: what is in them, how large they become",
    "page": "the page for browsers: links, switches, keys, marks of cut stacks",
    "memory": "what all memory of a process is now: in use, free, stacks, files",
    "moments": "moments in files, what grew from one to the next, a page with a map",
    "tuning": "what the allocator itself counts, and advice on its settings",
    "go": "Go programs: profile, objects, runtime, with C in them or not",
    "live": "live profiles and figures over HTTP: pprof, Prometheus, a browser",
    "push": "profiles sent to Pyroscope, Parca and OpenTelemetry: --push",
    "agents": "processes of a machine by rules, within a budget",
    "columns": "sessions of many machines as Parquet tables: columns, queries",
    "growth": "--flow: does it grow, does it leak, how sure is that",
    "checks": "leak checks: what is leaked, what is reachable, what is not seen",
    "suites": "leak checks of whole test suites",
    "pipelines": "leak checks in CI: limits, baselines, suppressions, formats",
    "dialects": "what LeakSanitizer, jemalloc and gperftools are told, understood here",
    "header": "heapattach.h: what a program can tell a check",
    "processes": "programs that exec, and forked children",
    "names": "function names, debug files, debuginfod, functions of Python, PHP, Ruby, Perl, Lua, Java and JavaScript",
    "allocators": "which allocators are known, and how to name your own",
    "containers": "containers, from outside and from inside",
    "targets": "what can be attached to, what not, and why",
    "trouble": "what can go wrong, and what happens then",
    "trust": "security: who can do what to whom",
    "exit": "exit statuses of all commands",
    "how": "how it works: attach, hooks, stacks, detach",
    "peers": "measured beside heaptrack, jemalloc, valgrind and others",
    "measured": "measured alone: stops, cost of a call, memory, accuracy",
    "tests": "tests, fuzzers, soaks",
    "crates": "crates from elsewhere, and what each is used for",
    "map": "map of the code, along one command",
}

/// The chapter of that name.
pub fn chapter(topic: &str) -> Option<&'static Chapter> {
    CHAPTERS.iter().find(|chapter| chapter.topic == topic)
}

impl Chapter {
    /// For a terminal that is so wide, or 80 columns.
    pub fn plain(&self, width: Option<usize>) -> String {
        plain::render(&blocks::parse(self.markdown), width.unwrap_or(USUAL_WIDTH))
    }

    /// As a manual page of section 7.
    pub fn manual_page(&self) -> String {
        roff::render(self.topic, self.about, &blocks::parse(self.markdown))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    fn folder() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("guide")
    }

    #[test]
    fn every_file_of_the_folder_is_a_chapter_and_in_the_index() {
        let files = fs::read_dir(folder()).unwrap().flatten();
        let names = files.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned()));
        let files: BTreeSet<String> = names.filter(|name| name != "README").collect();
        let topics: BTreeSet<String> = CHAPTERS.iter().map(|c| c.topic.to_owned()).collect();
        assert_eq!(files, topics);
        let index = fs::read_to_string(folder().join("README.md")).unwrap();
        for Chapter { topic, about, .. } in CHAPTERS {
            assert!(index.contains(&format!("| [{topic}]({topic}.md) | {about} |")), "{topic}");
        }
    }

    #[test]
    fn every_chapter_has_one_title_and_at_most_250_lines() {
        for Chapter { topic, markdown, .. } in CHAPTERS {
            assert!(markdown.starts_with("# "), "{topic}");
            let outside = markdown.split("```").step_by(2);
            let titles = outside.flat_map(str::lines).filter(|l| l.starts_with("# ")).count();
            assert_eq!(titles, 1, "{topic}");
            assert!(markdown.lines().count() <= 250, "{topic}");
        }
    }

    #[test]
    fn links_of_the_guide_lead_to_files() {
        let index = fs::read_to_string(folder().join("README.md")).unwrap();
        let texts = CHAPTERS.iter().map(|chapter| chapter.markdown).chain([&*index]);
        for text in texts {
            for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let path = link.split('#').next().unwrap();
                assert!(link.starts_with("http") || folder().join(path).exists(), "{link}");
            }
        }
    }

    #[test]
    fn no_line_of_prose_is_wider_than_the_terminal() {
        for chapter in CHAPTERS {
            let text = chapter.plain(Some(60));
            let prose = text.lines().filter(|line| !line.starts_with("    "));
            let wide: Vec<_> =
                prose.filter(|line| line.contains(' ') && line.chars().count() > 60).collect();
            let is_one_word = |line: &str| line.split_whitespace().count() <= 2;
            assert!(wide.iter().all(|line| is_one_word(line)), "{}: {wide:?}", chapter.topic);
        }
    }
}
