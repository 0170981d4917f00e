//! One module of the target: its file, opened early and read late, and the names in it.

use std::{
    fs::File,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use heapattach_process::proc::build_id::BuildId;
use object::Object;

use crate::files::surroundings::Surroundings;
use crate::files::{
    debug_file,
    elf::{Allowance, Source, address_of_page, segments},
    mapped_file,
};
use crate::{
    Frame,
    dwarf::Call,
    entries::Sections,
    image::Image,
    kept_names::{KeptNames, Place},
};

/// One module. Clones read its file only once: the processes of a family have the same modules.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its path, or what the kernel calls it.
    pub name: Arc<str>,
    /// The build that is mapped, as far as known.
    pub build_id: Option<BuildId>,
    /// Its path before it was deleted; what the kernel calls it is none.
    pub path: PathBuf,
    /// How many addresses in it were looked up.
    pub asked: usize,
    shared: Arc<Shared>,
}

/// A file and what was read of it, for all modules that are this file.
#[derive(Debug)]
pub struct Shared {
    content: Mutex<Content>,
    /// What the names of it take, once they are read.
    allowance: OnceLock<Allowance>,
}

/// What is in its file.
#[derive(Debug)]
struct Content {
    /// Until it is looked at.
    file: Option<File>,
    /// Until it is read, which names that are kept can spare: what is around it, too.
    late: Option<(File, Surroundings)>,
    image: Option<Image>,
    kept: KeptNames,
    /// How often a part of it may be read anew, with more in it, before all of it is.
    parts_left: u32,
}

impl Content {
    /// Reads the file, if that was not done. What lies at `offsets` in it will be asked for.
    fn read(&mut self, offsets: &[u64], allowance: &OnceLock<Allowance>) {
        if let Some((file, around)) = self.late.take() {
            self.image = Image::read(file, &around, offsets);
            let _ = allowance.set(around.allowance);
        }
    }

    /// The calls at a place of the file, and the address that it states for it.
    fn place(&mut self, offset: u64) -> Option<Place> {
        if let Some(kept) = self.kept.get(offset) {
            return Some(kept.clone());
        }
        let image = self.image.as_mut()?;
        let address = image.address_of(offset)?;
        let place = Place { address, calls: image.calls(address) };
        self.kept.add(offset, || place.clone());
        Some(place)
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        if let Some(image) = &self.image {
            self.kept.keep(image.lacks(), image.is_of_file());
        }
    }
}

/// Parts of one file that several processes ask for: a part is read faster than the whole.
const PARTS: u32 = 8;

impl Shared {
    fn new(file: Option<File>, parts_left: u32) -> Self {
        let (late, image, kept) = (None, None, KeptNames::default());
        let content = Mutex::new(Content { file, late, image, kept, parts_left });
        Self { content, allowance: OnceLock::new() }
    }

    /// A file of several processes, which may ask for different parts of it.
    pub fn for_several(file: File) -> Self {
        Self::new(Some(file), PARTS)
    }

    /// Bytes of memory, or nearly so.
    pub fn taken(&self) -> u64 {
        self.allowance.get().map_or(0, Allowance::taken)
    }
}

impl Module {
    /// One whose file is not read yet.
    pub fn new(name: &str, path: PathBuf, build_id: Option<BuildId>, file: Option<File>) -> Self {
        Self::of(name, path, build_id, Arc::new(Shared::new(file, 0)))
    }

