//! How much of each mapping is in memory, as `/proc/<pid>/smaps` tells it. No I/O here.

/// A mapping's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Where the mapping begins.
    pub start: u64,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in swap.
    pub swapped: u64,
}

/// All of them, in the order of the file. What no kernel writes is passed over.
pub fn parse(text: &[u8]) -> Vec<Usage> {
    let mut all: Vec<Usage> = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        match line.first() {
            Some(b'0'..=b'9' | b'a'..=b'f') => {
                let start = line.split(|&byte| byte == b'-').next().unwrap_or_default();
                let start = str::from_utf8(start).ok();
                let start = start.and_then(|digits| u64::from_str_radix(digits, 16).ok());
                all.extend(start.map(|start| Usage { start, ..Usage::default() }));
            }
            Some(b'R' | b'S') => {
                let Some(last) = all.last_mut() else { continue };
                if let Some(bytes) = field(line, b"Rss:") {
                    last.resident = bytes;
                } else if let Some(bytes) = field(line, b"Swap:") {
                    last.swapped = bytes;
                }
            }
            _ => {}
        }
    }
    all
}

/// The value of a line of this name, in bytes.
fn field(line: &[u8], name: &[u8]) -> Option<u64> {
    let rest = str::from_utf8(line.strip_prefix(name)?).ok()?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mapping_has_its_bytes() {
        let text = b"55d0c2a3f000-55d0c2a60000 rw-p 00000000 00:00 0   [heap]\n\
            Size:                132 kB\nRss:                  16 kB\nPss:                  16 kB\n\
            Swap:                  4 kB\nSwapPss:               4 kB\n\
            7f00-8000 r--p 0 0:0 0\nRss: 8 kB\n";
        let usage = |start, resident, swapped| Usage { start, resident, swapped };
        assert_eq!(parse(text), [usage(0x55d0_c2a3_f000, 16384, 4096), usage(0x7f00, 8192, 0)]);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_give_a_list(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
