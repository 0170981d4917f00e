//! Suppressions: leaks that are known and not to be reported.
//!
//! ```text
//! files, the target's own list, the built-in list -> rules
//! the calls of a stack -> the first rule that fits -> how often each was used
//! ```
//!
//! Rules are those of LeakSanitizer (`leak:pattern`) and those entries of valgrind that speak of
//! leaks. Pure: files are read by who asks.

mod built_in;
mod leak_file;
mod pattern;
pub mod runtime;
mod valgrind_file;

use std::fmt::{self, Display, Formatter};

pub use built_in::is_loaders;
use pattern::Pattern;
use runtime::Runtime;

/// More rules than this are not honest; later ones are dropped and that is said.
const MOST_RULES: usize = 100_000;

/// One call of a stack, as rules see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'a> {
    /// The function, demangled.
    pub function: &'a str,
    /// The source file; empty if it is unknown.
    pub file: &'a str,
    /// The module's path.
    pub module: &'a str,
}

impl Place<'_> {
    /// What LeakSanitizer calls the module of code that is in no file: of a library that was unloaded, say.
    fn other_module(&self) -> &'static str {
        let is_known = !self.module.starts_with('[') || self.module == "[vdso]";
        if self.module.is_empty() || is_known { "" } else { "<unknown module>" }
    }
}

/// Where a rule comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A line of a file.
    File(String, usize),
    /// What the target was built with.
    Target,
    /// heapattach itself.
    BuiltIn,
}

/// What a rule asks of a stack.
#[derive(Clone, Debug)]
enum Shape {
    /// Any call fits, by function, file or module.
    Anywhere(Pattern),
    /// The innermost calls fit one after another.
    Frames(Vec<valgrind_file::Frame>),
    /// A function fits, and all that it called is the loader's.
    Loader(Pattern),
    /// All calls are a runtime's own.
    Runtime(Runtime),
}

/// A rule, and what it was good for.
#[derive(Clone, Debug)]
pub struct Rule {
    /// As it was written.
    pub text: String,
    /// Where the rule comes from.
    pub source: Source,
    /// Bytes it suppressed.
    pub bytes: u64,
    /// Blocks it suppressed.
    pub blocks: u64,
    shape: Shape,
}

/// All rules.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    rules: Vec<Rule>,
    /// Runtimes that are known of, and left out nothing of.
    spared: Vec<Runtime>,
    /// What could not be understood, a line each.
    pub complaints: Vec<String>,
}

impl Suppressions {
    /// Adds the list that comes with heapattach: what the C library keeps for ever.
    pub fn add_built_in(&mut self) {
        for line in built_in::LEAKS {
            self.add(Shape::Anywhere(Pattern::new(line)), format!("leak:{line}"), Source::BuiltIn);
        }
        let shape = Shape::Loader(Pattern::new(built_in::LOADER));
        self.add(shape, format!("leak:{} by the loader", built_in::LOADER), Source::BuiltIn);
    }

    /// Adds what a runtime of the target leaks alone, or notes only that it is there.
    pub fn add_runtime(&mut self, runtime: Runtime, is_quiet: bool) {
        if is_quiet {
            self.add(Shape::Runtime(runtime.clone()), runtime.rule(), Source::BuiltIn);
        } else {
            self.spared.push(runtime);
        }
    }

    /// What is to be said of the runtimes that matter: a line each.
    pub fn runtimes(&self) -> impl Iterator<Item = String> {
        let quiet = self.used().filter_map(|rule| match &rule.shape {
            Shape::Runtime(runtime) => Some(runtime.text(Some((rule.bytes, rule.blocks)))),
            Shape::Anywhere(_) | Shape::Frames(_) | Shape::Loader(_) => None,
        });
        quiet.chain(self.spared.iter().map(|runtime| runtime.text(None)))
    }

    /// Adds a file of either kind.
    pub fn add_file(&mut self, name: &str, text: &str) {
        let from = |line| Source::File(name.to_owned(), line);
        if valgrind_file::is_one(text) {
            let read = valgrind_file::parse(text);
            for entry in read.entries {
                self.add(Shape::Frames(entry.frames), entry.name, from(entry.line));
            }
            self.complaints.extend(read.complaints.iter().map(|what| format!("{name}: {what}")));
        } else {
            self.add_leaks(name, text, from);
        }
    }

    /// Adds what the target was built with.
    pub fn add_of_target(&mut self, text: &str) {
        self.add_leaks("the target's own list", text, |_| Source::Target);
    }

    fn add_leaks(&mut self, name: &str, text: &str, source: impl Fn(usize) -> Source) {
        let (rules, complaints) = leak_file::parse(text);
        for (line, pattern) in rules {
            let shape = Shape::Anywhere(Pattern::new(pattern));
            self.add(shape, format!("leak:{pattern}"), source(line));
        }
        self.complaints.extend(complaints.iter().map(|what| format!("{name}: {what}")));
    }

    fn add(&mut self, shape: Shape, text: String, source: Source) {
        if self.rules.len() < MOST_RULES {
            self.rules.push(Rule { text, source, bytes: 0, blocks: 0, shape });
        } else if self.rules.len() == MOST_RULES {
            let line = format!("more than {MOST_RULES} rules: the others are left out");
            if self.complaints.last() != Some(&line) {
                self.complaints.push(line);
            }
        }
    }

    /// The first rule that fits a stack, its innermost call first.
    pub fn find(&self, stack: &[Place<'_>]) -> Option<usize> {
        self.rules.iter().position(|rule| rule.fits(stack))
    }

    /// Counts what a rule suppressed.
    pub fn count(&mut self, rule: usize, bytes: u64, blocks: u64) {
        if let Some(rule) = self.rules.get_mut(rule) {
            rule.bytes = rule.bytes.saturating_add(bytes);
            rule.blocks = rule.blocks.saturating_add(blocks);
        }
    }

    /// The rules that suppressed something.
    pub fn used(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.blocks > 0)
    }

