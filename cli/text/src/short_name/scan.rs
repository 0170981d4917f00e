//! A name taken apart: the text at its top, with its brackets folded, and where they are.
//!
//! One pass without recursion. Each bracket is folded when it closes, to a bounded text, so that what is
//! deep costs no more than what is long.

use super::arguments;

/// Inline namespaces of standard libraries, which are not written in source.
const INLINE: [&str; 4] = ["__cxx11::", "__1::", "__ndk1::", "_V2::"];
/// What may follow the parameters of a function.
const QUALIFIERS: [&str; 5] = [" const", " volatile", " noexcept", " &&", " &"];
/// The longest first.
const OPERATORS: [&str; 13] =
    ["()", "[]", "<=>", "<<=", ">>=", "->*", "->", "<<", ">>", "<=", ">=", "<", ">"];
const ANONYMOUS: &str = "(anonymous namespace)";

/// Whose name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Parameters, namespaces in arguments.
    Cpp,
    /// No parameters; types in arguments by their last part.
    Rust,
}

/// Some text outside of any bracket, with what is in it.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// The text, with brackets folded.
    pub text: String,
    /// Its brackets.
    pub groups: Vec<Group>,
    /// Where the last blank ends that is not part of an operator's name; 0 if there is none.
    pub last_word: usize,
    /// Where an operator's name begins.
    pub operator: Option<usize>,
    /// Whether it is computed, and no list.
    is_expression: bool,
    /// Arguments before this one.
    before: Vec<String>,
}

/// Brackets, folded.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// `(`, `<`, `[` or `{`.
    pub open: u8,
    /// Where it begins in the text.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
}

impl Dialect {
    /// By what only Rust writes; its functions bear no parameters.
    pub fn of(name: &str) -> Self {
        let marks = ["{closure", "{{", "{impl", "{shim", "<impl ", "::<", "<alloc::", "<core::"];
        let roots = ["alloc::", "core::", "hashbrown::"];
        let is_rust = (name.starts_with('<') || name.contains(" as "))
            || marks.iter().any(|mark| name.contains(mark))
            || roots.iter().any(|root| name.starts_with(root));
        if is_rust && !name.ends_with(')') { Self::Rust } else { Self::Cpp }
    }
}

/// What is open, from the outermost on.
struct Scan<'a> {
    dialect: Dialect,
    name: &'a str,
    at: usize,
    levels: Vec<(u8, Level)>,
    /// How many of each bracket are open.
    open: [usize; 4],
}

/// Takes a name apart.
pub fn scan(dialect: Dialect, name: &str) -> Level {
    let levels = vec![(0, Level::default())];
    let mut scan = Scan { dialect, name, at: 0, levels, open: [0; 4] };
    while scan.at < name.len() {
        scan.step();
    }
    while scan.levels.len() > 1 {
        scan.close();
    }
    scan.levels.pop().map(|(_, level)| level).unwrap_or_default()
}

