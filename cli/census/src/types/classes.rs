//! Classes by the addresses of their tables of virtual functions.

use std::{collections::HashMap, ops::Range};

use heapattach_symbols::demangle::demangle;

use crate::Moment;

use super::Language;

/// The number of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

/// Questions that are remembered.
const RECENT: usize = 64;

/// A longer name is not looked at to its end.
const LONGEST: usize = 512;
/// So many words that are none are remembered.
const MOST: usize = 1 << 20;

/// All classes that were seen.
pub struct Classes<'a, 'm> {
    moment: &'a Moment<'m>,
    /// Modules, ascending.
    modules: Vec<Range<u64>>,
    /// From the first to the last.
    within: Range<u64>,
    known: HashMap<u64, Option<ClassId>>,
    /// Questions of before, by what they end in: objects of few classes lie side by side, and a table that a target
    /// cannot make slow takes longer.
    recent: [(u64, Option<ClassId>); RECENT],
    names: Vec<String>,
    languages: Vec<Language>,
    by_name: HashMap<(Language, String), ClassId>,
}

impl<'a, 'm> Classes<'a, 'm> {
    /// Of the modules of a moment.
    pub fn new(moment: &'a Moment<'m>) -> Self {
        let mut modules: Vec<Range<u64>> =
            moment.images().iter().map(|image| image.range.clone()).collect();
        modules.sort_by_key(|range| range.start);
        let start = modules.first().map_or(0, |range| range.start);
        let end = modules.iter().map(|range| range.end).max().unwrap_or(0);
        Self {
            moment,
            modules,
            within: start..end,
            known: HashMap::new(),
            recent: [(0, None); RECENT],
            names: Vec::new(),
            languages: Vec::new(),
            by_name: HashMap::new(),
        }
    }

    /// The class of an object whose first word is this.
    #[inline]
    pub fn of(&mut self, word: u64) -> Option<ClassId> {
        let place = usize::try_from(word >> 3).unwrap_or_default() % RECENT;
        if word == self.recent[place].0 {
            return self.recent[place].1;
        }
        // Between modules lies what blocks lead to: it is not looked at.
        let may_be = self.within.contains(&word) && word.is_multiple_of(8);
        if !may_be || !self.is_in_module(word) {
            return None;
        }
        let class = self.look_up(word);
        self.recent[place] = (word, class);
        class
    }

    fn look_up(&mut self, table: u64) -> Option<ClassId> {
        if let Some(class) = self.known.get(&table) {
            return *class;
        }
        let class = self.name(table).map(|name| self.number(Language::Cpp, name));
        if self.known.len() < MOST {
            self.known.insert(table, class);
        }
        class
    }

    /// The number of a class of this name.
    pub fn number(&mut self, language: Language, name: String) -> ClassId {
        let key = (language, name);
        if let Some(class) = self.by_name.get(&key) {
            return *class;
        }
        let class = ClassId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(key.1.clone());
        self.languages.push(language);
        self.by_name.insert(key, class);
        class
    }

    /// What tells it.
    pub fn language_of(&self, class: ClassId) -> Language {
        let index = usize::try_from(class.0).unwrap_or(usize::MAX);
        self.languages.get(index).copied().unwrap_or_default()
    }

    /// The name of a class, for people.
    pub fn name_of(&self, class: ClassId) -> &str {
        usize::try_from(class.0)
            .ok()
            .and_then(|index| self.names.get(index))
            .map_or("", |name| name)
    }

    /// All names, by the numbers of their classes.
    pub fn into_names(self) -> Vec<String> {
        self.names
    }

    fn is_in_module(&self, at: u64) -> bool {
        let index = self.modules.partition_point(|range| range.end <= at);
        self.modules.get(index).is_some_and(|range| range.contains(&at))
    }

    /// What the class is called whose table begins there: an offset to the whole object of 0 and its type lie
    /// before it, functions in it.
    fn name(&self, table: u64) -> Option<String> {
        let words = self.moment.words(table.checked_sub(16)?, 3)?;
        let [offset, kind, first] = *words.first_chunk()?;
        let is_table = offset == 0
            && kind.is_multiple_of(8)
            && self.is_in_module(kind)
            && (first == 0 || self.is_code(first));
        if !is_table {
            return None;
        }
        // A type has a table of its own, and its name.
        let kind = self.moment.words(kind, 2)?;
        let [own, name] = *kind.first_chunk()?;
        if !self.is_in_module(own) || !own.is_multiple_of(8) || !self.is_in_module(name) {
            return None;
        }
        let mangled = self.string(name)?;
        let mangled = mangled.strip_prefix('*').unwrap_or(&mangled);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let begins = mangled.starts_with(|c: char| c.is_ascii_digit() || "NSZIKPl".contains(c));
        if !begins || !mangled.chars().all(is_name) {
            return None;
        }
        let told = demangle(format!("_ZTS{mangled}").as_bytes());
        let told = told.strip_prefix("typeinfo name for ").unwrap_or(&told);
        // What the demangler does not know is no name.
        (!told.starts_with("_ZTS")).then(|| told.to_owned())
    }

    fn is_code(&self, at: u64) -> bool {
        self.moment.region(at).is_some_and(|region| region.executable)
    }

    fn string(&self, at: u64) -> Option<String> {
        let mut bytes = vec![0; LONGEST];
        let read = self.moment.read(at, &mut bytes);
        let end = bytes[..read].iter().position(|&byte| byte == 0)?;
        bytes.truncate(end);
        String::from_utf8(bytes).ok()
    }
}
