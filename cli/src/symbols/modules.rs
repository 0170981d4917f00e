//! Which file, and which place in it, an address of code belongs to, now or earlier.
//!
//! Files are opened when they are first seen mapped, since the target may be gone when names are
//! wanted, and read when the first name is. An open file also keeps its inode number from being
//! given to another.

use std::{
    collections::HashMap, ffi::OsString, fs::File, os::unix::ffi::OsStrExt, path::PathBuf,
    sync::Arc,
};

use heapattach_injector::proc::{Process, maps::Mapping};
use nix::sys::resource::{Resource, getrlimit};

use super::{
    build_id::BuildId, elf::Allowance, image::Image, latest::Latest, mapped_file,
    printable::printable, root::Root, split_dwarf::Surroundings,
};

/// No honest session sees more.
const PLACES_LIMIT: usize = 1 << 16;
/// Nor more different names.
const MODULES_LIMIT: usize = 1 << 16;
/// Nor more files that are open at once; half of what we may open, if that is less.
const FILES_LIMIT: u64 = 4096;

/// All code seen, the latest at each address.
#[derive(Debug, Default)]
pub struct Modules {
    places: Latest<Place>,
    modules: Vec<Module>,
    known: HashMap<Identity, usize>,
    open_files: u64,
    own_root: Option<Arc<Root>>,
    target_root: Option<Arc<Root>>,
    allowance: Allowance,
}

/// What tells two modules apart: a deleted file keeps its path here, and the path of a replaced one
/// may get the same inode again.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    path: OsString,
    device: (u32, u32),
    inode: u64,
    build_id: Option<BuildId>,
}

/// One module.
#[derive(Debug)]
pub struct Module {
    /// Its path, or what the kernel calls it.
    pub name: String,
    /// Its names, if its file could be read.
    pub image: Option<Image>,
    /// The build that is mapped, as far as known.
    pub build_id: Option<BuildId>,
    /// Its path before it was deleted; what the kernel calls it is none.
    pub path: PathBuf,
    /// How many addresses in it were looked up.
    pub asked: usize,
    file: Option<File>,
}

impl Module {
    /// What its names lack, if they do.
    pub fn lacks(&self) -> Option<&'static str> {
        self.image.as_ref().map_or(Some("its file cannot be had"), Image::lacks)
    }
}

/// Where a piece of a module is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    start: u64,
    /// Of the first byte.
    file_offset: u64,
    module: usize,
}

