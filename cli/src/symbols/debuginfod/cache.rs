//! The folder in which all debuginfod clients of a user keep what they fetched.
//!
//! Whoever wrote there, nothing is taken out of it but a regular file of the build asked for.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use heapattach_injector::proc::build_id::BuildId;

use crate::symbols::{
    debug_file::has_build_id,
    elf::{Elf, Source},
    root::Root,
};

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
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = folder.join(format!("{NAME}.heapattach-{process}-{number}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Part { file, path, whole: folder.join(NAME) })
    }
}

const NAME: &str = "debuginfo";

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
    use crate::symbols::folder::Folder;

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

        // Another build's file, a link that leads out, and a pipe that nobody writes to.
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