fn kind(open: u8) -> usize {
    match open {
        b'(' => 0,
        b'<' => 1,
        b'[' => 2,
        _ => 3,
    }
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

impl Scan<'_> {
    fn level(&mut self) -> &mut Level {
        &mut self.levels.last_mut().expect("the outermost level is never closed").1
    }

    fn text(&mut self, text: &str) {
        self.level().text.push_str(text);
        self.at += text.len();
    }

    fn step(&mut self) {
        let name = self.name;
        let rest = &name[self.at..];
        let Some(next) = rest.chars().next() else { return };
        let is_first = !self.level().text.ends_with(is_letter);
        if is_first
            && let Some(after) = rest.strip_prefix("operator")
            && !after.starts_with(is_letter)
        {
            return self.operator(after);
        }
        if rest.starts_with(ANONYMOUS) {
            return self.text(ANONYMOUS);
        }
        let is_standard = is_first && self.level().text.ends_with("std::");
        if is_standard && let Some(inline) = INLINE.iter().find(|inline| rest.starts_with(**inline))
        {
            self.at += inline.len();
            return;
        }
        match next {
            '(' | '<' | '[' | '{' => self.opening(rest.as_bytes()[0]),
            ')' => self.closing(b'('),
            ']' => self.closing(b'['),
            '}' => self.closing(b'{'),
            '>' if name[..self.at].ends_with('-') => self.text(">"),
            '>' if self.levels.last().is_some_and(|level| level.0 == b'(') => self.compared(),
            '>' => self.closing(b'<'),
            ',' if self.levels.len() > 1 => {
                self.at += 1;
                let dialect = self.dialect;
                let level = self.level();
                level.finish_argument(dialect);
            }
            ' ' => self.blank(rest),
            _ => self.text(&rest[..next.len_utf8()]),
        }
    }

    /// The symbol of an operator is not a bracket; what follows in words is part of its name.
    fn operator(&mut self, after: &str) {
        let at = self.level().text.len();
        self.level().operator.get_or_insert(at);
        self.text("operator");
        if let Some(symbol) = OPERATORS.iter().find(|symbol| after.starts_with(**symbol)) {
            self.text(symbol);
            // `operator< <char>`: the blank keeps the two apart, and says nothing.
            if after[symbol.len()..].starts_with(" <") {
                self.at += 1;
            }
        }
    }

    fn opening(&mut self, open: u8) {
        let is_compared = self.name[..self.at].ends_with([')', '=']);
        if open == b'<' && is_compared && self.levels.last().is_some_and(|level| level.0 == b'(') {
            return self.compared();
        }
        self.open[kind(open)] += 1;
        self.levels.push((open, Level::default()));
        self.at += 1;
    }

    /// A comparison between expressions: what is in these parentheses is not told.
    fn compared(&mut self) {
        self.level().is_expression = true;
        self.at += 1;
    }

    /// Closes the nearest such bracket, and what was left open in it. What was never opened is left out.
    fn closing(&mut self, open: u8) {
        self.at += 1;
        let innermost = self.levels.last().map_or(0, |level| level.0);
        if self.open[kind(open)] == 0 || (open == b'<' && innermost != b'<') {
            return;
        }
        while let Some(innermost) = self.close() {
            if innermost == open {
                return;
            }
        }
    }

    /// Closes the innermost bracket, whatever it is.
    fn close(&mut self) -> Option<u8> {
        if self.levels.len() < 2 {
            return None;
        }
        let dialect = self.dialect;
        let (open, mut level) = self.levels.pop()?;
        self.open[kind(open)] -= 1;
        level.finish_argument(dialect);
        let outer = self.level();
        let from = outer.text.len();
        match open {
            _ if level.is_expression => outer.text.push_str("(...)"),
            b'<' => arguments::fold(dialect, &mut outer.text, &level.before),
            b'{' => outer.text.push_str(&arguments::local(&level.before)),
            b'[' => outer.text.push_str(&arguments::listed('[', &level.before, ']')),
            _ => outer.text.push_str(&arguments::listed('(', &level.before, ')')),
        }
        let from = from.min(outer.text.len());
        outer.groups.push(Group { open, from, to: outer.text.len() });
        Some(open)
    }

    fn blank(&mut self, rest: &str) {
        let is_outermost = self.levels.len() == 1;
        let is_after_list = self.level().text.ends_with(')');
        if is_outermost && is_after_list {
            let next = |word: &&&str| {
                rest.strip_prefix(**word).is_some_and(|after| !after.starts_with(is_letter))
            };
            if let Some(word) = QUALIFIERS.iter().find(next) {
                self.at += word.len();
                return;
            }
        }
        self.text(" ");
        let level = self.level();
        if level.operator.is_none() {
            level.last_word = level.text.len();
        }
    }
}

impl Level {
    /// What comes next is another argument.
    fn finish_argument(&mut self, dialect: Dialect) {
        let text = std::mem::take(&mut self.text);
        let argument = arguments::argument(dialect, text.trim(), &self.groups);
        if !argument.is_empty() && self.before.len() <= arguments::MOST {
            self.before.push(argument);
        }
        self.groups.clear();
        (self.last_word, self.operator) = (0, None);
    }
}
