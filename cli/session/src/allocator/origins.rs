//! Where the settings of an allocator come from: its environment, a link, what it was built with.

use std::{collections::BTreeMap, os::unix::ffi::OsStrExt, path::Path};

use heapattach_census::counters::{AllocatorKind, Statistics, Value};
use heapattach_process::proc::Process;
use heapattach_report::Origin;
use nix::fcntl::readlinkat;

/// Bytes of an environment that are looked at.
const MOST: usize = 1 << 20;

/// Where glibc reads all its settings from.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Those of Go's runtime.
const GO: [&str; 3] = ["GOGC", "GOMEMLIMIT", "GOMAXPROCS"];

/// What was given to the process when it was started.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Names and values that are an allocator's.
    environment: Vec<(String, String)>,
    /// Where `/etc/malloc.conf` leads to.
    link: Option<String>,
}

impl Given {
    /// To that process.
    pub fn of(process: &Process) -> Self {
        let text = process.read("environ").unwrap_or_default();
        let link = process
            .open_root()
            .ok()
            .and_then(|root| readlinkat(&root, Path::new("etc/malloc.conf")).ok());
        let link = link.map(|link| String::from_utf8_lossy(link.as_bytes()).into_owned());
        Self { link, ..Self::parse(text.get(..MOST).unwrap_or(&text)) }
    }

    fn parse(text: &[u8]) -> Self {
        let words = text.split(|byte| *byte == 0).filter_map(|word| str::from_utf8(word).ok());
        let is_allocators = |name: &str| {
            name.ends_with("MALLOC_CONF")
                || name.starts_with("TCMALLOC_")
                || name.starts_with("MIMALLOC_")
                || (name.starts_with("MALLOC_") && name.ends_with('_'))
                || matches!(name, "MALLOC_ARENA_MAX" | "MALLOC_ARENA_TEST" | "GLIBC_TUNABLES")
                || GO.contains(&name)
        };
        let given = words.filter_map(|word| word.split_once('='));
        let given = given.filter(|(name, _)| is_allocators(name));
        let environment = given.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { environment, link: None }
    }

    /// Of each setting that was given; the last one counts, as it does for the allocator.
    pub fn origins(&self, now: &Statistics) -> BTreeMap<String, Origin> {
        let mut origins = BTreeMap::new();
        match now.allocator {
            AllocatorKind::Jemalloc => {
                let mut add = |text: &str, origin: &Origin| {
                    names(text).for_each(|name| drop(origins.insert(name, origin.clone())));
                };
                let own = |name: &str| now.conf.get(name).map(String::as_str).unwrap_or_default();
                add(own("compiled"), &Origin::CompiledIn);
                add(own("program"), &Origin::Program);
                add(self.link.as_deref().unwrap_or_default(), &Origin::ConfigurationLink);
                let given =
                    self.environment.iter().filter(|(name, _)| name.ends_with("MALLOC_CONF"));
                given.for_each(|(name, text)| add(text, &Origin::Environment(name.clone())));
            }
            AllocatorKind::Go => {
                let given = self.environment.iter().filter(|(name, _)| GO.contains(&&**name));
                for (name, text) in given {
                    let is_so = now.opt.get(name).is_some_and(|value| agrees(text, value));
                    let environment = Origin::Environment(name.clone());
                    let origin = if is_so { environment } else { Origin::Program };
                    origins.insert(name.clone(), origin);
                }
            }
            AllocatorKind::Glibc => {
                for (name, text) in &self.environment {
                    let origin = Origin::Environment(name.clone());
                    if name == TUNABLES {
                        let parts = text.split(':').filter_map(|part| part.split_once('='));
                        let own = parts.filter_map(|(name, _)| name.strip_prefix("glibc.malloc."));
                        own.for_each(|name| drop(origins.insert(name.to_owned(), origin.clone())));
                    }
                    origins.extend(short(name, "MALLOC_").map(|name| (name, origin)));
                }
            }
            AllocatorKind::Tcmalloc => origins.extend(self.with_prefix("TCMALLOC_")),
            AllocatorKind::Mimalloc => origins.extend(self.with_prefix("MIMALLOC_")),
            // It reads no environment.
            AllocatorKind::Mallocng => {}
        }
        origins
    }

