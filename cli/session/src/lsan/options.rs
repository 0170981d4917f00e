//! The options of LeakSanitizer, as `LSAN_OPTIONS` and a program's own list have them: `name=value`, one
//! after another. Pure.

use heapattach_reach::RootKind;

/// Longer lists are cut.
const MOST: usize = 256;

/// Kinds of roots that an option of LeakSanitizer switches off.
const ROOTS: [(&str, RootKind); 6] = [
    ("use_globals", RootKind::Globals),
    ("use_stacks", RootKind::Stacks),
    ("use_registers", RootKind::Registers),
    ("use_tls", RootKind::Tls),
    ("use_root_regions", RootKind::Announced),
    ("use_ld_allocations", RootKind::Loader),
];

/// Options that change nothing of what is found or told here.
const WITHOUT_EFFECT: [&str; 14] = [
    "abort_on_error",
    "color",
    "external_symbolizer_path",
    "fast_unwind_on_fatal",
    "fast_unwind_on_malloc",
    "help",
    "log_pointers",
    "log_threads",
    "stack_trace_format",
    "strip_path_prefix",
    "symbolize",
    "symbolize_inline_frames",
    "use_poisoned",
    "verbosity",
];

/// What a list says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LsanOptions {
    /// `exitcode`.
    pub exit_code: Option<u8>,
    /// `suppressions`.
    pub suppressions: Option<String>,
    /// `print_suppressions`.
    pub prints_rules: bool,
    /// `malloc_context_size`.
    pub max_depth: Option<u32>,
    /// Kinds of roots that are switched off.
    pub without: Vec<RootKind>,
    /// `use_unaligned`.
    pub unaligned: bool,
    /// `detect_leaks=0`.
    pub is_off: bool,
    /// What was understood, as it was written.
    pub taken: Vec<String>,
    /// What has no counterpart here, as it was written.
    pub untaken: Vec<String>,
}

impl LsanOptions {
    /// Reads a list; anything is a list. Of an option that is there twice the last counts.
    pub fn parse(text: &str) -> Self {
        let mut options = Self::default();
        for (name, value) in pairs(text).take(MOST) {
            let written = format!("{name}={value}");
            match options.set(name, value) {
                Some(true) => options.taken.push(written),
                Some(false) => {}
                None => options.untaken.push(written),
            }
        }
        options
    }

    /// Whether it has a counterpart; `None`: it has none. What is as it is anyway is not told.
    fn set(&mut self, name: &str, value: &str) -> Option<bool> {
        if let Some((_, kind)) = ROOTS.iter().find(|(option, _)| *option == name) {
            let is_on = truth(value)?;
            self.without.retain(|other| other != kind);
            self.without.extend((!is_on).then_some(*kind));
            return Some(!is_on);
        }
        match name {
            "exitcode" => self.exit_code = Some(value.parse().ok()?),
            "suppressions" if value.is_empty() => return Some(false),
            "suppressions" => self.suppressions = Some(value.to_owned()),
            "print_suppressions" => {
                self.prints_rules = truth(value)?;
                return Some(self.prints_rules);
            }
            "malloc_context_size" => {
                let depth = value.parse().ok().filter(|depth| (1..=255).contains(depth));
                self.max_depth = Some(depth?);
            }
            "use_unaligned" => {
                self.unaligned = truth(value)?;
                return Some(self.unaligned);
            }
            "detect_leaks" => {
                self.is_off = !truth(value)?;
                return Some(self.is_off);
            }
            // What is so here, too.
            "leak_check_at_exit" if truth(value) == Some(true) => return Some(false),
            "max_leaks" if value == "0" => return Some(false),
            _ if WITHOUT_EFFECT.contains(&name) => return Some(false),
            _ => return None,
        }
        Some(true)
    }
}

/// `name=value` between colons, commas and white space; a value in quotes may have them in it.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_border = |c: char| c == ':' || c == ',' || c.is_whitespace();
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(is_border);
        let (name, after) = rest.split_once('=')?;
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (value, left) = match quote {
            Some(quote) => {
                let inner = &after[1..];
                inner.split_once(quote).unwrap_or((inner, ""))
            }
            None => after.split_at(after.find(is_border).unwrap_or(after.len())),
        };
        rest = left;
        // What has no value is what follows the last border before the sign.
        let name = name.rsplit(is_border).next().unwrap_or_default();
        Some((name, value))
    })
}

fn truth(value: &str) -> Option<bool> {
    match value {
        "0" | "no" | "false" => Some(false),
        "1" | "yes" | "true" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_leak_sanitizer_reads_it() {
        let text = "exitcode=7:use_stacks=0,suppressions='my file.supp' use_unaligned=true\n\
                    malloc_context_size=20:verbosity=1:report_objects=1:max_leaks=3:use_globals=1";
        let options = LsanOptions::parse(text);
        assert_eq!((options.exit_code, options.max_depth), (Some(7), Some(20)));
        assert_eq!(options.suppressions.as_deref(), Some("my file.supp"));
        assert_eq!((&*options.without, options.unaligned), (&[RootKind::Stacks][..], true));
        assert_eq!(options.untaken, ["report_objects=1", "max_leaks=3"]);
        assert_eq!(options.taken.len(), 5, "{options:?}");
    }

    #[test]
    fn the_last_of_one_name_counts_and_nonsense_is_not_taken() {
        let options = LsanOptions::parse("use_tls=0:use_tls=1:exitcode=999:use_stacks=maybe");
        assert_eq!((&*options.without, options.exit_code), (&[][..], None));
        assert_eq!(options.untaken, ["exitcode=999", "use_stacks=maybe"]);
        assert!(LsanOptions::parse("detect_leaks=0").is_off);
        assert!(!LsanOptions::parse("detect_leaks=0:detect_leaks=1").is_off);
        assert_eq!(LsanOptions::parse(" :: , "), LsanOptions::default());
        assert_eq!(LsanOptions::parse("word exitcode=3").exit_code, Some(3));
        assert_eq!(LsanOptions::parse("suppressions=\"a").suppressions.as_deref(), Some("a"));
    }

    #[test]
    fn any_text_is_survived() {
        for text in ["=", "==", "a=", "=b", "a='", "a=\"\"", "größe=ß:exitcode=-1", "\0=\0", ":=:="]
        {
            let _ = LsanOptions::parse(text);
        }
        let many = "report_objects=1:".repeat(1000);
        assert_eq!(LsanOptions::parse(&many).untaken.len(), MOST);
    }
}
