//! Modules that come and go while a process is watched: their files are opened by the path that they were
//! loaded from, as nothing may be mapped there any more.

use std::{os::unix::fs::MetadataExt, sync::Arc};

use heapattach_process::{
    generations::{Generation, Generations},
    image::{identity_in, offset_in},
};
use nix::sys::stat::{major, minor};

use super::{Identity, MODULES_LIMIT, Modules, PLACES_LIMIT, Place, files_limit, own_path};
use crate::{files::mapped_file, module::Module, printable::printable};

impl Modules {
    /// From now on code comes and goes like this.
    pub fn follow(&mut self, generations: &Arc<Generations>) {
        self.generations = Arc::clone(generations);
        self.follows_generations = true;
    }

    /// Notes modules that may be gone again, by the path that they were loaded from; whether anything
    /// of it was new.
    pub fn note_generations(&mut self) -> bool {
        let news = self.generations.since(self.noted);
        self.noted += news.len();
        let mut is_new = false;
        for known in news {
            let range = known.range().start.get()..known.range().end.get();
            if self.places.find(range.start).is_some() || self.places.len() >= PLACES_LIMIT {
                continue;
            }
            let Some((module, file_offset)) = self.module_of_generation(&known) else { continue };
            self.places.insert(range.clone(), Place { start: range.start, file_offset, module });
            is_new = true;
        }
        is_new
    }

    /// The module, and where in its file its code begins.
    fn module_of_generation(&mut self, known: &Generation) -> Option<(usize, u64)> {
        let folder = self.working_folder.clone().unwrap_or_default();
        let path = folder.join(&known.path);
        let root = self.target_root.as_deref().filter(|_| self.open_files < files_limit());
        let file = root.and_then(|root| root.open(&path));
        // Without a build id more of it must be the same.
        let file = file.filter(|file| match &known.build {
            Some(build) => mapped_file::is_build(file, Some(build)),
            None => identity_in(file, known.path.as_bytes()) == Some(known.identity),
        });
        let start = known.code.start.wrapping_sub(known.bias);
        let file_offset = file.as_ref().and_then(|file| offset_in(file, start)).unwrap_or(start);
        let (mut device, mut inode) = ((0, 0), 0);
        let mut real = path.clone();
        if let Some(found) = file.as_ref().and_then(|file| file.metadata().ok()) {
            let number = |number: u64| u32::try_from(number).unwrap_or(0);
            device = (number(major(found.dev())), number(minor(found.dev())));
            inode = found.ino();
            real = file.as_ref().and_then(own_path).unwrap_or(real);
        }
        let build_id = known.build.clone();
        let identity = Identity { path: real.clone().into(), device, inode, build_id };
        if let Some(&module) = self.known.get(&identity) {
            return Some((module, file_offset));
        }
        if self.modules.len() >= MODULES_LIMIT {
            return None;
        }
        self.open_files += u64::from(file.is_some());
        let name = printable(&real.to_string_lossy());
        self.modules.push(Module::new(&name, real, known.build.clone(), file));
        self.known.insert(identity, self.modules.len() - 1);
        Some((self.modules.len() - 1, file_offset))
    }
}
