//! Files of valgrind: of their entries those that keep leaks quiet.
//!
//! ```text
//! {
//!    a name
//!    Memcheck:Leak
//!    match-leak-kinds: definite      (not looked at: all kinds are meant)
//!    fun:malloc                      the innermost call
//!    ...                             any calls
//!    obj:*/libfoo.so
//! }
//! ```

use super::Place;
use heapattach_symbols::demangle::demangle;

/// Deeper entries are not honest.
const MOST_FRAMES: usize = 256;

/// What an entry asks of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// `fun:`
    Function(String),
    /// `obj:`
    Module(String),
    /// `src:`, the line left aside.
    File(String),
    /// `...`
    Any,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is called.
    pub name: String,
    /// The line at which it begins.
    pub line: usize,
    /// The innermost first.
    pub frames: Vec<Frame>,
}

/// A file.
#[derive(Debug, Default)]
pub struct Read {
    /// The entries about leaks.
    pub entries: Vec<Entry>,
    /// What was not understood.
    pub complaints: Vec<String>,
}

/// Whether a file is of this kind: its first word is a bracket.
pub fn is_one(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| !line.is_empty() && !line.starts_with('#')) == Some("{")
}

/// Reads a file; entries of other tools and of other errors are passed over.
pub fn parse(text: &str) -> Read {
    let mut read = Read::default();
    let mut lines = (1..).zip(text.lines().map(str::trim));
    let mut lines = lines.by_ref().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    while let Some((number, line)) = lines.next() {
        if line != "{" {
            read.complaints.push(format!("line {number}: an entry begins with {{"));
            return read;
        }
        let body: Vec<_> = lines.by_ref().map(|(_, line)| line).take_while(|l| *l != "}").collect();
        if let Some(frames) = frames(&body) {
            let name = body.first().copied().unwrap_or_default().to_owned();
            read.entries.push(Entry { name, line: number, frames });
        }
    }
    read
}

/// The frames of an entry about leaks.
fn frames(body: &[&str]) -> Option<Vec<Frame>> {
    let (tools, kind) = body.get(1)?.split_once(':')?;
    if !tools.split(',').any(|tool| tool == "Memcheck") || kind != "Leak" {
        return None;
    }
    let frames: Vec<_> =
        body[2..].iter().filter_map(|line| frame(line)).take(MOST_FRAMES).collect();
    (!frames.is_empty()).then_some(frames)
}

fn frame(line: &str) -> Option<Frame> {
    if line == "..." {
        return Some(Frame::Any);
    }
    let (kind, pattern) = line.split_once(':')?;
    match kind {
        // valgrind writes mangled names, unless the user asked for demangled ones.
        "fun" if pattern.starts_with("_Z") => {
            Some(Frame::Function(bare(&demangle(pattern.as_bytes())).to_owned()))
        }
        "fun" => Some(Frame::Function(pattern.to_owned())),
        "obj" => Some(Frame::Module(pattern.to_owned())),
        "src" => {
            let (file, line) = pattern.rsplit_once(':').unwrap_or((pattern, ""));
            let has_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
            Some(Frame::File(if has_line { file } else { pattern }.to_owned()))
        }
        _ => None,
    }
}