    /// One whose file others may have read.
    pub fn of(name: &str, path: PathBuf, build_id: Option<BuildId>, shared: Arc<Shared>) -> Self {
        Self { name: name.into(), build_id, path, asked: 0, shared }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.shared.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file of it is still open.
    pub fn is_open(&self) -> bool {
        let content = self.content();
        content.file.is_some()
            || content.late.is_some()
            || content.image.as_ref().is_some_and(Image::holds_file)
    }

    /// Reads its file, and what else is known of it around, unless that was done. What lies at
    /// `offsets` in it will be asked for.
    pub fn load(&mut self, around: &Surroundings, offsets: &[u64]) {
        let mut guard = self.content();
        let content = &mut *guard;
        if let Some(file) = content.file.take() {
            if !mapped_file::is_build(&file, self.build_id.as_ref()) {
                return;
            }
            let around = self.surroundings(around);
            content.kept = KeptNames::of(&file, self.build_id.as_ref(), &around);
            content.late = Some((file, around));
        }
        if !content.kept.has_all(offsets) {
            content.read(offsets, &self.shared.allowance);
        }
        if self.build_id.is_none() {
            let found = content.image.as_ref().and_then(|image| image.build_id().cloned());
            drop(guard);
            self.build_id = found;
        }
    }

    /// Reads what is needed for these places as well, if another process had only others read.
    pub fn extend(&mut self, offsets: &[u64]) {
        let content = &mut *self.content();
        if content.parts_left > 0
            && let Some(image) = &mut content.image
            && image.extend(offsets)
        {
            content.parts_left -= 1;
        }
    }

    /// The build whose debug information it needs, if that is in no reach and it was not read yet.
    pub fn lacking(&self, around: &Surroundings) -> Option<BuildId> {
        let content = self.content();
        let file = content.file.as_ref()?;
        if !mapped_file::is_build(file, self.build_id.as_ref()) {
            return None;
        }
        debug_file::lacking(&Source::new(file.try_clone().ok()?)?, &self.surroundings(around))
    }

    /// All entries of its debug data, if there are any and it was not read yet; and the address that its
    /// file states for what lies at a place in it.
    pub fn entries(&self, around: &Surroundings, file_offset: u64) -> Option<(Sections, u64)> {
        let content = self.content();
        let file = content.file.as_ref()?;
        if !mapped_file::is_build(file, self.build_id.as_ref()) {
            return None;
        }
        let source = Source::new(file.try_clone().ok()?)?;
        let elf = source.elf()?;
        let address = address_of_page(&segments(&elf), file_offset)?;
        let has_own = elf.section_by_name(".debug_info").is_some();
        let debug = match has_own {
            true => source.file(),
            false => debug_file::find(&elf, &self.surroundings(around))?.file(),
        };
        Some((Sections::read(debug.try_clone().ok()?, &around.allowance)?, address))
    }

    fn surroundings(&self, around: &Surroundings) -> Surroundings {
        let (path, allowance) = (self.path.clone(), around.allowance.metered());
        Surroundings { path, allowance, ..around.clone() }
    }

    /// The calls at a place in its file, the innermost first. Never empty.
    pub fn frames(&mut self, file_offset: u64) -> Vec<Frame> {
        self.asked += 1;
        let Some(Place { address, calls }) = self.content().place(file_offset) else {
            return vec![Frame::unnamed(&self.name, file_offset)];
        };
        let last = calls.len().saturating_sub(1);
        let frame = |(depth, Call { function, file, line, .. })| Frame {
            function,
            file,
            line,
            inlined: depth < last,
            ..Frame::unnamed(&self.name, address)
        };
        calls.into_iter().enumerate().map(frame).collect()
    }

    /// The variable whose address is so far from that of the code at a place in its file.
    pub fn variable(&self, file_offset: u64, distance: i64) -> Option<(Arc<str>, u64)> {
        let content = &mut *self.content();
        content.read(&[], &self.shared.allowance);
        let image = content.image.as_mut()?;
        let code = image.address_of(file_offset)?;
        image.variable(code.checked_add_signed(distance)?)
    }

    /// What its names lack, if they do.
    pub fn lacks(&self) -> Option<&'static str> {
        let content = self.content();
        match (&content.image, &content.late) {
            (Some(image), _) => image.lacks(),
            (None, Some(_)) => content.kept.lacks(),
            (None, None) => Some("its file cannot be read"),
        }
    }
}
