//! Names of generated code: what Java, Node.js, Python and others write to `/tmp/perf-PID.map`.
//!
//! It is in the target's own file tree and under its own number there. Any user may put a file into
//! `/tmp`, so only one of the target's user or of root is read, as perf does.

use std::{
    fs::File,
    io::Read,
    ops::Range,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use heapattach_process::proc::Process;

use crate::files::root::Root;
use crate::{latest::Latest, printable::printable};
use heapattach_text::quantity;

/// What is beyond is not read. The largest are some ten megabytes.
const SIZE_LIMIT: u64 = 128 << 20;
/// Nor are more lines.
const LINES_LIMIT: usize = 1 << 20;

/// Clocks of the kernel differ by that: it counts hundredths of a second for processes, and notes
/// when files are written with the time of its last tick.
const CLOCKS: Duration = Duration::from_millis(100);

/// Where the map of a process is, and whose it must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    path: PathBuf,
    /// Real and effective user.
    owners: Vec<u32>,
    /// When the process began, and when it was first looked at.
    began: Option<SystemTime>,
    noted: Option<SystemTime>,
}

impl Place {
    /// To be asked while the process lives.
    pub fn of(process: &Process) -> Option<Self> {
        let place = Self::from_status(&String::from_utf8_lossy(&process.read("status").ok()?))?;
        let now = SystemTime::now();
        let began = process.running_for().and_then(|time| now.checked_sub(time));
        Some(Self { began, noted: Some(now), ..place })
    }

    fn from_status(status: &str) -> Option<Self> {
        let values = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
            line.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok())
        };
        // The innermost namespace comes last.
        let pid = values("NSpid:").next_back().or_else(|| values("Pid:").next())?;
        let owners = values("Uid:").take(2).chain([0]).collect();
        let path = Path::new("/tmp").join(format!("perf-{pid}.map"));
        Some(Self { path, owners, ..Self::default() })
    }
}

/// Functions by address; the latest line counts: code is thrown away and its place used again.
#[derive(Debug, Default)]
pub struct PerfMap {
    functions: Latest<(usize, usize)>,
    text: Vec<u8>,
    /// What is to be known of its age.
    pub note: Option<String>,
}

impl PerfMap {
    /// Reads the map at `place` below `root`; empty if there is none, or none of this process.
    pub fn read(root: &Root, place: &Place) -> Self {
        let open = || {
            let file = root.open(&place.path)?;
            let found = file.metadata().ok()?;
            let written = found.modified().ok();
            place.owners.contains(&found.uid()).then_some((file, written))
        };
        let Some((file, written)) = open() else { return Self::default() };
        let path = printable(&place.path.to_string_lossy());
        let earlier = |than: Option<SystemTime>| than?.duration_since(written? + CLOCKS).ok();
        if let Some(earlier) = earlier(place.began) {
            let earlier = quantity::time(earlier);
            let note = format!(
                "names of generated code: {path} was last written {earlier} before the process \
                 began, so it is of an earlier process and not used"
            );
            return Self { note: Some(note), ..Self::default() };
        }
        let note = earlier(place.noted).map(|earlier| {
            let earlier = quantity::time(earlier);
            format!(
                "names of generated code: {path} was last written {earlier} before the session; code \
                 generated since has no name, or that of what was there before"
            )
        });
        Self { note, ..Self::of(file) }
    }

    fn of(file: File) -> Self {
        let mut text = Vec::new();
        // What was read before an error counts: it may be written to just now.
        let _ = file.take(SIZE_LIMIT).read_to_end(&mut text);
        Self::parse(text)
    }