    /// The settings that have a variable each.
    fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (String, Origin)> {
        self.environment.iter().filter_map(move |(name, _)| {
            Some((short(name, prefix)?, Origin::Environment(name.clone())))
        })
    }
}

/// The name of a setting that has a variable of its own: `arena_max` of `MALLOC_ARENA_MAX`.
fn short(name: &str, prefix: &str) -> Option<String> {
    Some(name.strip_prefix(prefix)?.trim_matches('_').to_lowercase())
}

/// Whether a variable's text gives this value: the program can have set another one since.
fn agrees(text: &str, value: &Value) -> bool {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0), ("", 0)];
    let number = units.iter().find_map(|(unit, shift)| {
        let number: i64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(1 << shift)
    });
    match value {
        Value::Number(own) => number == Some(*own),
        Value::Text(own) => own == text || (own == "off" && number.is_some_and(i64::is_negative)),
        Value::Flag(_) => false,
    }
}

/// The names in a list of settings: `narenas:4,dirty_decay_ms:0`.
fn names(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(',').filter_map(|part| Some(part.split_once(':')?.0.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_last_is_where_a_setting_comes_from() {
        let mut now = Statistics { allocator: AllocatorKind::Jemalloc, ..Statistics::default() };
        now.conf.insert("compiled", "prof:true,narenas:8".to_owned());
        let given = Given::parse(b"HOME=/\0_RJEM_MALLOC_CONF=narenas:4\0");
        let origins = given.origins(&now);
        assert_eq!(origins["prof"], Origin::CompiledIn);
        assert_eq!(origins["narenas"], Origin::Environment("_RJEM_MALLOC_CONF".to_owned()));
    }

    #[test]
    fn a_setting_of_go_that_has_another_value_is_the_programs() {
        let mut now = Statistics { allocator: AllocatorKind::Go, ..Statistics::default() };
        now.opt.insert("GOGC".to_owned(), Value::Number(50));
        now.opt.insert("GOMEMLIMIT".to_owned(), Value::Number(2 << 30));
        let origins = Given::parse(b"GOGC=100\0GOMEMLIMIT=2GiB\0GOMAXPROCS=2\0").origins(&now);
        assert_eq!(origins["GOGC"], Origin::Program);
        assert_eq!(origins["GOMEMLIMIT"], Origin::Environment("GOMEMLIMIT".to_owned()));
        assert!(agrees("off", &Value::Text("off".to_owned())) && !agrees("x", &Value::Number(0)));
    }

    #[test]
    fn variables_of_another_allocator_are_no_origins() {
        let given = Given::parse(b"MIMALLOC_VERBOSE=1\0TCMALLOC_RELEASE_RATE=1\0");
        let names = |allocator| {
            let now = Statistics { allocator, ..Statistics::default() };
            given.origins(&now).into_keys().collect::<Vec<_>>()
        };
        assert_eq!(names(AllocatorKind::Mimalloc), ["verbose"]);
        assert_eq!(names(AllocatorKind::Tcmalloc), ["release_rate"]);
        assert!(
            names(AllocatorKind::Mallocng).is_empty() && names(AllocatorKind::Glibc).is_empty()
        );
    }

    #[test]
    fn tunables_of_glibc_are_taken_apart() {
        let now = Statistics { allocator: AllocatorKind::Glibc, ..Statistics::default() };
        let text =
            b"GLIBC_TUNABLES=glibc.malloc.arena_max=2:glibc.cpu.x=1\0MALLOC_TRIM_THRESHOLD_=9\0";
        let origins = Given::parse(text).origins(&now);
        assert_eq!(origins.keys().collect::<Vec<_>>(), ["arena_max", "trim_threshold"]);
    }
}
