//! What `/proc` says of each process that could be meant.

use heapattach_process::proc::status::Status;

use heapattach_text::printable::printable;

/// A command line that is longer is cut.
const COMMAND: usize = 60;

/// A process.
#[derive(Clone, Debug, Default)]
pub struct Candidate {
    /// Its process id in our pid namespace.
    pub pid: i32,
    /// Its parent.
    pub parent: i32,
    /// Its number in its own namespace, if that is another one.
    pub inside: Option<i32>,
    /// The kernel's short name for it.
    pub short_name: String,
    /// The last part of what it was called with, and of the file it runs.
    pub names: Vec<String>,
    /// `/proc/PID/cgroup`.
    pub cgroups: String,
    /// Bytes in memory.
    pub resident: u64,
    /// Its command line, printable.
    pub command: String,
}

/// All that have memory of their own and can be read.
pub fn all() -> impl Iterator<Item = Candidate> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?))
}

fn read(pid: i32) -> Option<Candidate> {
    let file = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).ok();
    let status = file("status")?;
    let known = Status::parse(&status);
    if !known.has_memory || known.is_zombie() {
        return None;
    }
    let line = file("cmdline").unwrap_or_default();
    let called = line.split(|&byte| byte == 0).next().unwrap_or_default();
    let runs = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let runs = runs.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let words = String::from_utf8_lossy(&line).replace('\0', " ");
    Some(Candidate {
        pid,
        parent: known.parent,
        inside: number(&status, b"NSpid:")
            .filter(|&inside| inside != i64::from(pid))
            .and_then(|n| n.try_into().ok()),
        names: [last_part(&String::from_utf8_lossy(called)), runs].into_iter().flatten().collect(),
        cgroups: String::from_utf8_lossy(&file("cgroup").unwrap_or_default()).into_owned(),
        resident: number(&status, b"VmRSS:").map_or(0, |kib| kib.unsigned_abs() << 10),
        command: printable(&words.trim().chars().take(COMMAND).collect::<String>()),
        short_name: known.name,
    })
}

fn last_part(path: &str) -> Option<String> {
    path.rsplit('/').next().filter(|part| !part.is_empty()).map(str::to_owned)
}

/// The last number of a line of `status`, a unit behind it aside.
fn number(status: &[u8], name: &[u8]) -> Option<i64> {
    let line = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name))?;
    let line = str::from_utf8(line).ok()?;
    line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there_as_it_is() {
        let own = i32::try_from(std::process::id()).unwrap();
        let found = all().find(|one| one.pid == own).unwrap();
        let file = std::env::current_exe().unwrap();
        let file = file.file_name().unwrap().to_str().unwrap();
        assert!(found.names.iter().any(|name| name == file), "{found:?}");
        assert!(found.resident > 0 && found.parent > 0);
    }

    #[test]
    fn the_innermost_number_is_the_last() {
        assert_eq!(number(b"Pid:\t9\nNSpid:\t9\t4\t1\n", b"NSpid:"), Some(1));
        assert_eq!(number(b"VmRSS:\t  123 kB\n", b"VmRSS:"), Some(123));
        assert_eq!(number(b"VmRSS:\tmuch\n", b"VmRSS:"), None);
    }
}
