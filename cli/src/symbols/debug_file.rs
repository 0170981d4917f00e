//! Where distributions put the debug information they strip from a module.
//!
//! Only a file with the module's build id is taken: a wrong line is worse than none. Hence none is
//! found for modules without one, and the checksum in `.gnu_debuglink` is of no use to us.

use std::{
    ffi::OsStr,
    fmt::Write,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use object::Object;

use super::{
    elf::{Elf, Source},
    root::Root,
};

/// Twenty bytes are usual.
const BUILD_ID_LIMIT: usize = 64;

/// The debug file of the module `elf` at `path`, looked for below each of the roots.
pub fn find<'r>(
    elf: &Elf<'_>,
    path: &Path,
    roots: impl Iterator<Item = &'r Root> + Clone,
) -> Option<Source> {
    let id = elf.build_id().ok()??;
    let link = elf.gnu_debuglink().ok().flatten().map(|(name, _)| name);
    let candidates = candidates(id, link, path);
    let open = |candidate: &PathBuf| {
        let found = roots.clone().filter_map(|root| Source::new(root.open(candidate)?));
        found.into_iter().find(|source| has_build_id(source, id))
    };
    candidates.iter().find_map(open)
}

fn has_build_id(source: &Source, id: &[u8]) -> bool {
    source.elf().is_some_and(|elf| elf.build_id().is_ok_and(|found| found == Some(id)))
}

/// In gdb's order.
fn candidates(id: &[u8], link: Option<&[u8]>, path: &Path) -> Vec<PathBuf> {
    let mut candidates = Vec::new();
    if let Some((first, rest)) = id.split_first()
        && !rest.is_empty()
        && id.len() <= BUILD_ID_LIMIT
    {
        let mut file = format!("/usr/lib/debug/.build-id/{first:02x}/");
        for byte in rest {
            // Writing to a string cannot fail.
            let _ = write!(file, "{byte:02x}");
        }
        candidates.push(PathBuf::from(file + ".debug"));
    }
    // The name is the file's own word: one component, or it could lead anywhere.
    let name = link.filter(|name| !name.is_empty() && !name.contains(&b'/') && *name != b"..");
    if let (Some(name), Some(folder)) = (name.map(OsStr::from_bytes), path.parent()) {
        candidates.push(folder.join(name));
        candidates.push(folder.join(".debug").join(name));
        if let Ok(below) = folder.strip_prefix("/") {
            candidates.push(Path::new("/usr/lib/debug").join(below).join(name));
        }
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_where_distributions_put_them() {
        let found = candidates(&[0xab, 0x01, 0x02], Some(b"a.debug"), Path::new("/opt/x/a.so"));
        let expected = [
            "/usr/lib/debug/.build-id/ab/0102.debug",
            "/opt/x/a.debug",
            "/opt/x/.debug/a.debug",
            "/usr/lib/debug/opt/x/a.debug",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_link_cannot_leave_its_folder() {
        for link in [&b"../../etc/shadow"[..], b"..", b"", b"/etc/shadow"] {
            assert!(candidates(&[1], Some(link), Path::new("/opt/a.so")).is_empty());
        }
    }
}
