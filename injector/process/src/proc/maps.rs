//! The target's memory map, as `/proc/<pid>/maps` tells it.
//!
//! No I/O here: the caller reads the file, with the target stopped (the kernel drops its lock
//! between two `read(2)` calls), and hands the bytes to [`parse`].

use std::{ffi::OsStr, ops::Range, os::unix::ffi::OsStrExt, path::Path};

use crate::addr::RemoteAddr;

/// One line of the map.
#[derive(Debug)]
pub struct Mapping<'a> {
    /// Half-open, as the kernel prints it.
    pub range: Range<RemoteAddr>,
    /// Whether the target may read here.
    pub readable: bool,
    /// Whether the target may write here.
    pub writable: bool,
    /// Whether the target may jump here.
    pub executable: bool,
    /// Whether what is written here is seen by others.
    pub shared: bool,
    /// Where in the file `range.start` lies; 0 for anonymous memory.
    pub file_offset: u64,
    /// Major and minor number of the device the file is on. Some file systems (btrfs) tell another
    /// one to stat(2).
    pub device: (u32, u32),
    /// Inode of the mapped file; 0 for anonymous memory.
    pub inode: u64,
    label: &'a OsStr,
}

/// A line that no kernel we know of writes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the memory map has no valid {field}")]
pub struct MapsError {
    line: usize,
    field: &'static str,
}

impl<'a> Mapping<'a> {
    /// The mapped file, if there is one and it still bears that name.
    pub fn file(&self) -> Option<&'a Path> {
        // An unlinked library stays mapped, but its old path may now name another build, whose
        // symbols would be wrong. Wrong is worse than none.
        let label = self.label.as_bytes();
        let live = label.starts_with(b"/") && !label.ends_with(b" (deleted)");
        live.then(|| Path::new(self.label))
    }

    /// What the kernel calls it: a path, `[stack]`, or nothing.
    pub fn label(&self) -> &'a OsStr {
        self.label
    }

    /// Private memory in huge pages, which the kernel shows as a file of its own.
    pub fn is_huge(&self) -> bool {
        !self.shared && self.label.as_bytes().starts_with(b"/anon_hugepage")
    }

    /// No file behind it and no name given by the kernel.
    pub fn is_anonymous(&self) -> bool {
        self.inode == 0 && (self.label.is_empty() || self.label.as_bytes().starts_with(b"[anon"))
    }
}

/// Parses a whole map; stops at the first line it cannot understand.
pub fn parse(text: &[u8]) -> Result<Vec<Mapping<'_>>, MapsError> {
    let lines = text.split(|&b| b == b'\n').enumerate().filter(|(_, l)| !l.is_empty());
    lines.map(|(i, l)| parse_line(l).map_err(|field| MapsError { line: i + 1, field })).collect()
}

/// The line that covers `address`, in a list sorted as the kernel sorts it.
pub fn covering<'m, 'a>(maps: &'m [Mapping<'a>], address: RemoteAddr) -> Option<&'m Mapping<'a>> {
    let index = maps.partition_point(|m| m.range.end <= address);
    maps.get(index).filter(|m| m.range.contains(&address))
}

fn parse_line(line: &[u8]) -> Result<Mapping<'_>, &'static str> {
    let hex = |digits, field| hex(digits).ok_or(field);
    // Six columns; the last alone may hold spaces, so `splitn`.
    let mut columns = line.splitn(6, |&b| b == b' ');
    let mut next = |field| columns.next().ok_or(field);
    let range = next("range")?;
    let dash = range.iter().position(|&b| b == b'-').ok_or("range")?;
    let (start, end) = (hex(&range[..dash], "start")?, hex(&range[dash + 1..], "end")?);
    let permissions = next("permissions")?;
    let permission = |at| permissions.get(at).ok_or("permissions");
    let (readable, shared) = (*permission(0)? == b'r', *permission(3)? == b's');
    let (writable, executable) = (*permission(1)? == b'w', *permission(2)? == b'x');
    let file_offset = hex(next("offset")?, "offset")?;
    let device = next("device")?;
    let colon = device.iter().position(|&b| b == b':').ok_or("device")?;
    let number = |digits| hex(digits, "device")?.try_into().map_err(|_| "device");
    let device = (number(&device[..colon])?, number(&device[colon + 1..])?);
    let inode = str::from_utf8(next("inode")?).ok().and_then(|d| d.parse().ok()).ok_or("inode")?;
    let label = OsStr::from_bytes(columns.next().unwrap_or_default().trim_ascii_start());
    let range = RemoteAddr::new(start)..RemoteAddr::new(end);
    Ok(Mapping { range, readable, writable, executable, shared, file_offset, device, inode, label })
}

/// A number as the kernel writes it. Maps of thousands of lines are read while their process stands.
fn hex(digits: &[u8]) -> Option<u64> {
    if !(1..=16).contains(&digits.len()) {
        return None;
    }
    let digit = |&digit: &u8| char::from(digit).to_digit(16).map(u64::from);
    digits.iter().try_fold(0, |number, byte| Some(number << 4 | digit(byte)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_spaces_in_paths_and_refuses_deleted_files() {
        let map = b"1000-2000 r-xp 00000400 08:02 7    /opt/my app/a.so\n\
                    2000-3000 rw-p 00000000 08:02 8    /opt/b.so (deleted)\n";
        let [a, b] = &parse(map).unwrap()[..] else { panic!("two lines, two mappings") };
        assert_eq!((a.file(), a.file_offset), (Some(Path::new("/opt/my app/a.so")), 0x400));
        assert_eq!((a.device, a.inode), ((8, 2), 7));
        assert_eq!((b.file(), b.executable, b.writable), (None, false, true));
    }

    #[test]
    fn names_the_line_and_the_column_that_failed() {
        let error = parse(b"1000-2000 r-xp 0 0:0 0\n1000+2000 r-xp 0 0:0 0\n").unwrap_err();
        assert_eq!(error, MapsError { line: 2, field: "range" });
    }

    #[test]
    fn finds_the_line_that_covers_an_address() {
        let maps = parse(b"1000-2000 r-xp 0 0:0 0\n3000-4000 rw-p 0 0:0 0\n").unwrap();
        let at = |n| covering(&maps, RemoteAddr::new(n)).map(|m| m.range.start.get());
        assert_eq!(
            (at(0x1fff), at(0x2000), at(0x3000), at(0x4000)),
            (Some(0x1000), None, Some(0x3000), None)
        );
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for number in [0, 9, 0xa, 0x10, 0x7fff_1234_5678_9abc, u64::MAX] {
            assert_eq!(hex(format!("{number:x}").as_bytes()), Some(number));
            assert_eq!(hex(format!("{number:016x}").as_bytes()), Some(number));
        }
        for text in ["", "g", "1_0", "+1", "-1", " 1", "10000000000000000", "\u{e9}"] {
            assert_eq!(hex(text.as_bytes()), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_give_a_map_or_an_error(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
