//! `HEAPPROFILE` and its kin, by which gperftools' heap profiler is switched on and told when to dump.

use super::{Said, prefix};

/// When it dumps, if it is not told: each time so much was allocated, or is in use beyond what was most.
const ALLOCATED: u64 = 1 << 30;
const IN_USE: u64 = 100 << 20;

/// Of the kin, what has no counterpart if it is true.
const UNKNOWN: [&str; 2] = ["HEAP_PROFILE_ONLY_MMAP", "HEAP_PROFILE_MMAP_LOG"];

/// What the variables say; nothing, unless the profiler is switched on.
pub(super) fn read(value: &impl Fn(&str) -> Option<String>) -> Option<Said> {
    let variable = "HEAPPROFILE";
    let path = value(variable)?;
    let mut said = Said { variable, ..Said::default() };
    // It records every block.
    said.ask("all", None);
    said.ask("output-prefix", prefix(&path));
    let mut number =
        |name: &'static str, usual: u64| match value(name).map(|text| text.trim().parse()) {
            None => (usual > 0).then_some(usual),
            Some(Ok(0)) => None,
            Some(Ok(number)) => Some(number),
            Some(Err(_)) => {
                said.untaken.push(format!("{name}={}", value(name).unwrap_or_default()));
                (usual > 0).then_some(usual)
            }
        };
    let allocated = number("HEAP_PROFILE_ALLOCATION_INTERVAL", ALLOCATED);
    let in_use = number("HEAP_PROFILE_INUSE_INTERVAL", IN_USE);
    let seconds = number("HEAP_PROFILE_TIME_INTERVAL", 0);
    if let Some(bytes) = allocated {
        said.ask("dump-every-allocated", format!("{bytes}B"));
    }
    if let Some(bytes) = in_use {
        said.ask("dump-on-growth", format!("{bytes}B"));
    }
    if let Some(seconds) = seconds {
        said.ask("snapshot-every", format!("{seconds}s"));
    }
    let is_true = |text: &String| matches!(text.chars().next(), Some('t' | 'T' | 'y' | 'Y' | '1'));
    let unknown = UNKNOWN.iter().filter_map(|name| Some((name, value(name).filter(is_true)?)));
    said.untaken.extend(unknown.map(|(name, value)| format!("{name}={value}")));
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(environment: &[(&str, &str)]) -> Option<(Vec<String>, Vec<String>)> {
        let value = |name: &str| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let said = read(&value)?;
        let word = |asked: crate::config_file::Asked| match asked.values.first() {
            Some(value) => format!("--{}={value}", asked.option),
            None => format!("--{}", asked.option),
        };
        Some((said.options.into_iter().map(word).collect(), said.untaken))
    }

    #[test]
    fn it_dumps_as_gperftools_does_if_it_is_not_told_otherwise() {
        assert_eq!(options(&[("HEAP_PROFILE_INUSE_INTERVAL", "5")]), None);
        let (taken, untaken) = options(&[("HEAPPROFILE", "/tmp/h")]).unwrap();
        let expected = [
            "--all",
            "--output-prefix=/tmp/h",
            "--dump-every-allocated=1073741824B",
            "--dump-on-growth=104857600B",
        ];
        assert_eq!((&*taken, untaken.len()), (&expected.map(str::to_owned)[..], 0));
    }

    #[test]
    fn its_intervals_are_taken_and_nonsense_is_told() {
        let (taken, untaken) = options(&[
            ("HEAPPROFILE", "h"),
            ("HEAP_PROFILE_ALLOCATION_INTERVAL", "0"),
            ("HEAP_PROFILE_INUSE_INTERVAL", "x"),
            ("HEAP_PROFILE_TIME_INTERVAL", "10"),
            ("HEAP_PROFILE_MMAP", "true"),
            ("HEAP_PROFILE_ONLY_MMAP", "true"),
        ])
        .unwrap();
        assert_eq!(taken[2..], ["--dump-on-growth=104857600B", "--snapshot-every=10s"]);
        assert_eq!(untaken, ["HEAP_PROFILE_INUSE_INTERVAL=x", "HEAP_PROFILE_ONLY_MMAP=true"]);
    }
}
