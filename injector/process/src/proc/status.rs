//! `/proc/<pid>/status` and the fields of `/proc/<pid>/task/<tid>/stat` we need. Pure.

/// What the kernel says of a process or thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Its short name, as bytes made printable.
    pub name: String,
    /// The letter behind `State:`.
    pub state: char,
    /// The process this thread belongs to.
    pub tgid: i32,
    /// That process as it knows itself, which may live in a namespace of its own.
    pub own_tgid: i32,
    /// Its parent.
    pub parent: i32,
    /// The process that traces it, or 0.
    pub tracer: i32,
    /// Real user id.
    pub uid: u32,
    /// 0 none, 1 strict, 2 filter.
    pub seccomp: u32,
    /// Effective capabilities.
    pub capabilities: u64,
    /// How many threads its process has; a dead one counts until its end is taken in.
    pub threads: usize,
    /// Whether it has memory of its own (kernel threads have none).
    pub has_memory: bool,
}

impl Status {
    /// Reads what it knows and ignores the rest: new kernels add lines.
    pub fn parse(text: &[u8]) -> Self {
        let mut status = Self { state: '?', ..Self::default() };
        for line in text.split(|&b| b == b'\n') {
            let Some(colon) = line.iter().position(|&b| b == b':') else { continue };
            let value = String::from_utf8_lossy(line[colon + 1..].trim_ascii());
            let first = value.split_ascii_whitespace().next().unwrap_or_default();
            match &line[..colon] {
                b"Name" => status.name = value.escape_debug().to_string(),
                b"State" => status.state = first.chars().next().unwrap_or('?'),
                b"Tgid" => status.tgid = first.parse().unwrap_or(0),
                b"NStgid" => {
                    let own = value.split_ascii_whitespace().next_back().unwrap_or_default();
                    status.own_tgid = own.parse().unwrap_or(0);
                }
                b"PPid" => status.parent = first.parse().unwrap_or(0),
                b"TracerPid" => status.tracer = first.parse().unwrap_or(0),
                b"Uid" => status.uid = first.parse().unwrap_or(0),
                b"Seccomp" => status.seccomp = first.parse().unwrap_or(0),
                b"CapEff" => status.capabilities = u64::from_str_radix(first, 16).unwrap_or(0),
                b"Threads" => status.threads = first.parse().unwrap_or(0),
                b"VmSize" => status.has_memory = true,
                _ => {}
            }
        }
        status
    }

    /// Dead, and only waiting for its parent.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Fields of a `stat` line, numbered as in proc(5), from 3 on: field 2 is a name that may hold
/// spaces and brackets, so they are counted from its last bracket.
pub fn stat_field(text: &[u8], number: usize) -> Option<&str> {
    let after = text.iter().rposition(|&b| b == b')')? + 1;
    let fields = str::from_utf8(text.get(after..)?).ok()?;
    fields.split_ascii_whitespace().nth(number.checked_sub(3)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_lines_it_knows() {
        let text =
            b"Name:\tmy app\nState:\tZ (zombie)\nTgid:\t12\nTracerPid:\t7\nUid:\t33\t33\t33\t33\n\
                     Seccomp:\t2\nVmSize:\t 100 kB\nThreads:\t3\n";
        let status = Status::parse(text);
        assert_eq!((status.name.as_str(), status.tgid, status.tracer), ("my app", 12, 7));
        assert_eq!((status.uid, status.seccomp, status.has_memory), (33, 2, true));
        assert!(status.is_zombie());
        assert_eq!(status.threads, 3);
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        assert_eq!(stat_field(b"12 (a) b) S 1 2", 3), Some("S"));
        assert_eq!(stat_field(b"12 (a) b) S 1 2", 4), Some("1"));
        assert_eq!(stat_field(b"no bracket", 3), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_give_a_status(bytes: Vec<u8>, field in 0usize..60) {
            let _ = Status::parse(&bytes);
            let _ = stat_field(&bytes, field);
        }
    }
}
