//! Which file, and which place in it, an address of code belongs to, now or earlier.
//!
//! Files are opened when they are first seen mapped, since the target may be gone when names are
//! wanted, and read when the first name is. An open file also keeps its inode number from being
//! given to another.

mod generations;
mod recorded;

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::File,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::PathBuf,
    sync::Arc,
};

use heapattach_process::{
    cache::Cache,
    generations::Generations,
    image::images,
    memory::Memory,
    proc::{Process, build_id::BuildId, maps::Mapping},
};
use heapattach_text::module_name::ANONYMOUS;
use nix::sys::resource::{Resource, getrlimit};

use crate::file_cache::{FileCache, Key};
use crate::files::debuginfod::Debuginfod;
use crate::files::surroundings::Surroundings;
use crate::{Frame, entries::Sections, latest::Latest, module::Module, printable::printable};
use crate::{
    files::{mapped_file, packages::Found, root::Root},
    parallel::{self, Named, Task},
};

/// No honest session sees more.
const PLACES_LIMIT: usize = 1 << 16;
/// Nor more different names.
const MODULES_LIMIT: usize = 1 << 16;
/// Nor more files that are open at once; half of what we may open, if that is less.
const FILES_LIMIT: u64 = 4096;

/// All code seen, the latest at each address.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    places: Latest<Place>,
    modules: Vec<Module>,
    known: HashMap<Identity, usize>,
    open_files: u64,
    target_root: Option<Arc<Root>>,
    /// What relative paths of the target begin with.
    working_folder: Option<PathBuf>,
    /// Modules that come and go, and how many of them were noted.
    generations: Arc<Generations>,
    noted: usize,
    /// Whether they are those of a session, and not just none.
    follows_generations: bool,
    /// Of all modules; the roots are the target's and ours.
    around: Surroundings,
    /// What is known of the packages that the files came with.
    packages: Found,
    /// Where other sessions of this command leave what they read.
    cache: Option<FileCache>,
}

