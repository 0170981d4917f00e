//! Files that are there whole or not at all, whatever ends this process: written under another name, then renamed.
//!
//! The other name is that of no file that a reader looks for, and says which process writes it, so that what a process
//! that was killed left can be told from what is being written.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::output_file::{Readers, begin_anew};

/// How the names of files that are not whole yet end.
const END: &str = ".unfinished";

/// The name of a file in this folder until it is whole; each is another one.
pub fn spare(folder: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    folder.join(format!(".{}-{count}{END}", process::id()))
}

/// Writes a file, which takes the place of one of that name. Until it is whole it is in the folder `until`, which is of
/// the same file system.
///
/// # Errors
/// With its name, and why it could not be.
pub fn write(
    path: &Path,
    until: &Path,
    readers: Readers,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), String> {
    let spare = spare(until);
    let put = || -> io::Result<()> {
        let mut out = BufWriter::new(begin_anew(&spare, readers)?);
        fill(&mut out)?;
        out.flush()?;
        // A machine that stops has the name before the bytes else.
        out.get_ref().sync_data()?;
        fs::rename(&spare, path)
    };
    put().map_err(|error| {
        let _ = fs::remove_file(&spare);
        format!("{} cannot be written: {error}", path.display())
    })
}

/// Removes what processes that are gone have not finished in a folder.
pub fn remove_unfinished(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let writer = name.to_str().and_then(writer);
        if writer.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Who writes it.
fn writer(name: &str) -> Option<u32> {
    // What comes after that is for those who tell the form of a file by its end.
    let (before, _) = name.strip_prefix('.')?.split_once(END)?;
    before.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use heapattach_test_folder::Folder;

    use super::*;

    #[test]
    fn a_file_takes_the_place_of_another_when_it_is_whole() {
        let folder = Folder::new("whole-file");
        let (path, read) = (folder.0.join("a"), |path: &Path| fs::read_to_string(path).unwrap());
        write(&path, &folder.0, Readers::Owner, |out| out.write_all(b"one")).unwrap();
        write(&path, &folder.0, Readers::Owner, |out| {
            out.write_all(b"two")?;
            assert_eq!(read(&path), "one");
            Ok(())
        })
        .unwrap();
        assert_eq!(read(&path), "two");
        let full = |out: &mut dyn Write| {
            out.write_all(b"thr")?;
            Err(io::Error::other("no room"))
        };
        let told = write(&path, &folder.0, Readers::Owner, full).unwrap_err();
        assert!(told.ends_with("/a cannot be written: no room"), "{told}");
        assert_eq!((read(&path), fs::read_dir(&folder.0).unwrap().count()), ("two".to_owned(), 1));
    }

    #[test]
    fn what_is_being_written_stays_and_what_a_killed_process_left_goes() {
        let folder = Folder::new("unfinished");
        // No process has such a number.
        let left = folder.0.join(format!(".{}-0{END}", u32::MAX));
        let (ours, other) = (spare(&folder.0), folder.0.join(".notes"));
        [&left, &ours, &other].into_iter().for_each(|path| fs::write(path, "x").unwrap());
        remove_unfinished(&folder.0);
        assert!(!left.exists() && ours.exists() && other.exists());
        assert_ne!(spare(&folder.0), ours);
    }
}
