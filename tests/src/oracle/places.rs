//! Addresses as people can look them up: module and offset, by a memory map.

use std::{fs, ops::Range, path::Path};

/// The files of a process that it may execute, and where.
#[derive(Clone, Debug, Default)]
pub struct Places {
    mappings: Vec<Mapping>,
}

#[derive(Clone, Debug)]
struct Mapping {
    range: Range<u64>,
    /// Where the module begins.
    base: u64,
    executable: bool,
    name: String,
}

impl Places {
    /// By the map in this file.
    ///
    /// # Errors
    /// Why there is none.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text).ok_or_else(|| format!("{} is no memory map", path.display()))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut mappings: Vec<Mapping> = Vec::new();
        for line in text.lines() {
            let mut columns = line.splitn(6, ' ');
            let (start, end) = columns.next()?.split_once('-')?;
            let [start, end] = [start, end].map(|digits| u64::from_str_radix(digits, 16).ok());
            let (start, end) = (start?, end?);
            let executable = columns.next()?.as_bytes().get(2) == Some(&b'x');
            let offset = u64::from_str_radix(columns.next()?, 16).ok()?;
            let path = columns.nth(2).unwrap_or_default().trim_start();
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let same = |last: &&Mapping| !name.is_empty() && last.name == name && offset != 0;
            let base = mappings.last().filter(same).map_or(start, |last| last.base);
            mappings.push(Mapping { range: start..end, base, executable, name });
        }
        (!mappings.is_empty()).then_some(Self { mappings })
    }

    fn mapping(&self, at: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| mapping.range.contains(&at))
    }

    /// The module whose code lies there.
    #[must_use]
    pub fn module(&self, at: u64) -> Option<&str> {
        let mapping = self.mapping(at).filter(|m| m.executable && !m.name.is_empty())?;
        Some(&mapping.name)
    }

    /// `libc.so.6+0x2724a`, or what is known.
    #[must_use]
    pub fn name(&self, at: u64) -> String {
        match self.mapping(at) {
            None => format!("unmapped {at:#x}"),
            Some(mapping) if mapping.name.is_empty() => format!("nameless {at:#x}"),
            Some(mapping) => format!("{}+{:#x}", mapping.name, at - mapping.base),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_from_where_the_module_begins() {
        let map = "1000-2000 r--p 00000000 08:02 7    /lib/a b.so\n\
                   2000-3000 r-xp 00000800 08:02 7    /lib/a b.so\n\
                   5000-6000 r-xp 00000000 00:00 0\n\
                   7000-8000 r-xp 00000000 00:00 0    [vdso]\n";
        let places = Places::parse(map).unwrap();
        assert_eq!(
            (places.name(0x2010), places.module(0x2010)),
            ("a b.so+0x1010".into(), Some("a b.so"))
        );
        assert_eq!((places.name(0x5010), places.module(0x5010)), ("nameless 0x5010".into(), None));
        assert_eq!((places.name(0x9000), places.module(0x1010)), ("unmapped 0x9000".into(), None));
        assert_eq!(places.module(0x7fff), Some("[vdso]"));
        assert!(Places::parse("").is_none() && Places::parse("x\n").is_none());
    }
}
