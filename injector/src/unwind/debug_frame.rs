//! Unwind information that is not mapped: `.debug_frame`, which only the module's file has.
//!
//! The file is the target's, and may say anything: what is read of it is checked against its length
//! and the budget before room is made for it.

use std::{fs::File, sync::atomic::AtomicU64};

use heapattach_process::{
    image::Image,
    memory::Memory,
    proc::{
        Process,
        build_id::BuildId,
        file::open_build,
        maps::{self, Mapping},
        sections::Sections,
    },
};

use super::budget::spend;

const NAME: &[u8] = b".debug_frame";

/// The section of the file that `image` was mapped from, if that very file can still be had.
pub fn of_image(
    process: &Process,
    memory: &Memory,
    maps: &[Mapping<'_>],
    image: &Image,
    left: &AtomicU64,
) -> Option<Vec<u8>> {
    section(&open_file(process, memory, maps, image)?, left)
}

/// The very file that `image` was mapped from.
pub(super) fn open_file(
    process: &Process,
    memory: &Memory,
    maps: &[Mapping<'_>],
    image: &Image,
) -> Option<File> {
    let mapping = maps::covering(maps, image.start).filter(|mapping| mapping.inode != 0)?;
    let size = mapping.range.end.offset_from(image.start)?;
    let build = BuildId::at(memory.file(), image.start.get(), size);
    open_build(process, mapping, build.as_ref()).ok()
}

/// The section of a file, uncompressed; `None` if it has none, or more than is `left` for all.
pub fn section(file: &File, left: &AtomicU64) -> Option<Vec<u8>> {
    let sections = Sections::read(file)?;
    sections.bytes(sections.named(NAME)?, |bytes| spend(left, bytes))
}
