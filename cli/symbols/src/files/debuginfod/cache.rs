//! The folder in which all debuginfod clients of a user keep what they fetched.
//!
//! Other processes write there, so only a regular file of the build asked for is taken out of it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use heapattach_process::proc::build_id::BuildId;
use nix::unistd::Uid;

use crate::files::{
    debug_file::has_build_id,
    elf::{Elf, Source},
    root::Root,
};
use heapattach_files::named_file::{Place, Use, find, is_shared};

/// The folder.
#[derive(Debug)]
pub struct Cache(PathBuf);

impl Cache {
    /// The one at this path; it is made when first needed.
    pub fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The debug information of a build, if it is there.
    pub fn open(&self, id: &BuildId) -> Option<File> {
        is_ours(&self.0).ok()?;
        let open = || Root::at(&self.0)?.open(&Path::new("/").join(id.to_string()).join(NAME));
        Source::new(open()?).filter(|source| has_build_id(source, id))?;
        // Not the same one: others may read it at the same time, and a file has one position.
        open()
    }

    /// Begins to write the debug information of a build.
    ///
    /// # Errors
    /// Those of mkdir(2) and open(2).
    pub fn begin(&self, id: &BuildId) -> io::Result<Part> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let folder = self.0.join(id.to_string());
        may_begin(&self.0)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        is_ours(&self.0)?;
        is_ours(&folder)?;
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = folder.join(format!("{NAME}.heapattach-{process}-{number}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Part { file, path, whole: folder.join(NAME) })
    }
}

const NAME: &str = "debuginfo";

/// Whether folders may be made here, before one is: they would be made where a link leads, too.
fn may_begin(folder: &Path) -> io::Result<()> {
    let mut all = folder.ancestors().filter(|path| !path.as_os_str().is_empty());
    let Some(there) = all.find(|path| path.symlink_metadata().is_ok()) else { return Ok(()) };
    // In a sticky folder another user cannot replace what we make.
    let is_sticky = fs::metadata(there)?.permissions().mode() & 0o1000 != 0;
    if there != folder && is_sticky { find(there, Use::Write).map(|_| ()) } else { is_ours(there) }
}

/// Whether only we (or root) decide what is in this folder, and where its name leads. Names of
/// code would be what another user says, and files would be written where that user wants them.
fn is_ours(folder: &Path) -> io::Result<()> {
    let refuse = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    let folder_stat = match find(folder, Use::Write)? {
        Place::Named(found) => found.file.map(|(_, stat)| stat),
        Place::Own(_) => None,
    };
    let Some(stat) = folder_stat else { return Err(io::ErrorKind::NotFound.into()) };
    if stat.st_uid != Uid::effective().as_raw() && stat.st_uid != 0 {
        return refuse(format!("it is a folder of user {}, not of yours", stat.st_uid));
    }
    if is_shared(&stat) {
        return refuse("all users can write to it".to_owned());
    }
    Ok(())
}

/// A file that is being written; gone unless it is kept.
#[derive(Debug)]
pub struct Part {
    file: File,
    path: PathBuf,
    whole: PathBuf,
}

impl Part {
    /// Adds to it.
    ///
    /// # Errors
    /// Those of write(2).
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// The build it is of; `None` if it is not even a whole ELF file.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn build(&self) -> io::Result<Option<Option<BuildId>>> {
        let source = Source::new(File::open(&self.path)?);
        let build = |elf: Elf<'_>| BuildId::new(object::Object::build_id(&elf).ok()??);
        Ok(source.as_ref().and_then(|source| source.elf().map(build)))
    }

