//! Whether a process still writes to a recording. Files tell nothing of that: all open ones are looked at.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// Whether a process has this file open to write to it; `None` if that cannot be known: there are processes
/// of others that may.
pub fn is_there(path: &Path) -> Option<bool> {
    let about = fs::metadata(path).ok()?;
    let wanted = (about.dev(), about.ino());
    let own = std::process::id().to_string();
    let mut all_seen = true;
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let name = process.file_name();
        let is_process = name.to_string_lossy().bytes().all(|byte| byte.is_ascii_digit());
        if !is_process || name == own.as_str() {
            continue;
        }
        // One that is gone, or of the kernel, has none.
        let Ok(files) = fs::read_dir(process.path().join("fd")) else {
            all_seen &= fs::symlink_metadata(process.path().join("exe")).is_err()
                || fs::read_link(process.path().join("exe")).is_ok();
            continue;
        };
        let has_it = |file: &fs::DirEntry| {
            let is_same = fs::metadata(file.path()).is_ok_and(|it| (it.dev(), it.ino()) == wanted);
            is_same && writes(&process.path().join("fdinfo").join(file.file_name()))
        };
        if files.flatten().any(|file| has_it(&file)) {
            return Some(true);
        }
    }
    all_seen.then_some(false)
}

/// Whether a descriptor is for writing: the last two bits of its flags, which are told in octal.
fn writes(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & 3 != 0)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        process::{Command, Stdio},
    };

    use super::*;
    use heapattach_test_folder::Folder;

    #[test]
    fn a_file_has_a_writer_as_long_as_a_process_has_it_open_for_writing() {
        let folder = Folder::new("writer");
        let path = folder.0.join("a");
        let start = |file: File| {
            // It ends when what it reads does.
            Command::new("cat").stdin(Stdio::piped()).stdout(file).spawn().unwrap()
        };
        let mut writer = start(File::create(&path).unwrap());
        assert_eq!(is_there(&path), Some(true));
        drop(writer.stdin.take());
        writer.wait().unwrap();
        assert_ne!(is_there(&path), Some(true));
        let mut reader = start(File::open(&path).unwrap());
        assert_ne!(is_there(&path), Some(true), "it only reads");
        drop(reader.stdin.take());
        reader.wait().unwrap();
    }
}
