//! The file that is mapped, not the one that bears its name now: packages are upgraded under
//! running programs, and a name out of another build is worse than none.

use std::{ffi::OsStr, fs::File, os::unix::ffi::OsStrExt, os::unix::fs::MetadataExt, path::Path};

use heapattach_process::proc::{Process, build_id::BuildId, maps::Mapping};
use nix::sys::stat::makedev;

use crate::files::root::Root;

/// The path, as it was before the file was deleted.
pub fn path<'a>(mapping: &Mapping<'a>) -> &'a Path {
    let label = mapping.label().as_bytes();
    Path::new(OsStr::from_bytes(label.strip_suffix(b" (deleted)").unwrap_or(label)))
}

/// What the target's memory itself says of the build that `mapping` is a part of.
pub fn loaded(memory: &File, maps: &[Mapping<'_>], mapping: &Mapping<'_>) -> Option<BuildId> {
    let at = maps.partition_point(|other| other.range.start < mapping.range.start);
    let parts = maps.get(..=at)?.iter().rev();
    let of_module = |other: &&Mapping<'_>| {
        (other.inode, other.label()) == (mapping.inode, mapping.label()) || other.inode == 0
    };
    let mut same = parts.take_while(of_module).filter(|other| other.inode != 0);
    let first = same.find(|other| other.file_offset == 0)?;
    let (start, end) = (first.range.start.get(), first.range.end.get());
    BuildId::at(memory, start, end.checked_sub(start)?)
}

/// Opens it.
pub fn open(
    process: &Process,
    root: Option<&Root>,
    mapping: &Mapping<'_>,
    loaded: Option<&BuildId>,
) -> Option<File> {
    let (start, end) = (mapping.range.start.get(), mapping.range.end.get());
    // The kernel leads to the very inode, but only those it trusts; and to another one where another
    // module has come to this place since.
    let exact = process.open_mapped(start, end).ok().filter(|file| is_build(file, loaded));
    exact.or_else(|| by_name(process, root, mapping, loaded))
}

fn by_name(
    process: &Process,
    root: Option<&Root>,
    mapping: &Mapping<'_>,
    loaded: Option<&BuildId>,
) -> Option<File> {
    let named = root.and_then(|root| root.open(path(mapping)));
    let program = || process.open_program().ok();
    let candidates = named.into_iter().chain(std::iter::from_fn(program).take(1));
    candidates.into_iter().find(|file| is_it(file, mapping, loaded))
}

/// Whether the file still is this build, as far as that is known: it may be written over in place.
pub fn is_build(file: &File, loaded: Option<&BuildId>) -> bool {
    loaded.is_none() || BuildId::of_file(file).as_ref() == loaded
}

/// Whether this is the file that was mapped, or as good as that.
fn is_it(file: &File, mapping: &Mapping<'_>, loaded: Option<&BuildId>) -> bool {
    if loaded.is_some() {
        return is_build(file, loaded);
    }
    // No build to compare, or we may not look. The device makes it sure; where file systems tell
    // two stories of it there are no names.
    file.metadata().is_ok_and(|found| {
        let (major, minor) = mapping.device;
        found.ino() == mapping.inode && found.dev() == makedev(major.into(), minor.into())
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use heapattach_process::proc::maps;

    use super::*;
    use crate::tests::folder::Folder;
    use crate::{Frame, Symbols};

    /// A program that does nothing, with one function of this name, as `program` in a folder.
    fn build(folder: &Folder, function: &str, flags: &str) {
        // GNU ld makes the build id of what is loaded: names are not part of it.
        let number = i32::from(function.starts_with("new"));
        let source = format!(
            "#include <stdio.h>\n#include <unistd.h>\nint {function}(void) {{ return {number}; }}\n\
             int main(void) {{ puts(\"ready\"); fflush(stdout); pause(); return {function}(); }}\n"
        );
        std::fs::write(folder.0.join("program.c"), source).unwrap();
        folder.run(&format!("gcc -no-pie -Wl,--build-id={flags} -o program program.c"));
    }

    struct Running(Child);

    impl Running {
        fn start(folder: &Folder) -> Self {
            let mut command = Command::new(folder.0.join("program"));
            let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
            let mut word = [0; 6];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut word).unwrap();
            Self(child)
        }

        fn process(&self) -> Process {
            Process::open(self.0.id().cast_signed()).unwrap()
        }

        fn symbolize(&self, address: u64) -> Vec<Frame> {
            let mut symbols = Symbols::new();
            let text = self.process().read("maps").unwrap();
            symbols.note(&self.process(), &maps::parse(&text).unwrap());
            symbols.symbolize(address)
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A running `program` whose file is then replaced by another build, and where its function is.
    fn replaced(name: &str, build_id: &str) -> (Folder, Running, u64) {
        let folder = Folder::new(name);
        build(&folder, "old_one", build_id);
        let at = folder.offset_of("program", "old_one");
        let running = Running::start(&folder);
        assert_eq!(running.symbolize(at)[0].function.as_deref(), Some("old_one"));
        folder.run("mv program before");
        build(&folder, "new_one", build_id);
        assert_eq!(folder.offset_of("program", "new_one"), at, "the test would prove nothing");
        folder.run("rm before");
        (folder, running, at)
    }

    #[test]
    fn a_replaced_program_keeps_its_own_names() {
        for build_id in ["sha1", "none"] {
            let (_folder, running, at) = replaced("replaced", build_id);
            assert_eq!(running.symbolize(at)[0].function.as_deref(), Some("old_one"));
        }
    }

    #[test]
    fn without_the_right_to_the_inode_the_path_is_not_believed() {
        for build_id in ["sha1", "none"] {
            let (folder, running, at) = replaced("unprivileged", build_id);
            let (process, root) = (running.process(), Root::own());
            let text = process.read("maps").unwrap();
            let maps = maps::parse(&text).unwrap();
            let covers =
                |m: &&Mapping<'_>| m.range.contains(&heapattach_process::addr::RemoteAddr::new(at));
            let mapping = maps.iter().find(covers).unwrap();
            let loaded = loaded(&process.open_memory().unwrap(), &maps, mapping);
            assert_eq!(loaded.is_some(), build_id == "sha1");
            let new = File::open(folder.0.join("program")).unwrap();
            assert!(!is_it(&new, mapping, loaded.as_ref()));
            // `/proc/PID/exe` is what is left.
            let old = by_name(&process, root.as_ref(), mapping, loaded.as_ref()).unwrap();
            assert_eq!(old.metadata().unwrap().ino(), mapping.inode);
        }
    }

    #[test]
    fn a_copy_of_the_same_build_is_as_good() {
        let folder = Folder::new("copied");
        build(&folder, "old_one", "sha1");
        let running = Running::start(&folder);
        folder.run("cp program copy");
        folder.run("mv copy program");
        let process = running.process();
        let text = process.read("maps").unwrap();
        let maps = maps::parse(&text).unwrap();
        let mapping = maps.iter().find(|m| m.executable && m.inode != 0).unwrap();
        let loaded = loaded(&process.open_memory().unwrap(), &maps, mapping);
        let file = File::open(folder.0.join("program")).unwrap();
        assert!(is_it(&file, mapping, loaded.as_ref()));
        assert!(!is_it(&file, mapping, None), "another inode");
    }
}
