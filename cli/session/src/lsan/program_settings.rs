//! What a program says for LeakSanitizer by functions that it defines: which of its leaks are known, which
//! options it is to be checked with, and whether at all. They are read from their code, which is not run.

use heapattach_injector::{
    moment::{constant, sanitizer},
    target::Target,
};
use heapattach_process::{addr::RemoteAddr, memory::Memory};
use heapattach_reach::{RootKind, RootSet};
use heapattach_report::suppression::Suppressions;
use heapattach_text::{error_chain::with_causes, printable::printable};

use super::options::LsanOptions;

/// Which of its leaks are known.
const RULES: &str = "__lsan_default_suppressions";
/// Options.
const OPTIONS: &str = "__lsan_default_options";
/// Whether it is not to be checked, when a check is made.
const TURNED_OFF: &str = "__lsan_is_turned_off";

/// What a program says of how it is to be checked.
#[derive(Clone, Debug, Default)]
pub struct ProgramSettings {
    options: LsanOptions,
    turned_off: Option<RemoteAddr>,
}

impl ProgramSettings {
    /// Reads it; the rules go to the others, and what is to be said to `notes`.
    pub fn of(target: &Target, rules: &mut Suppressions, notes: &mut Vec<String>) -> Self {
        let names = [RULES, OPTIONS, TURNED_OFF].map(str::as_bytes);
        let found = sanitizer::functions(target, &names);
        let mut found = found.into_iter();
        let mut text = |name: &str| {
            let at = found.next().flatten()?;
            match constant::text(&target.memory, at) {
                Ok(text) => Some(printable_lines(&text.unwrap_or_default())),
                Err(error) => {
                    notes.push(not_understood(name, &error));
                    None
                }
            }
        };
        if let Some(text) = text(RULES) {
            rules.add_of_target(&text);
        }
        let options = text(OPTIONS).map(|text| LsanOptions::parse(&text)).unwrap_or_default();
        let mut settings = Self { options, turned_off: found.next().flatten() };
        if let Some(at) = settings.turned_off
            && let Err(error) = constant::number(&target.memory, at)
        {
            notes.push(not_understood(TURNED_OFF, &error));
            settings.turned_off = None;
        }
        notes.extend(settings.told());
        settings
    }

    /// What was taken of its options, and what not: a line each.
    fn told(&self) -> Vec<String> {
        let LsanOptions { taken, untaken, suppressions, prints_rules, max_depth, .. } =
            &self.options;
        // A file would be the program's to name; the rest is settled before the program is looked at.
        let is_open = |option: &&String| {
            let is = |name: &str| option.starts_with(name);
            suppressions.is_some() && is("suppressions=")
                || *prints_rules && is("print_suppressions=")
                || max_depth.is_some() && is("malloc_context_size=")
        };
        let (late, taken): (Vec<&String>, Vec<&String>) = taken.iter().partition(is_open);
        let untaken: Vec<&String> = late.into_iter().chain(untaken).collect();
        let line = |what: &str, options: &[&String]| {
            let options: Vec<&str> = options.iter().map(|option| option.as_str()).collect();
            (!options.is_empty())
                .then(|| format!("{OPTIONS} of the program: {what} {}", options.join(" ")))
        };
        line("taken", &taken).into_iter().chain(line("not taken", &untaken)).collect()
    }

    /// By which word of the program it is not to be checked now.
    pub fn turned_off(&self, memory: &Memory) -> Option<&'static str> {
        let is_off = |at| constant::number(memory, at).is_ok_and(|answer| answer != 0);
        match self.turned_off {
            Some(at) if is_off(at) => Some(TURNED_OFF),
            _ => self.options.is_off.then_some(OPTIONS),
        }
    }

    /// Where pointers count, of these kinds, which are not the user's choice.
    pub fn roots(&self, roots: RootSet) -> RootSet {
        let without = &self.options.without;
        let wanted = RootKind::ALL.into_iter().filter(|kind| roots.has(*kind));
        wanted.filter(|kind| !without.contains(kind)).collect()
    }

    /// Whether pointers count at any byte.
    pub fn is_unaligned(&self) -> bool {
        self.options.unaligned
    }

    /// The exit status of a check that does not pass.
    pub fn exit_code(&self) -> Option<u8> {
        self.options.exit_code
    }
}

fn not_understood(name: &str, error: &constant::ConstantError) -> String {
    format!("{name} is not understood: {}", with_causes(error))
}

/// Text of the target, still in lines.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_too_late_is_told_as_not_taken() {
        let text = "exitcode=3:suppressions=x:report_objects=1:use_tls=0";
        let options = LsanOptions::parse(text);
        let settings = ProgramSettings { options, turned_off: None };
        let told = settings.told();
        assert!(told[0].ends_with("taken exitcode=3 use_tls=0"), "{told:?}");
        assert!(told[1].ends_with("not taken suppressions=x report_objects=1"), "{told:?}");
        assert_eq!(ProgramSettings::default().told(), [""; 0]);
    }
}
