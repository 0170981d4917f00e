//! Lines of source files for the functions that matter most, so that the page can show what each allocates.
//!
//! No file is opened here: the caller reads. What files are called is said by the program that was
//! looked at, which may be hostile: only names that end as source does are asked for, and little of them
//! is kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

/// Functions that are shown, and files that are read for them.
const FUNCTIONS: usize = 60;
const FILES: usize = 32;
/// Functions that have less of all bytes, in use or allocated, are not shown.
const PART: f64 = 0.01;
/// Lines around each that allocates, lines of one function, letters of a line, and bytes of all.
const AROUND: u32 = 4;
const LINES: usize = 160;
const LETTERS: usize = 240;
const BYTES: usize = 200 << 10;

/// How names of source files end.
const ENDINGS: [&str; 22] = [
    "adb", "c", "c++", "cc", "cpp", "cxx", "d", "f90", "go", "h", "hh", "hpp", "hxx", "inl", "ipp",
    "m", "nim", "pas", "py", "rs", "tcc", "zig",
];

/// A source file as it is now.
#[derive(Debug)]
pub struct SourceFile {
    /// All of it.
    pub text: String,
    /// Whether it was changed after the session began: lines may have moved.
    pub is_newer: bool,
}

/// Reads a file by the name that the compiler was told; `None` if that is not possible.
pub type Reader<'a> = &'a mut dyn FnMut(&str) -> Option<SourceFile>;

/// What is shown of one function.
#[derive(Debug, Serialize)]
pub struct Excerpt {
    /// Its number on the page.
    function: u32,
    is_newer: bool,
    /// The number of a first line, and that line with those that follow.
    pieces: Vec<(u32, Vec<String>)>,
}

/// A function that may be shown: its number on the page, its file, its lines that are in a stack, and its part
/// of all bytes.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The number on the page.
    pub function: u32,
    /// The file, as the compiler was told.
    pub file: String,
    /// Lines that are in a stack.
    pub lines: BTreeSet<u32>,
    /// The part of all bytes in use, or allocated, from 0 to 1.
    pub part: f64,
}

/// Excerpts for those that have most.
pub fn excerpts(mut candidates: Vec<Candidate>, read: Reader<'_>) -> Vec<Excerpt> {
    candidates.retain(|one| one.part >= PART && !one.lines.is_empty() && is_source(&one.file));
    candidates.sort_by(|a, b| b.part.total_cmp(&a.part).then(a.function.cmp(&b.function)));
    candidates.truncate(FUNCTIONS);
    let mut files: HashMap<String, Option<SourceFile>> = HashMap::new();
    let (mut excerpts, mut left) = (Vec::new(), BYTES);
    for one in candidates {
        if !files.contains_key(&one.file) && files.len() >= FILES {
            continue;
        }
        let file = files.entry(one.file.clone()).or_insert_with(|| read(&one.file));
        let Some(file) = file else { continue };
        let pieces = pieces(&file.text, &one.lines);
        let size: usize =
            pieces.iter().flat_map(|(_, lines)| lines).map(|line| line.len() + 4).sum();
        if !pieces.is_empty() && size <= left {
            left -= size;
            excerpts.push(Excerpt { function: one.function, is_newer: file.is_newer, pieces });
        }
    }
    excerpts
}

fn is_source(file: &str) -> bool {
    let ending = file.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    file.starts_with('/') && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// The lines of these numbers, and those around them.
fn pieces(text: &str, wanted: &BTreeSet<u32>) -> Vec<(u32, Vec<String>)> {
    let around = |line: &u32| line.saturating_sub(AROUND).max(1)..=line.saturating_add(AROUND);
    let wanted: BTreeSet<u32> = wanted.iter().flat_map(around).take(LINES * 9).collect();
    let lines: BTreeMap<u32, &str> =
        (1..).zip(text.lines()).filter(|(number, _)| wanted.contains(number)).take(LINES).collect();
    let mut pieces: Vec<(u32, Vec<String>)> = Vec::new();
    for (number, line) in lines {
        let line: String = line.trim_end().chars().take(LETTERS).collect();
        let after = |(first, lines): &(u32, Vec<String>)| {
            first.checked_add(u32::try_from(lines.len()).ok()?)
        };
        match pieces.last_mut() {
            Some(last) if after(last) == Some(number) => last.1.push(line),
            _ => pieces.push((number, vec![line])),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(file: &str, lines: &[u32], part: f64) -> Candidate {
        Candidate {
            function: 7,
            file: file.to_owned(),
            lines: lines.iter().copied().collect(),
            part,
        }
    }

    fn read(candidates: Vec<Candidate>, text: &str) -> (Vec<Excerpt>, Vec<String>) {
        let mut asked = Vec::new();
        let excerpts = excerpts(candidates, &mut |file| {
            asked.push(file.to_owned());
            Some(SourceFile { text: text.to_owned(), is_newer: false })
        });
        (excerpts, asked)
    }

    #[test]
    fn lines_around_those_that_allocate_are_shown() {
        let text: String = (1..=100).map(|line| format!("line {line}\n")).collect();
        let (told, _) = read(vec![candidate("/a/b.c", &[3, 50, 53, 4_000_000_000], 0.5)], &text);
        let pieces: Vec<_> =
            told[0].pieces.iter().map(|(first, lines)| (*first, lines.len())).collect();
        assert_eq!(pieces, [(1, 7), (46, 12)]);
        assert_eq!(told[0].pieces[1].1[0], "line 46");
    }

    #[test]
    fn only_source_files_are_asked_for_and_each_once() {
        let names = [
            "/root/.ssh/id_rsa",
            "/etc/shadow",
            "relative.c",
            "<frozen os>",
            "/a.c",
            "/a.c",
            "/b.RS",
        ];
        let candidates = names.map(|name| candidate(name, &[1], 0.5)).to_vec();
        assert_eq!(read(candidates, "one").1, ["/a.c", "/b.RS"]);
        assert_eq!(read(vec![candidate("/a.c", &[1], 0.001)], "one").1, [""; 0]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let text = "x".repeat(5000) + "\n";
        let text = text.repeat(3000);
        let all: Vec<_> = (0..500)
            .map(|number| candidate(&format!("/{number}.c"), &(1..3000).collect::<Vec<_>>(), 0.5))
            .collect();
        let (told, asked) = read(all, &text);
        assert_eq!(asked.len(), FILES);
        let json = serde_json::to_string(&told).unwrap();
        assert!(json.len() < BYTES + 1024 && !told.is_empty(), "{}", json.len());
    }
}
