//! One module of the target: its file, opened early and read late, and the names in it.

use std::{fs::File, path::PathBuf, sync::Arc};

use heapattach_injector::proc::build_id::BuildId;

use super::{Frame, debug_file, elf::Source, image::Image, mapped_file, split_dwarf::Surroundings};

/// One module.
#[derive(Debug)]
pub struct Module {
    /// Its path, or what the kernel calls it.
    pub name: Arc<str>,
    /// The build that is mapped, as far as known.
    pub build_id: Option<BuildId>,
    /// Its path before it was deleted; what the kernel calls it is none.
    pub path: PathBuf,
    /// How many addresses in it were looked up.
    pub asked: usize,
    file: Option<File>,
    image: Option<Image>,
}

impl Module {
    /// One whose file is not read yet.
    pub fn new(name: &str, path: PathBuf, build_id: Option<BuildId>, file: Option<File>) -> Self {
        Self { name: name.into(), build_id, path, asked: 0, file, image: None }
    }

    /// Whether a file of it is still open.
    pub fn is_open(&self) -> bool {
        self.file.is_some() || self.image.as_ref().is_some_and(Image::holds_file)
    }

    /// Reads its file, and what else is known of it around, unless that was done. What lies at
    /// `offsets` in it will be asked for.
    pub fn load(&mut self, around: &Surroundings, offsets: &[u64]) {
        let Some(file) = self.file.take() else { return };
        if !mapped_file::is_build(&file, self.build_id.as_ref()) {
            return;
        }
        self.image = Image::read(file, &self.surroundings(around), offsets);
        let found = || self.image.as_ref()?.build_id().cloned();
        self.build_id = self.build_id.take().or_else(found);
    }

    /// The build whose debug information it needs, if that is in no reach and it was not read yet.
    pub fn lacking(&self, around: &Surroundings) -> Option<BuildId> {
        let file = self.file.as_ref()?;
        if !mapped_file::is_build(file, self.build_id.as_ref()) {
            return None;
        }
        debug_file::lacking(&Source::new(file.try_clone().ok()?)?, &self.surroundings(around))
    }

    fn surroundings(&self, around: &Surroundings) -> Surroundings {
        Surroundings { path: self.path.clone(), ..around.clone() }
    }

    /// The calls at a place in its file, the innermost first. Never empty.
    pub fn frames(&mut self, file_offset: u64) -> Vec<Frame> {
        self.asked += 1;
        let known = self.image.as_mut().and_then(|image| {
            let address = image.address_of(file_offset)?;
            Some((image, address))
        });
        let Some((image, address)) = known else {
            return vec![Frame::unnamed(&self.name, file_offset)];
        };
        let calls = image.calls(address);
        let last = calls.len().saturating_sub(1);
        let frames = calls.into_iter().enumerate().map(|(depth, call)| Frame {
            function: call.function,
            file: call.file,
            line: call.line,
            inlined: depth < last,
            ..Frame::unnamed(&self.name, address)
        });
        frames.collect()
    }

    /// The variable whose address is so far from that of the code at a place in its file.
    pub fn variable(&mut self, file_offset: u64, distance: i64) -> Option<(Arc<str>, u64)> {
        let image = self.image.as_mut()?;
        let code = image.address_of(file_offset)?;
        image.variable(code.checked_add_signed(distance)?)
    }

    /// What its names lack, if they do.
    pub fn lacks(&self) -> Option<&'static str> {
        self.image.as_ref().map_or(Some("its file cannot be had"), Image::lacks)
    }
}
