//! Functions as people know them: by name and module, not by address. That is also what makes two
//! recordings comparable: neither a rebuild nor another place in memory changes it.

use std::collections::HashMap;

use serde::Serialize;

use heapattach_ledger::{Call, Function, Ledger, MAPPED_MODULE};
use heapattach_text::module_name::is_generated;

/// What compilers append to the names of copies they made of a function; which ones they make
/// changes from build to build.
const COPIES: [&str; 6] = [".constprop", ".isra", ".part", ".cold", ".lto_priv", ".llvm"];

/// A function, or a line of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// Its name; made of an address where none is known.
    pub function: String,
    /// The file name of its module.
    pub module: String,
    /// Its source file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(skip)]
    is_named: bool,
    /// The name for a reader, where that is another one.
    #[serde(skip)]
    short: String,
}

/// The functions of one or two ledgers, each once.
#[derive(Debug, Default)]
pub struct Places {
    /// By the name that is compared, and the module.
    numbers: HashMap<(String, String), u32>,
    places: Vec<Place>,
}

impl Place {
    /// An unknown place.
    pub fn unknown() -> Self {
        Self { function: "[unknown]".to_owned(), ..Self::default() }
    }

    /// Of one call.
    pub fn of(call: &Call<'_>) -> Self {
        Self { line: call.line, ..Self::new(call.function, &call.module.path) }
    }

    fn new(function: &Function, path: &str) -> Self {
        Self {
            function: function.name.clone(),
            module: base(path).to_owned(),
            file: function.file.clone(),
            line: None,
            is_named: function.is_named,
            short: function.short.clone(),
        }
    }

    /// `make_node (list.c:12)`, or `make_node in list`.
    pub fn words(&self) -> String {
        let name = self.name();
        match (self.is_named, self.file.is_empty(), self.line) {
            (true, false, Some(line)) => format!("{name} ({}:{line})", base(&self.file)),
            (true, false, None) => format!("{name} ({})", base(&self.file)),
            (true, true, _) if is_generated(&self.module) || self.module == MAPPED_MODULE => {
                name.to_owned()
            }
            (true, true, _) => format!("{name} in {}", self.module),
            (false, ..) => name.to_owned(),
        }
    }

    /// The function, as it is shown.
    pub fn name(&self) -> &str {
        if self.short.is_empty() { &self.function } else { &self.short }
    }
}

impl Places {
    /// The places of a ledger's functions, by their numbers in it.
    pub fn of(&mut self, ledger: &Ledger) -> Vec<u32> {
        let mut numbers = Vec::new();
        self.extend(ledger, &mut numbers);
        numbers
    }

    /// The same where those of the first functions are known.
    pub(crate) fn extend(&mut self, ledger: &Ledger, numbers: &mut Vec<u32>) {
        let functions = ledger.functions.iter().skip(numbers.len());
        let place = |function: &Function| {
            let module = ledger.modules.get(function.module as usize);
            self.number(Place::new(function, module.map_or("", |module| &module.path)))
        };
        numbers.extend(functions.map(place));
    }

    /// The number of the unknown place.
    pub fn unknown(&mut self) -> u32 {
        self.number(Place::unknown())
    }

    /// By its number.
    pub fn get(&self, number: u32) -> &Place {
        &self.places[number as usize]
    }

    fn number(&mut self, place: Place) -> u32 {
        let key = (without_copy(&place.function).to_owned(), place.module.clone());
        *self.numbers.entry(key).or_insert_with(|| {
            self.places.push(place);
            u32::try_from(self.places.len() - 1).expect("there are fewer functions than 2^32")
        })
    }
}

/// The last part of a path.
fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A name without what tells a compiler's copies of the function apart.
fn without_copy(name: &str) -> &str {
    let own = name.split(" [clone ").next().unwrap_or(name);
    let copy = COPIES.iter().filter_map(|copy| own.find(copy)).min();
    // A name that begins so is not a copy of anything.
    copy.filter(|&at| at > 0).map_or(own, |at| &own[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn a_place_is_told_by_its_line_or_else_its_module() {
        let ledger = sample::ledger();
        let call = ledger.calls(0).nth(1).unwrap();
        assert_eq!(Place::of(&call).words(), "make_node (list.c:12)");
        let mut place = Place::of(&call);
        place.file.clear();
        assert_eq!(place.words(), "make_node in list");
    }

    #[test]
    fn a_rebuild_and_another_address_are_the_same_place() {
        let (mut places, before) = (Places::default(), sample::ledger());
        let numbers = places.of(&before);
        let mut after = sample::ledger();
        after.functions.reverse();
        after.functions[1].name = "main.constprop.0".to_owned();
        after.modules[0].path = "/opt/new/list".to_owned();
        after.locations.iter_mut().for_each(|location| location.address += 0x1000);
        let mut again = places.of(&after);
        again.reverse();
        assert_eq!(numbers, again);
    }

    #[test]
    fn copies_of_a_compiler_are_the_function_itself() {
        let names = ["f.isra.0", "f.part.1.cold", "f [clone .constprop.0]", "f.llvm.123"];
        assert!(names.iter().all(|name| without_copy(name) == "f"));
        assert_eq!(without_copy("operator<(a, b)"), "operator<(a, b)");
        assert_eq!(without_copy(".cold"), ".cold");
    }
}
