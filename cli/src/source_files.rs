//! Source files beside a recording, for the lines that a page shows.
//!
//! Their names come from the program that was looked at: only regular files are opened, none that is large,
//! and none is waited for.

use std::{
    io::Read,
    path::Path,
    time::{Duration, SystemTime},
};

use heapattach_export::html::SourceFile;
use heapattach_files::input::regular;

/// A larger file is generated, and of no use as source.
const LIMIT: u64 = 2 << 20;

/// Reads a file of that name; `began` is when the session did, in seconds since 1970.
pub fn read(name: &str, began: u64) -> Option<SourceFile> {
    let file = regular(Path::new(name)).ok()?;
    let about = file.metadata().ok()?;
    let mut text = String::new();
    let length = file.take(LIMIT + 1).read_to_string(&mut text).ok()? as u64;
    let began = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(began))?;
    let is_newer = about.modified().is_ok_and(|changed| changed > began);
    (length <= LIMIT).then_some(SourceFile { text, is_newer })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use heapattach_test_folder::Folder;

    #[test]
    fn a_file_is_read_with_whether_it_was_changed_since() {
        let folder = Folder::new("source");
        let path = folder.0.join("a.c");
        let name = path.to_str().unwrap();
        assert!(read(name, 0).is_none());
        fs::write(&path, "int main;\n").unwrap();
        let told = read(name, 1_000_000).unwrap();
        assert_eq!((told.text.as_str(), told.is_newer), ("int main;\n", true));
        assert!(!read(name, 40_000_000_000).unwrap().is_newer);
        fs::write(&path, vec![b' '; 3 << 20]).unwrap();
        assert!(read(name, 0).is_none());
        fs::write(&path, [0xff, 0xfe, 0]).unwrap();
        assert!(read(name, 0).is_none());
        assert!(read("/dev/zero", 0).is_none() && read("/", 0).is_none());
    }
}