    /// The user's rules that suppressed nothing; the user cannot change the other rules.
    pub fn unused(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.is_users() && rule.blocks == 0)
    }
}

impl Rule {
    /// Whether the user wrote it.
    pub fn is_users(&self) -> bool {
        matches!(self.source, Source::File(..))
    }

    fn fits(&self, stack: &[Place<'_>]) -> bool {
        match &self.shape {
            Shape::Anywhere(pattern) => stack.iter().any(|place| {
                let of = [place.function, place.file, place.module, place.other_module()];
                of.into_iter().any(|text| !text.is_empty() && pattern.is_in(text))
            }),
            Shape::Frames(frames) => valgrind_file::fits(frames, stack),
            Shape::Runtime(runtime) => runtime.is_alone(stack.iter().map(|place| place.module)),
            Shape::Loader(pattern) => {
                let at = stack.iter().position(|place| pattern.is_in(place.function));
                at.is_some_and(|at| {
                    // Where it is part of the program, what it calls is, too.
                    let own = stack[at].module;
                    let is_its = |module| module == own || built_in::is_loaders(module);
                    stack[..at].iter().all(|place| is_its(place.module))
                })
            }
        }
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(name, line) => write!(f, "{name}:{line}"),
            Self::Target => f.write_str("the target"),
            Self::BuiltIn => f.write_str("built in"),
        }
    }
}

/// The line that would keep this function's leaks quiet.
pub fn line_for(function: &str) -> String {
    // What would be read as something else by the file's own rules has no place in it.
    let bare = function.trim().trim_start_matches('^').trim_end_matches('$');
    format!("leak:{}", bare.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place<'a>(function: &'a str, file: &'a str, module: &'a str) -> Place<'a> {
        Place { function, file, module }
    }

    fn stack() -> [Place<'static>; 3] {
        [
            place("malloc", "", "/usr/lib/libc.so.6"),
            place("cache::insert(int)", "/src/cache.cpp", "/opt/app"),
            place("main", "/src/main.cpp", "/opt/app"),
        ]
    }

    #[test]
    fn a_rule_may_speak_of_function_file_or_module_of_any_call() {
        for line in ["leak:cache::insert", "leak:cache.cpp", "leak:/opt/app", "leak:^main$"] {
            let mut rules = Suppressions::default();
            rules.add_file("x.supp", line);
            assert_eq!(rules.find(&stack()), Some(0), "{line}");
        }
        let mut rules = Suppressions::default();
        rules.add_file("x.supp", "leak:^insert\nleak:cache.c$\nleak:libd.so");
        assert_eq!(rules.find(&stack()), None);
    }

    #[test]
    fn code_that_is_in_no_file_has_the_name_that_leak_sanitizer_gives_it() {
        let mut rules = Suppressions::default();
        rules.add_file("x.supp", "leak:^<unknown module>$");
        for (module, fits) in [
            ("[unknown]", true),
            ("[anonymous]", true),
            ("/opt/app", false),
            ("[vdso]", false),
            ("", false),
        ] {
            assert_eq!(rules.find(&[place("f", "", module)]).is_some(), fits, "{module}");
        }
    }

    #[test]
    fn used_and_unused_rules_are_told_apart() {
        let mut rules = Suppressions::default();
        rules.add_built_in();
        rules.add_file("x.supp", "# known\nleak:insert\n\nleak:nothing\n");
        let first = rules.find(&stack()).unwrap();
        rules.count(first, 100, 2);
        let used: Vec<_> = rules.used().map(|r| (&*r.text, r.bytes, r.blocks)).collect();
        assert_eq!(used, [("leak:insert", 100, 2)]);
        let unused: Vec<_> = rules.unused().map(|r| r.source.to_string()).collect();
        assert_eq!(unused, ["x.supp:4"]);
    }

    #[test]
    fn the_loader_keeps_what_it_asked_for_but_not_what_constructors_did() {
        let mut rules = Suppressions::default();
        rules.add_built_in();
        let (loader, libc) = ("/lib64/ld-linux-x86-64.so.2", "/usr/lib/x86_64-linux-gnu/libc.so.6");
        let opened = [
            place("_dl_init", "", loader),
            place("_dl_catch_exception", "", libc),
            place("dl_open_worker", "", loader),
            place("main", "", "/opt/app"),
        ];
        assert!(rules.find(&opened).is_some());
        let constructed =
            [&[place("strdup", "", libc), place("init", "", "/opt/p.so")], &opened[..]];
        assert_eq!(rules.find(&constructed.concat()), None);
        assert_eq!(rules.find(&opened[3..]), None);
    }

    #[test]
    fn a_line_that_was_made_is_a_line_that_fits() {
        for function in ["main", "a::b<c*>::d(int)", "^odd$", " spaces "] {
            let mut rules = Suppressions::default();
            rules.add_file("x.supp", &line_for(function));
            assert_eq!(rules.find(&[place(function, "", "")]), Some(0), "{function}");
        }
    }

    #[test]
    fn the_target_brings_its_own_list() {
        let mut rules = Suppressions::default();
        rules.add_of_target("leak:insert\nrace:other\n");
        assert_eq!(rules.find(&stack()), Some(0));
        assert_eq!(rules.complaints.len(), 1, "{:?}", rules.complaints);
        assert_eq!(rules.unused().count(), 0, "it is not the user's to tidy up");
    }
}