/// Whether the innermost calls of a stack are as the frames say; more may follow.
pub fn fits(frames: &[Frame], stack: &[Place<'_>]) -> bool {
    // `reached[n]`: the frames so far fit the first n calls.
    let mut reached = vec![false; stack.len() + 1];
    reached[0] = true;
    for frame in frames {
        let mut next = vec![false; stack.len() + 1];
        if *frame == Frame::Any {
            let first = reached.iter().position(|&is| is);
            next[first.unwrap_or(stack.len() + 1).min(stack.len() + 1)..].fill(true);
        } else {
            for (at, place) in stack.iter().enumerate().filter(|(at, _)| reached[*at]) {
                next[at + 1] = frame.is(place);
            }
        }
        reached = next;
    }
    reached.contains(&true)
}

impl Frame {
    fn is(&self, place: &Place<'_>) -> bool {
        match self {
            Self::Function(pattern) => is_like(pattern, bare(place.function)),
            Self::Module(pattern) => is_like(pattern, place.module),
            Self::File(pattern) => {
                let name = place.file.rsplit('/').next().unwrap_or_default();
                is_like(pattern, place.file) || is_like(pattern, name)
            }
            Self::Any => true,
        }
    }
}

/// A function without its arguments.
fn bare(function: &str) -> &str {
    function.split_once('(').map_or(function, |(name, _)| name)
}

/// Whether all of `text` is as `pattern` says: `*` is any text, `?` one character. In at most the
/// product of their lengths in steps.
fn is_like(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where the last star was, and what it stood for until now.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, to)) = star else { return false };
                star = Some((at, to + 1));
                p = at + 1;
                t = to + 1;
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# known
{
   a cache
   Memcheck:Leak
   match-leak-kinds: definite
   fun:malloc
   ...
   fun:insert*
   obj:*/libapp.so*
}
{
   another tool
   Helgrind:Race
   fun:x
}
{
   not a leak
   Memcheck:Cond
   fun:x
}
";

    fn stack<'a>(functions: &[&'a str]) -> Vec<Place<'a>> {
        let place = |&function| Place { function, module: "/opt/libapp.so.1", ..Place::default() };
        functions.iter().map(place).collect()
    }

    #[test]
    fn entries_about_leaks_are_read_and_others_passed_over() {
        assert!(is_one(FILE) && !is_one("leak:x\n"));
        let read = parse(FILE);
        assert!(read.complaints.is_empty(), "{:?}", read.complaints);
        let names: Vec<_> = read.entries.iter().map(|e| (&*e.name, e.line)).collect();
        assert_eq!(names, [("a cache", 2)]);
        assert_eq!(read.entries[0].frames.len(), 4);
    }

    #[test]
    fn frames_fit_in_order_from_the_innermost() {
        let frames = &parse(FILE).entries[0].frames;
        assert!(fits(frames, &stack(&["malloc", "insert(int)", "main"])));
        assert!(fits(frames, &stack(&["malloc", "a", "b", "insert_node", "c", "main"])));
        assert!(!fits(frames, &stack(&["malloc", "insert"])), "the module's frame is missing");
        assert!(!fits(frames, &stack(&["calloc", "insert", "main"])));
        assert!(!fits(frames, &stack(&["main", "malloc", "insert", "main"])));
        assert!(!fits(frames, &[]));
    }

    #[test]
    fn a_mangled_name_is_the_function_it_was_made_from() {
        let file = "{\n a\n Memcheck:Leak\n fun:_ZN4Pool3getEm\n}\n";
        let frames = &parse(file).entries[0].frames;
        assert!(fits(frames, &stack(&["Pool::get(unsigned long)"])));
        assert!(!fits(frames, &stack(&["Pool::put(unsigned long)"])));
    }

    #[test]
    fn a_pattern_stands_for_the_whole_text() {
        for (pattern, text) in [("a*c", "abc"), ("?bc", "abc"), ("*", ""), ("*a*b*", "xaybz")] {
            assert!(is_like(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("?", ""), ("a*c", "abcd"), ("*a*b", "ba")] {
            assert!(!is_like(pattern, text), "{pattern} {text}");
        }
        assert!(!is_like(&"*a".repeat(1000), &"a".repeat(999)));
    }

    #[test]
    fn a_damaged_file_is_complained_about_and_harms_nobody() {
        let read = parse("{\n a\n Memcheck:Leak\n fun:x\n}\nfun:y\n");
        assert_eq!((read.entries.len(), read.complaints.len()), (1, 1));
        assert!(parse("{\n a\n").entries.is_empty());
        assert!(parse("{").entries.is_empty());
    }
}
