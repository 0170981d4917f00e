//! The file of a recording: new, ours alone, and at the end of no link.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
};

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::RecordingError;
use crate::format::{block, disk::Disk};
use heapattach_files::output_file::{self, Readers};

/// How the names of all recordings end.
const ENDING: &str = "heapattach";
/// Letters of a process's name that are taken over.
const NAME_LIMIT: usize = 64;
/// So many sessions with one process leave files behind before the user has to clean up.
const SERIALS: u32 = 10_000;

/// Where a session is written to.
#[derive(Debug)]
pub struct Store {
    /// `None`: only this process can open it, and it is gone with this process.
    pub path: Option<PathBuf>,
    /// What is written to.
    pub file: File,
}

impl Store {
    /// A file without a name, in memory.
    ///
    /// # Errors
    /// No descriptor is left, or no memory.
    pub fn anonymous() -> io::Result<Self> {
        let file = File::from(memfd_create(c"heapattach-recording", MFdFlags::MFD_CLOEXEC)?);
        file.write(&block::title(), 0)?;
        Ok(Self { path: None, file })
    }

    /// The same for another process, or another thread.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn share(&self) -> io::Result<Self> {
        Ok(Self { path: self.path.clone(), file: self.file.try_clone()? })
    }
}

/// Creates the file that the user named, with its first line.
///
/// # Errors
/// One is there already, or the folder does not allow it.
pub fn create(path: &Path) -> Result<File, RecordingError> {
    let file = output_file::begin(path, Readers::Owner).map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => RecordingError::Exists(path.to_owned()),
        _ => RecordingError::File { path: path.to_owned(), what: "created", source },
    })?;
    // A disk that takes nothing is best noticed before the target is attached.
    file.write(&block::title(), 0).map_err(|source| {
        let _ = std::fs::remove_file(path);
        RecordingError::File { path: path.to_owned(), what: "written", source }
    })?;
    Ok(file)
}

/// The same, but a file that is there makes room for it, if it is to be overwritten.
///
/// # Errors
/// What creating a file gives.
pub fn create_named(path: &Path, overwrites: bool) -> Result<File, RecordingError> {
    if overwrites {
        let what = |source| RecordingError::File { path: path.to_owned(), what: "removed", source };
        output_file::make_room(path).map_err(what)?;
    }
    create(path)
}

/// Creates a file beside `path` that is to take its place, with a name that other users cannot foresee: who
/// may write to the folder could take a known one first.
///
/// # Errors
/// The folder does not allow it.
pub fn create_spare(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut random = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let name = path.with_file_name(format!(".{:032x}.new", u128::from_ne_bytes(random)));
    let error = |error| match error {
        RecordingError::File { what, source, .. } => {
            let what = format!("the file that replaces it cannot be {what}: {source}");
            io::Error::new(source.kind(), what)
        }
        other => io::Error::other(other.to_string()),
    };
    create(&name).map(|file| (name, file)).map_err(error)
}

/// Creates a file in the current folder, named after the process.
///
/// # Errors
/// The folder does not allow it.
pub fn create_for(name: &str, pid: i32) -> Result<(PathBuf, File), RecordingError> {
    create_numbered(Path::new(&format!("{}.{pid}", harmless(name))), ENDING)
}

/// Creates a file whose path begins so, named after the process.
///
/// # Errors
/// The folder does not allow it.
pub fn create_prefixed(prefix: &Path, pid: i32) -> Result<(PathBuf, File), RecordingError> {
    let mut base = prefix.as_os_str().to_owned();
    base.push(format!(".{pid}"));
    create_numbered(Path::new(&base), ENDING)
}

/// Creates a file beside `path`, named after it and the process.
///
/// # Errors
/// The folder does not allow it.
pub fn create_beside(path: &Path, pid: i32) -> Result<(PathBuf, File), RecordingError> {
    let mut base = path.with_extension("").into_os_string();
    base.push(format!(".{pid}"));
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or(ENDING);
    create_numbered(Path::new(&base), ending)
}

/// Names of earlier sessions are left alone.
fn create_numbered(base: &Path, ending: &str) -> Result<(PathBuf, File), RecordingError> {
    let name = |serial: String| {
        let mut name = base.as_os_str().to_owned();
        name.push(format!("{serial}.{ending}"));
        PathBuf::from(name)
    };
    let first = name(String::new());
    let more = (2..SERIALS).map(|serial| name(format!(".{serial}")));
    let mut refused = RecordingError::Exists(first.clone());
    for path in std::iter::once(first).chain(more) {
        match create(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error @ RecordingError::Exists(_)) => refused = error,
            Err(error) => return Err(error),
        }
    }
    Err(refused)
}

/// A process chooses its name; what becomes of it is no path, no option and nothing that a shell
/// does things for.
fn harmless(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || "_+-".contains(c) { c } else { '_' };
    let name: String = name.chars().take(NAME_LIMIT).map(letter).collect();
    let name = name.trim_start_matches(['-', '+']);
    if name.is_empty() { "process".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use heapattach_test_folder::Folder;

    #[test]
    fn a_hostile_name_is_made_harmless() {
        let names = ["redis-server", "../../etc/passwd", "-rf", "a b;$(c)\n", "", "...", "größe"];
        let expected =
            ["redis-server", "______etc_passwd", "rf", "a_b___c__", "process", "___", "gr__e"];
        assert_eq!(names.map(harmless), expected);
        assert_eq!(harmless(&"x".repeat(1000)).len(), NAME_LIMIT);
    }

    #[test]
    fn processes_of_one_session_have_files_side_by_side() {
        let folder = Folder::new("beside");
        let path = folder.0.join("server.heapattach");
        let names = [7, 7, 8].map(|pid| create_beside(&path, pid).unwrap().0);
        let expected = ["server.7.heapattach", "server.7.2.heapattach", "server.8.heapattach"];
        assert_eq!(names, expected.map(|name| folder.0.join(name)));
    }

    #[test]
    fn a_file_is_new_and_its_owners() {
        let folder = Folder::new("recording");
        let path = folder.0.join("a.heapattach");
        let file = create(&path).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = create(&path).unwrap_err();
        assert!(matches!(again, RecordingError::Exists(_)), "{again}");
        symlink(folder.0.join("elsewhere"), folder.0.join("link")).unwrap();
        assert!(create(&folder.0.join("link")).is_err());
        assert!(create(&folder.0.join("no/such/folder")).is_err());
        assert!(!folder.0.join("elsewhere").exists());
    }
}
