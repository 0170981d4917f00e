//! Which runtimes of languages a target has, by what its modules export, by a note in them, or by name and text
//! where they have neither; and what the hooks see of their memory. Never by the name of the process.

pub mod go_program;
mod kinds;
mod signs;

use heapattach_injector::target::Target;

use heapattach_report::suppression::runtime::Sign;
pub use kinds::{KINDS, Kind};
pub use signs::Signs;

/// A runtime in the target.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which.
    pub kind: &'static Kind,
    /// The path of the module that it is in.
    pub module: String,
}

/// The runtimes of one target; those that it loads later, too.
#[derive(Clone, Debug)]
pub struct Runtimes {
    signs: Signs,
    environment: Vec<u8>,
    found: Vec<Found>,
}

impl Runtimes {
    /// Those that are there now.
    pub fn of(target: &Target) -> Self {
        let environment = target.process.read("environ").unwrap_or_default();
        let signs = Signs::new(KINDS.iter().map(|kind| kind.sign));
        let mut runtimes = Self { signs, environment, found: Vec::new() };
        runtimes.look(target);
        runtimes
    }

    /// Looks at modules that are new.
    pub fn look(&mut self, target: &Target) {
        for (number, module) in self.signs.look(target) {
            let kind = &KINDS[number];
            // One that is made of another has its functions, too, and comes first.
            let is_part = |other: &Found| {
                other.module == module && (other.kind.includes == Some(kind.name))
                    || other.kind.name == kind.name
            };
            if !self.found.iter().any(is_part) {
                self.found.push(Found { kind, module });
            }
        }
    }

    /// All that were found.
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// Whether one of them is Go's.
    pub fn has_go(&self) -> bool {
        self.found.iter().any(|found| matches!(found.kind.sign, Sign::GoNote))
    }

    /// Of none that is there, in this environment.
    #[cfg(test)]
    pub fn without(environment: &[u8]) -> Self {
        let (signs, environment) = (Signs::new([]), environment.to_vec());
        Self { signs, environment, found: Vec::new() }
    }

    /// The setting of its environment that has a runtime allocate each block by malloc.
    pub fn setting(&self, kind: &Kind) -> Option<&'static str> {
        let is_set = |setting: &&&'static str| {
            self.environment.split(|&byte| byte == 0).any(|one| one == setting.as_bytes())
        };
        kind.settings.iter().find(is_set).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_injector::target::Tracer;
    use heapattach_process::proc::Process;

    #[test]
    fn a_setting_counts_if_it_is_whole() {
        let php = KINDS.iter().find(|kind| kind.name == "PHP").unwrap();
        let with = |environment: &[u8]| Runtimes::without(environment).setting(php);
        assert_eq!(with(b"A=1\0USE_ZEND_ALLOC=0\0"), Some("USE_ZEND_ALLOC=0"));
        assert_eq!(with(b"USE_ZEND_ALLOC=01\0"), None);
        assert_eq!(with(b""), None);
    }

    #[test]
    fn what_includes_another_comes_before_it() {
        for (number, kind) in KINDS.iter().enumerate() {
            let Some(part) = kind.includes else { continue };
            let behind = KINDS.iter().position(|other| other.name == part);
            assert!(behind.is_some_and(|behind| behind > number), "{}", kind.name);
        }
    }

    /// Name, sign, what is not seen, what shows more.
    fn rows_of_the_guide() -> Vec<[&'static str; 4]> {
        let guide = include_str!("../../../guide/allocators.md");
        let lines = guide.lines().skip_while(|line| !line.starts_with("| runtime |")).skip(2);
        let rows = lines.take_while(|line| line.starts_with('|'));
        rows.map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            cells.try_into().unwrap()
        })
        .collect()
    }

    #[test]
    fn the_guide_has_each_of_them_with_its_sign_and_what_shows_more() {
        let rows = rows_of_the_guide();
        assert_eq!(rows.len(), KINDS.len());
        for kind in &KINDS {
            let row = rows.iter().find(|row| kind.name.contains(row[0]));
            let [_, sign, _, more] = row.unwrap_or_else(|| panic!("no {}", kind.name));
            if let Sign::Exports(function) = kind.sign {
                assert_eq!(*sign, format!("`{function}`"), "{}", kind.name);
            }
            match (kind.more, kind.is_whole) {
                ("", true) => assert_eq!(*more, "nothing is left", "{}", kind.name),
                ("", false) => assert_eq!(*more, "there is none", "{}", kind.name),
                (typed, _) => {
                    let told = more.split('`').nth(1).unwrap_or("nothing");
                    assert!(typed.contains(told), "{}: {told}", kind.name);
                }
            }
        }
    }

    #[test]
    fn this_program_has_none() {
        let own = Process::open(std::process::id().cast_signed()).unwrap();
        let own = Target::open(own, Tracer::Own).unwrap();
        assert!(Runtimes::of(&own).found().is_empty());
    }
}
