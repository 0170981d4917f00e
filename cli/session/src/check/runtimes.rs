//! Which runtimes a process has, by what its modules export, or by name and text where they export
//! nothing.

use heapattach_injector::{moment::sanitizer, target::Target};
use heapattach_process::proc::maps::{self, Mapping};

use heapattach_report::suppression::runtime::{KINDS, Runtime, Sign};

/// The constants of a program are looked through so far.
const MOST_READ: u64 = 16 << 20;
const WINDOW: usize = 1 << 20;

/// All runtimes that the target has loaded.
pub(super) fn of(target: &Target) -> Vec<Runtime> {
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).unwrap_or_default();
    let exported = KINDS.iter().filter_map(|kind| match kind.sign {
        Sign::Exports(function) => Some(function.as_bytes()),
        Sign::Text(..) => None,
    });
    let names: Vec<&[u8]> = exported.collect();
    let found = sanitizer::functions(target, &names);
    let defined = |function: &str| {
        let at = names.iter().position(|name| *name == function.as_bytes())?;
        let mapping = maps::covering(&maps, (*found.get(at)?)?)?;
        Some(path_of(mapping))
    };
    let Some(program) = program(target, &maps) else { return Vec::new() };
    let known = KINDS.iter().filter_map(|kind| {
        let module = match kind.sign {
            Sign::Exports(function) => defined(function)?,
            Sign::Text(name, text) => {
                let is_it =
                    is_called(&program, name) && has_text(target, &maps, &program, text.as_bytes());
                is_it.then(|| program.clone())?
            }
        };
        let folder = module.rsplit_once('/').map_or("", |(folder, _)| folder);
        let bundled = kind.bundled.map(|start| format!("{folder}/{start}"));
        Some(Runtime { name: kind.name, own: module, bundled, program: program.clone() })
    });
    known.collect()
}

fn path_of(mapping: &Mapping<'_>) -> String {
    mapping.label().to_string_lossy().into_owned()
}

/// The file of the program.
fn program(target: &Target, maps: &[Mapping<'_>]) -> Option<String> {
    let headers = target.process.auxv().ok()?.phdr?;
    Some(path_of(maps::covering(maps, headers)?))
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
    let own = constants.filter(|m| path_of(m) == path);
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
    fn a_program_is_known_by_its_name_and_what_may_follow_it() {
        for path in ["/usr/bin/emacs", "/usr/bin/emacs-nox", "/opt/emacs28"] {
            assert!(is_called(path, "emacs"), "{path}");
        }
        for path in ["/usr/bin/emacsclient", "/usr/bin/xemacs", "/usr/bin/e", ""] {
            assert!(!is_called(path, "emacs"), "{path}");
        }
    }
}
