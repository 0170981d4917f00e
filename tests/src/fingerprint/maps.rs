//! The memory map, as far as a fingerprint needs it.

use std::{collections::BTreeMap, fs, io, path::Path};

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// As in `r-xp`.
    pub access: String,
    /// Where in the file it starts.
    pub offset: u64,
    /// Device and inode of the file.
    pub file: String,
    /// The file, or the kernel's name for it in brackets, or nothing.
    pub path: String,
}

impl Mapping {
    /// Whether the process may run code here.
    pub fn is_executable(&self) -> bool {
        self.access.as_bytes().get(2) == Some(&b'x')
    }

    /// Whether a file's content is mapped here.
    pub fn is_of_file(&self) -> bool {
        self.path.starts_with('/')
    }

    /// Whether only a patcher ever changes its bytes.
    pub fn is_immutable(&self) -> bool {
        let readable = self.access.starts_with('r');
        let writable = self.access.as_bytes().get(1) == Some(&b'w');
        // The vsyscall page lies in the kernel's half, where `mem` does not reach; the kernel writes
        // the page of its probes all the time.
        let is_kernels = self.path == "[vsyscall]" || self.path == "[uprobes]";
        !is_kernels && !writable && (self.is_executable() || readable && self.is_of_file())
    }

    /// Whether it is memory a program gets and gives back as it runs.
    pub fn is_working_memory(&self) -> bool {
        let private = self.access.ends_with('p') && !self.is_executable();
        let plain =
            self.path.is_empty() || self.path == "[heap]" || self.path.starts_with("[stack");
        private && plain && self.access != "r--p"
    }

    /// As a person would name it.
    pub fn describe(&self) -> String {
        let Self { start, end, access, offset, path, .. } = self;
        let path = if path.is_empty() { "anonymous" } else { path };
        format!("{start:x}-{end:x} {access} {offset:x} {path}")
    }
}

/// Reads the map of a task, by start address.
pub(super) fn read(task: &Path) -> io::Result<BTreeMap<u64, Mapping>> {
    let text = fs::read(task.join("maps"))?;
    let text = String::from_utf8_lossy(&text);
    let parsed = text.lines().map(|line| parse(line).map(|m| (m.start, m)));
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "a line of the map is not understood");
    parsed.collect::<Option<_>>().ok_or_else(bad)
}

fn parse(line: &str) -> Option<Mapping> {
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    let mut columns = line.splitn(6, ' ');
    let (start, end) = columns.next()?.split_once('-')?;
    let access = columns.next()?.to_owned();
    let offset = hex(columns.next()?)?;
    let file = format!("{} {}", columns.next()?, columns.next()?);
    let path = columns.next().unwrap_or_default().trim_start().to_owned();
    Some(Mapping { start: hex(start)?, end: hex(end)?, access, offset, file, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_text_from_working_memory() {
        let text = parse("1000-2000 r-xp 00000400 08:02 7    /opt/my app/a.so").unwrap();
        assert_eq!((text.path.as_str(), text.offset), ("/opt/my app/a.so", 0x400));
        assert!(text.is_immutable() && !text.is_working_memory());
        let heap = parse("2000-3000 rw-p 00000000 00:00 0    [heap]").unwrap();
        assert!(heap.is_working_memory() && !heap.is_immutable());
        let shared = parse("2000-3000 rw-s 00000000 00:01 9  /memfd:x (deleted)").unwrap();
        assert!(!shared.is_working_memory());
    }
}