impl Modules {
    /// Notes what is mapped now; whether anything of it was new.
    pub fn note(&mut self, process: &Process, maps: &[Mapping<'_>]) -> bool {
        let mut news = false;
        let memory = process.open_memory().ok();
        for mapping in maps.iter().filter(|m| m.executable) {
            let build_id = memory.as_ref().filter(|_| mapping.inode != 0);
            let build_id = build_id.and_then(|memory| mapped_file::loaded(memory, maps, mapping));
            let Some(module) = self.module_of(process, mapping, build_id) else { continue };
            let range = mapping.range.start.get()..mapping.range.end.get();
            let anonymous = mapping.is_anonymous();
            // Of generated code only the address itself means anything, to perf maps for one.
            let file_offset = if anonymous { range.start } else { mapping.file_offset };
            let place = Place { start: range.start, file_offset, module };
            if !self.places.has(&range, &place) && self.places.len() < PLACES_LIMIT {
                self.places.insert(range, place);
                news = true;
            }
        }
        news
    }

    /// The module `address` belongs to, its file read if it was not yet, and the offset in that
    /// file.
    pub fn find(&mut self, address: u64) -> Option<(&Module, u64)> {
        let place = self.places.find(address)?;
        let file_offset = place.file_offset.checked_add(address - place.start)?;
        let module = self.modules.get_mut(place.module)?;
        module.asked += 1;
        if let Some(file) = module.file.take() {
            self.open_files -= 1;
            self.own_root = self.own_root.take().or_else(|| Root::own().map(Arc::new));
            let roots = self.target_root.iter().chain(&self.own_root).cloned().collect();
            let (path, allowance) = (module.path.clone(), self.allowance.clone());
            let around = Surroundings { path, roots, allowance };
            let is_it = mapped_file::is_build(&file, module.build_id.as_ref());
            let read = is_it.then(|| Image::read(file, &around));
            module.image = read.flatten();
            let found = || module.image.as_ref()?.build_id().cloned();
            module.build_id = module.build_id.take().or_else(found);
        }
        Some((module, file_offset))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Module> {
        self.modules.iter()
    }

    /// The file tree of the target.
    pub fn target_root(&self) -> Option<&Root> {
        self.target_root.as_deref()
    }

    fn module_of(
        &mut self,
        process: &Process,
        mapping: &Mapping<'_>,
        build_id: Option<BuildId>,
    ) -> Option<usize> {
        let path = mapped_file::path(mapping);
        let (device, inode) = (mapping.device, mapping.inode);
        let identity = Identity { path: path.into(), device, inode, build_id };
        if let Some(&known) = self.known.get(&identity) {
            return Some(known);
        }
        if self.modules.len() >= MODULES_LIMIT {
            return None;
        }
        self.target_root = self.target_root.take().or_else(|| Root::of(process).map(Arc::new));
        let root = self.target_root.as_deref().filter(|_| self.open_files < files_limit());
        let has_file = root.filter(|_| inode != 0);
        let file = has_file.and_then(|root| {
            mapped_file::open(process, Some(root), mapping, identity.build_id.as_ref())
        });
        self.open_files += u64::from(file.is_some());
        let label = mapping.label().as_bytes();
        let name =
            if label.is_empty() { "[anonymous]".into() } else { String::from_utf8_lossy(label) };
        let path = PathBuf::from(path);
        let build_id = identity.build_id.clone();
        let name = printable(&name);
        self.modules.push(Module { name, image: None, build_id, path, asked: 0, file });
        let module = self.modules.len() - 1;
        self.known.insert(identity, module);
        Some(module)
    }
}

/// The session and its pipes need descriptors too.
fn files_limit() -> u64 {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((256, 256));
    FILES_LIMIT.min(soft / 2)
}

#[cfg(test)]
mod tests {
    use heapattach_injector::proc::maps;

    use super::*;

    fn noted(texts: &[&str]) -> Modules {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let mut modules = Modules::default();
        for text in texts {
            assert!(modules.note(&process, &maps::parse(text.as_bytes()).unwrap()));
            assert!(!modules.note(&process, &maps::parse(text.as_bytes()).unwrap()));
        }
        modules
    }

    fn at(modules: &mut Modules, address: u64) -> Option<(String, u64)> {
        modules.find(address).map(|(module, offset)| (module.name.clone(), offset))
    }

    #[test]
    fn an_address_has_the_offset_its_line_gives_it() {
        let mut modules = noted(&["1000-2000 r-xp 00003000 0:0 7 /no/a\n\
             2000-3000 rw-p 0 0:0 7 /no/a\n\
             5000-6000 r-xp 0 0:0 0 [vdso]\n\
             6000-7000 rwxp 0 0:0 0\n"]);
        let name = |name: &str, offset| Some((name.to_owned(), offset));
        assert_eq!(at(&mut modules, 0x1234), name("/no/a", 0x3234));
        assert_eq!(at(&mut modules, 0x5010), name("[vdso]", 0x10));
        assert_eq!(at(&mut modules, 0x6010), name("[anonymous]", 0x6010));
        for address in [0, 0xfff, 0x2000, 0x2fff, 0x7000, u64::MAX] {
            assert_eq!(at(&mut modules, address), None);
        }
    }

    #[test]
    fn the_latest_mapping_counts_and_what_is_left_of_the_older_stays() {
        let mut modules = noted(&[
            "1000-5000 r-xp 0 0:0 7 /no/a\n",
            "2000-3000 r-xp 0 0:0 8 /no/b\n6000-7000 r-xp 0 0:0 7 /no/a\n",
        ]);
        let name = |name: &str, offset| Some((name.to_owned(), offset));
        assert_eq!(at(&mut modules, 0x1fff), name("/no/a", 0xfff));
        assert_eq!(at(&mut modules, 0x2000), name("/no/b", 0));
        assert_eq!(at(&mut modules, 0x3000), name("/no/a", 0x2000));
        assert_eq!(at(&mut modules, 0x4fff), name("/no/a", 0x3fff));
    }
}
