//! Writes to memory that no page fault tells of: what devices and rings of the kernel put there by themselves. With any
//! of it a copy that is made while the process runs could miss something.

use heapattach_process::proc::{
    Process,
    maps::{self, Mapping},
};

/// More descriptors are not looked through.
const MOST_DESCRIPTORS: usize = 4096;
/// Of `open(2)`, in octal as the kernel tells it: reads go past its cache, right to their memory.
const DIRECT: u64 = 0o40000;

/// Why writes to the memory of a process may go unseen, in words.
pub fn unseen_writes(process: &Process) -> Option<String> {
    if let Some(pinned) = pinned(process) {
        return Some(format!("{pinned} KiB of it are pinned for a device or the kernel"));
    }
    let text = process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).unwrap_or_default();
    if let Some(label) = maps.iter().find_map(by_device) {
        return Some(format!("{label} is mapped, which may write to its memory by itself"));
    }
    let descriptors = process.descriptors();
    if descriptors.len() > MOST_DESCRIPTORS {
        return Some(format!(
            "it has {} descriptors, and {MOST_DESCRIPTORS} are looked through for direct reads",
            descriptors.len()
        ));
    }
    descriptors.into_iter().find_map(|(number, link)| match link.as_encoded_bytes() {
        b"anon_inode:[io_uring]" => Some("it has an io_uring".to_owned()),
        [b'/', ..] if is_direct(process, number) => {
            Some(format!("its descriptor {number} reads past the cache of files (O_DIRECT)"))
        }
        _ => None,
    })
}

/// In KiB.
fn pinned(process: &Process) -> Option<u64> {
    let text = process.read("status").ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("VmPin:"))?;
    line.split_whitespace().next()?.parse().ok().filter(|&kib| kib > 0)
}

fn by_device(mapping: &Mapping<'_>) -> Option<String> {
    let label = mapping.label().to_string_lossy();
    let is_memory = ["/dev/zero", "/dev/shm/", "/dev/hugepages/", "/dev/null"];
    let is_device = label.starts_with("/dev/") && !is_memory.iter().any(|m| label.starts_with(m));
    (is_device || label.starts_with("/[aio]")).then(|| label.escape_debug().to_string())
}

fn is_direct(process: &Process, number: u64) -> bool {
    let told = process.read(&format!("fdinfo/{number}")).unwrap_or_default();
    let told = String::from_utf8_lossy(&told);
    let flags = told.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & DIRECT != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn direct_reads_are_found() {
        let own = Process::open(std::process::id().cast_signed()).unwrap();
        assert_eq!(unseen_writes(&own), None);
        let path = std::env::temp_dir().join(format!("direct-{}", std::process::id()));
        std::fs::write(&path, [1; 4096]).unwrap();
        let flags = i32::try_from(DIRECT).unwrap();
        let direct = std::fs::File::options().read(true).custom_flags(flags).open(&path);
        // Some file systems refuse it.
        if let Ok(direct) = direct {
            let why = unseen_writes(&own).unwrap();
            assert!(why.contains("O_DIRECT"), "{why}");
            drop(direct);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