    fn parse(text: Vec<u8>) -> Self {
        let (mut functions, mut at) = (Latest::default(), 0);
        for line in text.split(|&byte| byte == b'\n').take(LINES_LIMIT) {
            if let Some((range, name)) = parse_line(line) {
                functions.insert(range, (at + name, at + line.len()));
            }
            at += line.len() + 1;
        }
        Self { functions, text, note: None }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The function at `address`.
    pub fn name(&self, address: u64) -> Option<String> {
        let (start, end) = *self.functions.find(address)?;
        let name = String::from_utf8_lossy(self.text.get(start..end)?);
        Some(printable(name.trim()))
    }
}

/// The range, and where in the line the name begins: `START SIZE NAME`, numbers in hexadecimal.
fn parse_line(line: &[u8]) -> Option<(Range<u64>, usize)> {
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let mut number = || {
        let digits = str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = words.next().filter(|name| !name.trim_ascii().is_empty())?;
    Some((start..start.checked_add(size)?, line.len() - name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::folder::Folder;

    #[test]
    fn the_latest_line_names_the_code_and_bad_lines_cost_nothing() {
        let text = "1000 100 Lapp/Main;::run\n\
            \n1000\n1000 zz name\n2000 10\n2000 10  \nffffffffffffffff 2 over\n\
            1000 10 LazyCompile:*run /opt/app.js:1:2\n\
            0x3000 0x10 py::run:/opt/a b.py\n\
            4000 10 evil\u{1b}[2J";
        let map = PerfMap::parse(text.into());
        let name = |at| map.name(at);
        assert_eq!(name(0x1000).as_deref(), Some("LazyCompile:*run /opt/app.js:1:2"));
        assert_eq!(name(0x1010).as_deref(), Some("Lapp/Main;::run"));
        assert_eq!(name(0x300f).as_deref(), Some("py::run:/opt/a b.py"));
        assert_eq!(name(0x4000).as_deref(), Some("evil\u{fffd}[2J"));
        for nowhere in [0, 0xfff, 0x1100, 0x2000, 0x3010, u64::MAX] {
            assert_eq!(name(nowhere), None);
        }
    }

    #[test]
    fn the_number_is_that_of_the_innermost_namespace() {
        let status = "Name:\tx\nPid:\t700\nUid:\t1\t2\t3\t4\nNSpid:\t700\t30\t1\n";
        let place = Place::from_status(status).unwrap();
        assert_eq!((place.path, place.owners), ("/tmp/perf-1.map".into(), vec![1, 2, 0]));
        assert_eq!(Place::from_status("Pid:\t7\n").unwrap().path, Path::new("/tmp/perf-7.map"));
        assert_eq!(Place::from_status(""), None);
    }

    #[test]
    fn a_map_of_a_stranger_is_not_read() {
        let folder = Folder::new("perf");
        let path = folder.0.join("perf.map");
        std::fs::write(&path, "1000 10 f\n").unwrap();
        let owners = vec![std::fs::metadata(&path).unwrap().uid()];
        let mut place = Place { owners, path, ..Place::default() };
        let root = Root::own().unwrap();
        assert_eq!(PerfMap::read(&root, &place).name(0x1000).as_deref(), Some("f"));
        place.owners = vec![4711];
        assert_eq!(PerfMap::read(&root, &place).name(0x1000), None);
        std::fs::remove_file(&place.path).unwrap();
        assert_eq!(PerfMap::read(&root, &place).name(0x1000), None);
    }

    #[test]
    fn a_map_that_is_older_than_the_process_is_not_used_and_an_old_one_is_said_to_be() {
        let folder = Folder::new("perf-old");
        let path = folder.0.join("perf.map");
        std::fs::write(&path, "1000 10 f\n").unwrap();
        let owners = vec![std::fs::metadata(&path).unwrap().uid()];
        let written = std::fs::metadata(&path).unwrap().modified().unwrap();
        let at = |seconds: u64| Some(written + Duration::from_secs(seconds));
        let root = Root::own().unwrap();
        let read = |began, noted| {
            let place = Place { path: path.clone(), owners: owners.clone(), began, noted };
            let map = PerfMap::read(&root, &place);
            (map.name(0x1000).is_some(), map.note.unwrap_or_default())
        };
        assert_eq!(read(at(0), at(0)), (true, String::new()));
        let (is_named, note) = read(at(0), at(60));
        assert!(is_named && note.contains("last written 59.9 s before the session"), "{note}");
        let (is_named, note) = read(at(60), at(61));
        assert!(!is_named && note.contains("before the process began"), "{note}");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, address: u64) {
            let _ = PerfMap::parse(bytes).name(address);
        }
    }
}
