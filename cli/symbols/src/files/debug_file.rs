//! Where distributions put the debug information they strip from a module.
//!
//! Only a file with the module's build id is taken: a wrong line is worse than none. Hence none is
//! found for modules without one, and the checksum in `.gnu_debuglink` is of no use to us.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use heapattach_process::proc::build_id::BuildId;
use object::Object;

use crate::files::elf::{Elf, Source};
use crate::files::surroundings::Surroundings;

/// The debug file of the module `elf`, looked for below each of the roots.
pub fn find(elf: &Elf<'_>, around: &Surroundings) -> Option<Source> {
    let id = BuildId::new(elf.build_id().ok()??)?;
    let link = elf.gnu_debuglink().ok().flatten().map(|(name, _)| name);
    first(&candidates(&id, link, &around.path), &id, around)
}

/// The file that holds what the debug files of one package have in common (dwz makes it).
pub fn find_common(elf: &Elf<'_>, around: &Surroundings) -> Option<Source> {
    let (link, id) = elf.gnu_debugaltlink().ok()??;
    let id = BuildId::new(id)?;
    first(&common_candidates(&id, link, &around.path), &id, around)
}

/// Whether a file says that a part of its debug information is in such a file.
pub fn has_common(source: &Source) -> bool {
    source.elf().is_some_and(|elf| elf.gnu_debugaltlink().is_ok_and(|link| link.is_some()))
}

/// The build whose debug information the module in `source` needs, if it is in no reach.
pub fn lacking(source: &Source, around: &Surroundings) -> Option<BuildId> {
    let elf = source.elf()?;
    let has_dwarf = |elf: &Elf<'_>| elf.section_by_name(".debug_info").is_some();
    let debug = if has_dwarf(&elf) { None } else { Some(find(&elf, around)) };
    let debug = match &debug {
        None => elf,
        Some(Some(debug)) => debug.elf()?,
        Some(None) => return BuildId::new(elf.build_id().ok()??),
    };
    let (_, common) = debug.gnu_debugaltlink().ok()??;
    if find_common(&debug, around).is_some() { None } else { BuildId::new(common) }
}

/// The first of the files that is of this build; the last place to look is what was fetched.
fn first(candidates: &[PathBuf], id: &BuildId, around: &Surroundings) -> Option<Source> {
    let places = candidates.iter().flat_map(|path| around.roots.iter().map(move |r| (r, path)));
    let files = places.filter_map(|(root, path)| root.open(path));
    let files = files.chain(std::iter::once_with(|| around.debuginfod.open(id)).flatten());
    files.filter_map(Source::new).find(|source| has_build_id(source, id))
}

fn common_candidates(id: &BuildId, link: &[u8], path: &Path) -> Vec<PathBuf> {
    let link = Path::new(OsStr::from_bytes(link));
    // It is relative to the debug file, whose path is not known here. All distributions have one
    // folder for these.
    let below = link.iter().skip_while(|part| *part != ".dwz");
    let common = Path::new("/usr/lib/debug").join(below.collect::<PathBuf>());
    let beside = path.parent().map(|folder| folder.join(link));
    [by_id(id), common].into_iter().chain(beside).collect()
}

fn by_id(id: &BuildId) -> PathBuf {
    let (folder, name) = id.split();
    format!("/usr/lib/debug/.build-id/{folder}/{name}.debug").into()
}

/// Whether it is of this build.
pub fn has_build_id(source: &Source, id: &BuildId) -> bool {
    let found = source.elf().and_then(|elf| BuildId::new(elf.build_id().ok()??));
    found.as_ref() == Some(id)
}

/// In gdb's order.
fn candidates(id: &BuildId, link: Option<&[u8]>, path: &Path) -> Vec<PathBuf> {
    let mut candidates = vec![by_id(id)];
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

    fn id(bytes: &[u8]) -> BuildId {
        BuildId::new(bytes).unwrap()
    }

    #[test]
    fn looks_where_distributions_put_them() {
        let found =
            candidates(&id(&[0xab, 0x01, 0x02]), Some(b"a.debug"), Path::new("/opt/x/a.so"));
        let expected = [
            "/usr/lib/debug/.build-id/ab/0102.debug",
            "/opt/x/a.debug",
            "/opt/x/.debug/a.debug",
            "/usr/lib/debug/opt/x/a.debug",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn what_a_package_has_in_common_is_looked_for_where_it_is_put() {
        let link = b"../../../.dwz/x86_64-linux-gnu/app.debug";
        let expected = [
            "/usr/lib/debug/.build-id/01/02.debug",
            "/usr/lib/debug/.dwz/x86_64-linux-gnu/app.debug",
            "/opt/../../../.dwz/x86_64-linux-gnu/app.debug",
        ];
        let found = common_candidates(&id(&[1, 2]), link, Path::new("/opt/a.so"));
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_link_cannot_leave_its_folder() {
        for link in [&b"../../etc/shadow"[..], b"..", b"", b"/etc/shadow"] {
            let found = candidates(&id(&[1, 2]), Some(link), Path::new("/opt/a.so"));
            assert_eq!(found, [PathBuf::from("/usr/lib/debug/.build-id/01/02.debug")]);
        }
    }
}
