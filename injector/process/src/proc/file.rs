//! A file of the target, opened safely: under its own root, regular, of bounded size, and the very
//! file that is mapped.

use std::{
    ffi::OsStr,
    fs::File,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            fs::{FileExt, MetadataExt},
        },
    },
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    sys::stat::{major, makedev},
};

use super::{Process, build_id::BuildId, errno_of, maps::Mapping, regular, sections::Sections};

/// Larger modules (debug builds of browsers) are read only in part by those who need symbols.
const FILE_LIMIT: u64 = 2 << 30;

/// Opens the file behind `mapping`: by the kernel's own link to it, if we may follow those. Else by its
/// name, as long as that leads to the file that is mapped.
///
/// # Errors
/// `ESTALE` if the path now names another file and the mapped one cannot be had; `EWOULDBLOCK` if a
/// process has a write lease on it.
pub fn open_module(process: &Process, mapping: &Mapping<'_>) -> Result<File, Errno> {
    let (start, end) = (mapping.range.start.get(), mapping.range.end.get());
    match process.open_mapped(start, end) {
        Ok(exact) => return checked(exact),
        // It is the file, and by its name it would be the same.
        Err(Errno::EWOULDBLOCK) => return Err(Errno::EWOULDBLOCK),
        Err(_) => {}
    }
    let file = open_in_root(process, mapping.file().ok_or(Errno::ESTALE)?)?;
    if is_likely_mapped(&file, mapping)? { Ok(file) } else { Err(Errno::ESTALE) }
}

/// The same, if it still is the build that is `loaded`: files are written over in place. Where the
/// memory names no build, device and inode must both be those of the mapping.
///
/// # Errors
/// As [`open_module`]; `ESTALE` if it is, or may be, another build.
pub fn open_build(
    process: &Process,
    mapping: &Mapping<'_>,
    loaded: Option<&BuildId>,
) -> Result<File, Errno> {
    let file = open_module(process, mapping)?;
    let is_it = match loaded {
        Some(loaded) => BuildId::of_file(&file).as_ref() == Some(loaded),
        None => is_mapped(&file, mapping)?,
    };
    if is_it { Ok(file) } else { Err(Errno::ESTALE) }
}

fn is_mapped(file: &File, mapping: &Mapping<'_>) -> Result<bool, Errno> {
    let found = file.metadata().map_err(errno_of)?;
    let (major, minor) = mapping.device;
    Ok(found.ino() == mapping.inode && found.dev() == makedev(major.into(), minor.into()))
}

/// The same, but for the numbers of file systems without a device: btrfs and overlayfs have others in
/// the memory map than for one that asks for the file.
fn is_likely_mapped(file: &File, mapping: &Mapping<'_>) -> Result<bool, Errno> {
    let found = file.metadata().map_err(errno_of)?;
    let are_without_device = mapping.device.0 == 0 && major(found.dev()) == 0;
    Ok(is_mapped(file, mapping)? || (found.ino() == mapping.inode && are_without_device))
}

/// Parts that are read into memory, together: a file of zeros costs its owner nothing.
const READ_LIMIT: u64 = 512 << 20;

/// Reads a whole module file, but for debug information: that stays zeros, which take no memory.
///
/// # Errors
/// As [`open_module`]; `EFBIG` beyond the limit.
pub fn read_module(process: &Process, mapping: &Mapping<'_>) -> Result<Vec<u8>, Errno> {
    let file = open_module(process, mapping)?;
    let length = file.metadata().map_err(errno_of)?.len();
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| Errno::EFBIG)?];
    let idle = Sections::read(&file).map_or_else(Vec::new, |sections| sections.idle());
    let (mut at, mut read) = (0, 0);
    for gap in idle.into_iter().chain(std::iter::once(length..length)) {
        let end = gap.start.min(length);
        if at < end {
            read += end - at;
            if read > READ_LIMIT {
                return Err(Errno::EFBIG);
            }
            let piece = usize::try_from(at).ok().zip(usize::try_from(end).ok());
            let piece = piece.and_then(|(from, to)| bytes.get_mut(from..to));
            file.read_exact_at(piece.ok_or(Errno::EFBIG)?, at).map_err(errno_of)?;
        }
        at = at.max(gap.end.min(length));
    }
    Ok(bytes)
}

/// Opens a file under the target's root.
///
/// # Errors
/// As openat2(2); `EINVAL` if it is no regular file, `EFBIG` if it is too large.
pub fn open_in_root(process: &Process, path: &Path) -> Result<File, Errno> {
    checked(regular::open_held(hold_in(&process.open_root()?, path)?)?)
}

/// Takes hold of a file below `root`, without opening it. An absolute link below `/proc/PID/root`
/// would lead into our own root, hence `RESOLVE_IN_ROOT`.
///
/// # Errors
/// As openat2(2).
pub fn hold_in(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let path = path.as_os_str().as_bytes().strip_prefix(b"/").unwrap_or_default();
    openat2(root, Path::new(OsStr::from_bytes(path)), how)
}

fn checked(file: File) -> Result<File, Errno> {
    let length = file.metadata().map_err(errno_of)?.len();
    if length > FILE_LIMIT { Err(Errno::EFBIG) } else { Ok(file) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::maps;

    /// Asks for the file of this very process, as if its memory said this.
    fn open_own(
        change: impl Fn(&mut Mapping<'_>),
        loaded: Option<&BuildId>,
    ) -> Result<File, Errno> {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let text = process.read("maps").unwrap();
        let path = std::env::current_exe().unwrap();
        let mut maps = maps::parse(&text).unwrap();
        let mapping = maps.iter_mut().find(|m| m.file() == Some(&path)).unwrap();
        change(mapping);
        open_build(&process, mapping, loaded)
    }

    #[test]
    fn a_file_is_read_but_for_its_debug_information() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let text = process.read("maps").unwrap();
        let path = std::env::current_exe().unwrap();
        let maps = maps::parse(&text).unwrap();
        let mapping = maps.iter().find(|m| m.file() == Some(&path)).unwrap();
        let (read, whole) =
            (read_module(&process, mapping).unwrap(), std::fs::read(&path).unwrap());
        assert_eq!(read.len(), whole.len());
        let file = File::open(&path).unwrap();
        let idle = Sections::read(&file).unwrap().idle();
        assert!(!idle.is_empty(), "tests are built with debug information");
        let is_idle = |at: usize| idle.iter().any(|range| range.contains(&(at as u64)));
        let differs = |at: &usize| read[*at] != whole[*at];
        assert!((0..read.len()).filter(differs).all(is_idle));
        assert!((0..read.len()).any(|at| differs(&at)), "it was read whole");
    }

    #[test]
    fn a_file_is_opened_if_it_is_the_build_that_is_loaded() {
        let own = File::open(std::env::current_exe().unwrap()).unwrap();
        let own = BuildId::of_file(&own).expect("linkers give build ids");
        assert!(open_own(|_| (), Some(&own)).is_ok());
        let other = BuildId::new(&[1; 20]).unwrap();
        assert_eq!(open_own(|_| (), Some(&other)).unwrap_err(), Errno::ESTALE);
    }

    #[test]
    fn without_a_build_the_device_must_be_the_same_too() {
        assert!(open_own(|_| (), None).is_ok());
        let other_device = |mapping: &mut Mapping<'_>| mapping.device.0 ^= 1;
        assert_eq!(open_own(other_device, None).unwrap_err(), Errno::ESTALE);
        let other_inode = |mapping: &mut Mapping<'_>| mapping.inode ^= 1;
        assert_eq!(open_own(other_inode, None).unwrap_err(), Errno::ESTALE);
    }
}
