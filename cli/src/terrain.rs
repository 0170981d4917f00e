//! From what was seen of a stopped target to what a check asks for: which ranges are looked through,
//! and what a pointer in each of them counts for.

use heapattach_injector::{
    event::StackId,
    snapshot::{self, Area, Image, Scene},
};

use crate::{
    args::CheckArgs,
    check::{Block, Layout, Memory, Piece, Pointer, RootKind, RootSet},
    recorder::Recorder,
};

impl Memory for Image<'_> {
    fn read(&mut self, at: u64, buffer: &mut [u8]) {
        Image::read(self, at, buffer);
    }
}

/// Where pointers count.
fn wanted(args: &CheckArgs) -> RootSet {
    match args.roots.as_slice() {
        [] => RootKind::ALL.into_iter().collect(),
        kinds => kinds.iter().copied().collect(),
    }
}

/// The blocks that the dynamic loader asked for.
fn loaders(scene: &Scene, recorder: &Recorder, blocks: &[Block]) -> Vec<Pointer> {
    let is_loaders = |block: &&Block| {
        let stack = recorder.records.stack(StackId(block.stack));
        let caller = stack.and_then(|stack| stack.frames.first());
        caller.is_some_and(|at| scene.loader.iter().any(|code| code.contains(&at.get())))
    };
    let pointer =
        |block: &Block| Pointer { word: block.at, root: RootKind::Loader, holds_whole: true };
    blocks.iter().filter(is_loaders).map(pointer).collect()
}

/// What is looked through, and what pointers there are. If every block since the start is known
/// (`is_complete`), what is in none of them is the allocator's.
pub fn layout(
    scene: &Scene,
    args: &CheckArgs,
    is_complete: bool,
    recorder: &Recorder,
    blocks: &[Block],
) -> Layout {
    let wanted = wanted(args);
    let loaders = match wanted.has(RootKind::Loader) {
        true => loaders(scene, recorder, blocks),
        false => Vec::new(),
    };
    let root = |kind: RootKind| {
        // What is in no block of a heap that is known as a whole is the allocator's own.
        let means_nothing = kind == RootKind::Heap && is_complete;
        (wanted.has(kind) && !means_nothing).then_some(kind)
    };
    let piece = |area: &Area| Piece { range: area.range.clone(), root: root(area.holder) };
    let pointer = |pointer: &snapshot::Pointer| {
        let root = root(pointer.holder)?;
        Some(Pointer { word: pointer.word, root, holds_whole: pointer.is_whole })
    };
    Layout {
        pieces: scene.areas.iter().map(piece).collect(),
        pointers: scene.pointers.iter().filter_map(pointer).chain(loaders).collect(),
        code: scene.code.clone(),
        files: scene.files.clone(),
    }
}
