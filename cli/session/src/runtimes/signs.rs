//! Which modules of a target bear a sign.

use heapattach_injector::{
    target::Target,
    watch::{Exporter, Exporters},
};
use heapattach_process::proc::maps::{self, Mapping};
use heapattach_report::suppression::runtime::Sign;

/// A note of Go's linker: the length of the name, which is `Go`, the length of what follows, a type.
const GO_NAME: &[u8] = b"Go\0\0";
const GO_NAME_LENGTH: &[u8] = &[4, 0, 0, 0];
const GO_TYPE: &[u8] = &[4, 0, 0, 0];

/// The constants of a program are looked through so far.
const MOST_READ: u64 = 16 << 20;
const WINDOW: usize = 1 << 20;

/// A search for signs, which looks at each module once.
#[derive(Clone, Debug)]
pub struct Signs {
    signs: Vec<Sign>,
    /// Which sign each of the functions looked for is.
    numbers: Vec<usize>,
    exporters: Exporters,
}

impl Signs {
    /// A search for these.
    pub fn new(signs: impl IntoIterator<Item = Sign>) -> Self {
        let signs: Vec<Sign> = signs.into_iter().collect();
        let exported = signs.iter().enumerate().filter_map(|(number, sign)| match sign {
            Sign::Exports(function) => Some((number, function.as_bytes())),
            Sign::Text(..) | Sign::GoNote => None,
        });
        let (numbers, names) = exported.unzip();
        Self { signs, numbers, exporters: Exporters::new(names) }
    }

    /// The signs that new modules bear, by number, and the paths of these modules; in the order of the signs.
    pub fn look(&mut self, target: &Target) -> Vec<(usize, String)> {
        let modules = self.exporters.look(target);
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).unwrap_or_default();
        let mut found: Vec<(usize, String)> = Vec::new();
        for module in &modules {
            let exported = module.exports.iter().filter_map(|number| self.numbers.get(*number));
            found.extend(exported.map(|&number| (number, module.path.clone())));
            let others = self.signs.iter().enumerate();
            let others = others.filter(|(_, sign)| bears(target, &maps, module, **sign));
            found.extend(others.map(|(number, _)| (number, module.path.clone())));
        }
        found.sort_by_key(|(number, _)| *number);
        found
    }
}

/// Whether a module bears a sign that is no function.
fn bears(target: &Target, maps: &[Mapping<'_>], module: &Exporter, sign: Sign) -> bool {
    match sign {
        Sign::Exports(_) => false,
        Sign::GoNote => has_go_note(&module.head),
        Sign::Text(name, text) => {
            module.is_program
                && is_called(&module.path, name)
                && has_text(target, maps, &module.path, text.as_bytes())
        }
    }
}

/// Whether the first bytes of a module have the note of Go's linker.
pub fn has_go_note(head: &[u8]) -> bool {
    head.windows(16).any(|note| {
        note.starts_with(GO_NAME_LENGTH) && &note[8..12] == GO_TYPE && note.ends_with(GO_NAME)
    })
}

/// `emacs` is, and so are `emacs-nox` and `emacs28`.
fn is_called(path: &str, name: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    let rest = file.strip_prefix(name);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// Whether constants of a file have this text.
fn has_text(target: &Target, maps: &[Mapping<'_>], path: &str, text: &[u8]) -> bool {
    let constants = maps.iter().filter(|m| m.readable && !m.writable && !m.executable);
    let own = constants.filter(|m| m.label().to_string_lossy() == path);
    let mut left = MOST_READ;
    for mapping in own {
        let (mut at, end) = (mapping.range.start, mapping.range.end);
        while at < end && left > 0 {
            let mut bytes = vec![0; WINDOW + text.len()];
            let read = target.memory.read_some(at, &mut bytes).unwrap_or(0);
            if read == 0 {
                break;
            }
            if bytes[..read].windows(text.len()).any(|window| window == text) {
                return true;
            }
            left = left.saturating_sub(WINDOW as u64);
            at = at.offset(WINDOW as u64);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_is_known_by_its_note() {
        let mut head = vec![0x7f; 3000];
        head.extend_from_slice(b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0id");
        assert!(has_go_note(&head));
        assert!(!has_go_note(&head[..3010]) && !has_go_note(b""));
    }

    #[test]
    fn a_program_is_known_by_its_name_and_what_may_follow_it() {
        for path in ["/usr/bin/emacs", "/usr/bin/emacs-nox", "/opt/emacs28"] {
            assert!(is_called(path, "emacs"), "{path}");
        }
        for path in ["/usr/bin/emacsclient", "/usr/bin/xemacs", "/usr/bin/e", ""] {
            assert!(!is_called(path, "emacs"), "{path}");
        }
    }
}