    /// Puts it where every client finds it.
    ///
    /// # Errors
    /// Those of chmod(2) and rename(2).
    pub fn keep(self) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(0o400))?;
        fs::rename(&self.path, &self.whole)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // One that was kept bears this name no more.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::folder::Folder;

    #[test]
    fn debuginfod_cache_of_another_user_is_not_used() {
        if !Uid::effective().is_root() {
            return crate::skip("only root can give files away", "run the tests as root");
        }
        let folder = Folder::new("cache-other");
        let (theirs, ours) = (folder.0.join("theirs"), folder.0.join("ours"));
        let id = BuildId::new(&[1, 2, 3]).unwrap();
        fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::lchown(&theirs, Some(65534), None).unwrap();
        assert!(Cache::at(theirs.clone()).begin(&id).is_err());
        fs::create_dir(&ours).unwrap();
        let below = ours.join(id.to_string());
        std::os::unix::fs::symlink(&folder.0, &below).unwrap();
        std::os::unix::fs::lchown(&below, Some(65534), None).unwrap();
        assert!(Cache::at(ours.clone()).begin(&id).is_err(), "a link of another user");
        fs::remove_file(&below).unwrap();
        fs::set_permissions(&ours, Permissions::from_mode(0o777)).unwrap();
        assert!(Cache::at(ours.clone()).begin(&id).is_err(), "all users can write to it");
        fs::set_permissions(&ours, Permissions::from_mode(0o755)).unwrap();
        assert!(Cache::at(ours).begin(&id).is_ok());
    }

    /// Root by sudo, with the home of the user who called it.
    #[test]
    fn debuginfod_cache_is_not_begun_where_a_link_of_another_user_leads() {
        if !Uid::effective().is_root() {
            return crate::tests::folder::skip(
                "only root can give files away",
                "run the tests as root",
            );
        }
        let folder = Folder::new("cache-link");
        let (home, precious) = (folder.0.join("home"), folder.0.join("precious"));
        let id = BuildId::new(&[1, 2, 3]).unwrap();
        [&home, &precious].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        std::os::unix::fs::symlink(&precious, home.join(".cache")).unwrap();
        for path in [&home, &home.join(".cache")] {
            std::os::unix::fs::lchown(path, Some(65534), None).unwrap();
        }
        for cache in [home.join(".cache/debuginfod_client"), home.join("new/debuginfod_client")] {
            assert!(Cache::at(cache.clone()).begin(&id).is_err(), "{}", cache.display());
        }
        assert_eq!(fs::read_dir(&precious).unwrap().count(), 0, "something was made there");
        assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "something was made there");
    }

    #[test]
    fn debuginfod_cache_gives_nothing_but_what_was_asked_for() {
        let folder = Folder::new("cache");
        let cache = Cache::at(folder.0.join("deep/below"));
        let own = std::env::current_exe().unwrap();
        let id = BuildId::of_file(&File::open(&own).unwrap()).unwrap();
        let other = BuildId::new(&[1, 2, 3]).unwrap();
        assert!(cache.open(&id).is_none());
        let mut part = cache.begin(&id).unwrap();
        part.write(&fs::read(&own).unwrap()).unwrap();
        assert_eq!(part.build().unwrap(), Some(Some(id.clone())));
        assert!(cache.open(&id).is_none(), "it is not whole yet");
        part.keep().unwrap();
        assert!(cache.open(&id).is_some() && cache.open(&other).is_none());
        let mode = |path: &str| {
            let path = cache.path().join(id.to_string()).join(path);
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode("."), mode("debuginfo")), (0o700, 0o400));

        // What was begun and not kept leaves nothing.
        drop(cache.begin(&id).unwrap());
        assert_eq!(fs::read_dir(cache.path().join(id.to_string())).unwrap().count(), 1);

        // Another build's file, a link that leads out, and a pipe that no process writes to.
        let name = cache.path().join(other.to_string());
        fs::create_dir(&name).unwrap();
        for make in ["cp -f", "ln -sf", "mkfifo"] {
            let _ = fs::remove_file(name.join("debuginfo"));
            let from = if make == "mkfifo" { String::new() } else { format!("{} ", own.display()) };
            folder.run(&format!("{make} {from}{}", name.join("debuginfo").display()));
            assert!(cache.open(&other).is_none(), "{make}");
        }
        let own_id = cache.path().join(id.to_string()).join("debuginfo");
        fs::remove_file(&own_id).unwrap();
        std::os::unix::fs::symlink(&own, &own_id).unwrap();
        assert!(cache.open(&id).is_none(), "the link leads out of the cache");
    }
}