/// What tells two modules apart: a deleted file keeps its path here, and the path of a replaced one
/// may get the same inode again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity {
    path: OsString,
    device: (u32, u32),
    inode: u64,
    build_id: Option<BuildId>,
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
    /// Notes what is mapped now; whether anything of it was new. Nothing is noted, and `None` answered,
    /// if it is not certain, once the memory was looked at, that the map was that of this memory.
    pub fn note(
        &mut self,
        process: &Process,
        maps: &[Mapping<'_>],
        is_certain: impl FnOnce() -> bool,
    ) -> Option<bool> {
        let mut news = false;
        let memory = process.open_memory().ok();
        self.working_folder = self.working_folder.take().or_else(|| working_folder(process));
        let images = match &memory {
            Some(memory) if self.follows_generations => memory
                .try_clone()
                .map_or_else(|_| Vec::new(), |file| images(&Memory::of(file), maps)),
            _ => Vec::new(),
        };
        let code = maps.iter().filter(|mapping| mapping.executable);
        let code = code.map(|mapping| {
            let memory = memory.as_ref().filter(|_| mapping.inode != 0);
            (mapping, memory.and_then(|memory| mapped_file::loaded(memory, maps, mapping)))
        });
        let code: Vec<_> = code.collect();
        if !is_certain() {
            return None;
        }
        for (mapping, build_id) in code {
            let Some(module) = self.module_of(process, mapping, build_id) else { continue };
            let range = mapping.range.start.get()..mapping.range.end.get();
            let anonymous = mapping.is_anonymous();
            // Of generated code only the address itself means anything, to perf maps for one.
            let file_offset = if anonymous { range.start } else { mapping.file_offset };
            let image = images.iter().find(|image| {
                image.code.start < mapping.range.end && mapping.range.start < image.code.end
            });
            // It was half gone, or half there: another look tells what it is, and until then the place is
            // that of what was met there.
            if image.is_none() && !anonymous && self.generations.has_met(&range) {
                continue;
            }
            // Where other code has been it has addresses of its own.
            let shift = image.map_or(0, |image| self.generations.shift(image));
            let [start, end] = [range.start, range.end].map(|at| at.wrapping_add(shift));
            let range = start..end;
            let place = Place { start, file_offset, module };
            if !self.places.has(&range, &place) && self.places.len() < PLACES_LIMIT {
                self.places.insert(range, place);
                news = true;
            }
        }
        Some(news)
    }

    /// Notes what is mapped in memory that is no process's; `open` answers with the file of code at an address.
    pub fn note_files(&mut self, maps: &[Mapping<'_>], open: &dyn Fn(u64) -> Option<File>) {
        for mapping in maps.iter().filter(|mapping| mapping.executable) {
            let range = mapping.range.start.get()..mapping.range.end.get();
            let Some(module) = self.module_of_file(mapping, open(range.start)) else { continue };
            let anonymous = mapping.is_anonymous();
            let file_offset = if anonymous { range.start } else { mapping.file_offset };
            let place = Place { start: range.start, file_offset, module };
            if self.places.len() < PLACES_LIMIT {
                self.places.insert(range, place);
            }
        }
    }

    fn module_of_file(&mut self, mapping: &Mapping<'_>, file: Option<File>) -> Option<usize> {
        let path = mapped_file::path(mapping);
        let build_id = file.as_ref().and_then(BuildId::of_file);
        let (device, inode) = (mapping.device, mapping.inode);
        let identity = Identity { path: path.into(), device, inode, build_id: build_id.clone() };
        if let Some(&known) = self.known.get(&identity) {
            return Some(known);
        }
        if self.modules.len() >= MODULES_LIMIT {
            return None;
        }
        let file = file.filter(|_| self.open_files < files_limit());
        self.open_files += u64::from(file.is_some());
        let module = Module::new(&told_name(mapping), PathBuf::from(path), build_id, file);
        self.modules.push(module);
        self.known.insert(identity, self.modules.len() - 1);
        Some(self.modules.len() - 1)
    }

    /// The same modules, of which nothing was asked yet.
    pub fn unasked(&self) -> Self {
        let mut modules = self.clone();
        modules.modules.iter_mut().for_each(|module| module.asked = 0);
        modules
    }

    /// Files are from now on read once for all who have the same cache.
    pub fn read_through(&mut self, cache: FileCache) {
        self.cache = Some(cache);
    }

    /// The number of the module of an address.
    pub fn number_at(&self, address: u64) -> Option<usize> {
        self.places.find(address).map(|place| place.module)
    }

    /// The calls at `address`, if it is in a module.
    pub fn frames(&mut self, address: u64) -> Option<Vec<Frame>> {
        let (module, file_offset) = self.loaded(address)?;
        Some(module.frames(file_offset))
    }

    /// From now on names are taken from this cache, and kept in it.
    pub fn keep_names(&mut self, cache: Option<Arc<Cache>>) {
        self.around.cache = cache;
    }

    /// From now on modules are read with their variables.
    pub fn with_variables(&mut self) {
        self.around.has_variables = true;
    }

    /// The variable at `address`, and how far in it, in the module that has this code.
    pub fn variable(&mut self, code: u64, address: u64) -> Option<(Arc<str>, u64)> {
        let (module, file_offset) = self.loaded(code)?;
        module.variable(file_offset, address.wrapping_sub(code).cast_signed())
    }

    /// The module of an address of code, read, and the offset in its file.
    fn loaded(&mut self, address: u64) -> Option<(&mut Module, u64)> {
        let (module, file_offset) = self.find(address)?;
        self.prepare_roots();
        let module = self.modules.get_mut(module)?;
        let was_open = module.is_open();
        module.load(&self.around, &[file_offset]);
        self.open_files -= u64::from(was_open && !module.is_open());
        Some((module, file_offset))
    }

    /// The calls at all of `addresses` that are in modules, by several threads, until there are
    /// `limit` of them.
    pub fn all_frames(&mut self, addresses: &[u64], limit: usize) -> Named {
        self.prepare_roots();
        let mut wanted: Vec<Vec<(u64, u64)>> = vec![Vec::new(); self.modules.len()];
        for &address in addresses {
            if let Some((module, file_offset)) = self.find(address)
                && let Some(wanted) = wanted.get_mut(module)
            {
                wanted.push((address, file_offset));
            }
        }
        let tasks = self.modules.iter_mut().zip(wanted).filter(|(_, wanted)| !wanted.is_empty());
        let tasks = tasks.map(|(module, wanted)| Task { module, wanted });
        let named = parallel::work(tasks.collect(), &self.around, limit);
        self.open_files = self.modules.iter().filter(|module| module.is_open()).count() as u64;
        named
    }

    /// Fetches what the modules of these addresses lack, if there is a server to ask, until it is
    /// told to stop by `watch`, which hears how it goes.
    pub fn fetch(&mut self, addresses: &[u64], watch: &mut dyn FnMut(&str) -> bool) {
        if !self.around.debuginfod.is_in_use() {
            return;
        }
        self.prepare_roots();
        let mut asked: Vec<usize> =
            addresses.iter().filter_map(|&at| Some(self.find(at)?.0)).collect();
        asked.sort_unstable();
        asked.dedup();
        // What was fetched may have parts elsewhere (dwz).
        for _ in 0..2 {
            let modules = asked.iter().filter_map(|&module| self.modules.get(module));
            let wanted = modules.filter_map(|module| module.lacking(&self.around)).collect();
            self.around.debuginfod.fetch(wanted, watch);
        }
    }

    /// The entries of the debug data of each module that has any and was not read yet, with what is to be
    /// added to its addresses. One module after the other is in memory.
    pub fn entries(&mut self, hear: &mut dyn FnMut(&Sections, u64)) {
        self.prepare_roots();
        let mut told = vec![false; self.modules.len()];
        for (range, place) in self.places.iter() {
            let (Some(module), Some(is_told)) =
                (self.modules.get(place.module), told.get_mut(place.module))
            else {
                continue;
            };
            if std::mem::replace(is_told, true) {
                continue;
            }
            let offset = place.file_offset.wrapping_add(range.start - place.start);
            if let Some((sections, address)) = module.entries(&self.around, offset) {
                hear(&sections, range.start.wrapping_sub(address));
            }
        }
    }

    /// Whom debug information is asked of.
    pub fn debuginfod(&self) -> &Debuginfod {
        &self.around.debuginfod
    }

    /// Asks these servers from now on.
    pub fn ask(&mut self, debuginfod: Debuginfod) {
        self.around.debuginfod = debuginfod;
    }

    /// The module of an address, and the offset in its file.
    fn find(&self, address: u64) -> Option<(usize, u64)> {
        let place = self.places.find(address)?;
        Some((place.module, place.file_offset.checked_add(address - place.start)?))
    }

    /// Names are looked for in the target's tree first.
    fn prepare_roots(&mut self) {
        if self.around.roots.is_empty() {
            let own = Root::own().map(Arc::new);
            self.around.roots = self.target_root.iter().cloned().chain(own).collect();
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Module> {
        self.modules.iter()
    }

    /// What is known of the packages that their files came with.
    pub fn packages(&self) -> &Found {
        &self.packages
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
        let (name, path) = (told_name(mapping), PathBuf::from(path));
        let build_id = identity.build_id.clone();
        let has_variables = self.around.has_variables;
        let key = |file| Key::of(file, build_id.as_ref(), &path, root, has_variables);
        let cached = self.cache.as_ref().zip(file.as_ref().and_then(key));
        let module = match (cached, file) {
            (Some((cache, key)), Some(file)) => {
                Module::of(&name, path, build_id, cache.of(key, file))
            }
            (_, file) => Module::new(&name, path, build_id, file),
        };
        self.modules.push(module);
        let module = self.modules.len() - 1;
        self.known.insert(identity, module);
        Some(module)
    }
}

fn told_name(mapping: &Mapping<'_>) -> String {
    let label = mapping.label().as_bytes();
    let name = if label.is_empty() { ANONYMOUS.into() } else { String::from_utf8_lossy(label) };
    printable(&name)
}

/// The folder that the process is in.
fn working_folder(process: &Process) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{}/cwd", process.pid())).ok()
}

/// What the kernel calls an open file.
fn own_path(file: &File) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

/// The session and its pipes need descriptors too.
fn files_limit() -> u64 {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((256, 256));
    FILES_LIMIT.min(soft / 2)
}

#[cfg(test)]
mod tests {
    use heapattach_process::proc::maps;

    use super::*;

    fn noted(texts: &[&str]) -> Modules {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let mut modules = Modules::default();
        for text in texts {
            let map = maps::parse(text.as_bytes()).unwrap();
            assert_eq!(modules.note(&process, &map, || false), None);
            assert_eq!(modules.note(&process, &map, || true), Some(true));
            assert_eq!(modules.note(&process, &map, || true), Some(false));
        }
        modules
    }

    fn at(modules: &mut Modules, address: u64) -> Option<(String, u64)> {
        let frame = modules.frames(address)?.pop().unwrap();
        Some((frame.module.to_string(), frame.offset))
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
