//! What a heapattach that was killed left behind code: a frame that has done its duty. A program has
//! few places for one, so they are given back, or the third death would find no room any more.

use std::ops::Range;

use super::room::{FILES_LIMIT, last_page};
use crate::{arch, home::PAGE};
use crate::{
    hook::quiet::{self, Evidence},
    trace::{
        stopped::{StopCost, StopError, Stopped},
        target::Target,
    },
};
use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    proc::maps::{self, Mapping},
};

/// Marks a frame behind code as ours; its length follows.
const MARK: [u8; 16] = *b"HEAPATTACHFRAME1";
/// Frames begin at multiples of it.
const STEP: usize = 64;
/// The word that a call returns by lies in front of a frame, and one that a pivot reads before that.
const IN_FRONT: u64 = 16;

/// Marks a frame, as it is before it is written.
pub(super) fn mark(frame: &mut [u8]) {
    let length = (frame.len() as u64).to_le_bytes();
    let mark = [&MARK[..], &length].concat();
    if let Some(free) = frame.get_mut(arch::FRAME_FREE..arch::FRAME_FREE + mark.len()) {
        free.copy_from_slice(&mark);
    }
}

/// The frames that lie behind code.
pub(super) fn find(memory: &Memory, maps: &[Mapping<'_>]) -> Vec<Range<RemoteAddr>> {
    let code = maps.iter().filter(|mapping| super::room::is_code(mapping)).take(FILES_LIMIT);
    code.filter_map(|mapping| {
        let (at, bytes) = last_page(memory, mapping)?;
        let frame = find_in(&bytes)?;
        Some(at.offset(frame.start)..at.offset(frame.end))
    })
    .collect()
}

/// The one in the last page of code, with the word in front of it.
fn find_in(page: &[u8]) -> Option<Range<u64>> {
    (STEP..page.len()).step_by(STEP).find_map(|at| {
        let marked = page.get(at + arch::FRAME_FREE..)?;
        let length = marked.strip_prefix(&MARK)?.first_chunk().copied().map(u64::from_le_bytes)?;
        let end = (at as u64).checked_add(length).filter(|&end| end <= PAGE)?;
        // Behind it there is nothing, as there was when it was put there.
        let behind = page.get(usize::try_from(end).ok()?..)?;
        behind.iter().all(|&byte| byte == 0).then_some(at as u64 - 8..end)
    })
}

/// Puts zeros in their places again, but for those that a thread is on its way back through.
pub(super) fn give_back_in(stop: &Stopped<'_>, maps: &[Mapping<'_>]) -> usize {
    // Which threads those are cannot be told of a vfork child.
    if stop.has_vfork_child() {
        return 0;
    }
    let memory = &stop.target().memory;
    let unused = find(memory, maps).into_iter().filter(|frame| !is_used(stop, maps, frame));
    let given = unused.filter(|frame| {
        let length = frame.end.offset_from(frame.start).and_then(|n| usize::try_from(n).ok());
        length.is_some_and(|length| memory.write(frame.start, &vec![0; length]).is_ok())
    });
    given.count()
}

/// Whether a register of a thread, or a word on its stack, leads into it.
fn is_used(stop: &Stopped<'_>, maps: &[Mapping<'_>], frame: &Range<RemoteAddr>) -> bool {
    let from = frame.start.get().saturating_sub(IN_FRONT);
    let leads = move |word: u64| (from..frame.end.get()).contains(&word);
    let registers = stop.threads().iter().any(|thread| {
        let pointer = arch::stack_pointer(&thread.registers).get();
        leads(arch::program_counter(&thread.registers).get())
            || leads(pointer)
            || arch::words(&thread.registers).into_iter().any(leads)
    });
    let (from, end) = (from, frame.end.get());
    let leads = move |word: u64| (from..end).contains(&word);
    registers || quiet::thread_in(stop, maps, Evidence::AnyWord, leads).is_some()
}

/// Gives back the frames that were left in a target; answers how many, and what the stop cost, if
/// there was need of one.
///
/// # Errors
/// When the target cannot be stopped.
pub fn undo_frames(target: &Target) -> Result<(usize, Option<StopCost>), StopError> {
    let text = target.process.read("maps").unwrap_or_default();
    if find(&target.memory, &maps::parse(&text).unwrap_or_default()).is_empty() {
        return Ok((0, None));
    }
    let stop = Stopped::all(target)?;
    let text = target.process.read("maps").unwrap_or_default();
    let given = give_back_in(&stop, &maps::parse(&text).unwrap_or_default());
    Ok((given, Some(stop.finish())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_frame_is_found_and_nothing_else() {
        let mut frame = vec![1; 1000];
        mark(&mut frame);
        let mut page = vec![0; 4096];
        assert_eq!(find_in(&page), None);
        page[1024..2024].copy_from_slice(&frame);
        assert_eq!(find_in(&page), Some(1016..2024));
        // One whose length is not to be believed, and one with other bytes behind it.
        page[1024 + arch::FRAME_FREE + 16..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(find_in(&page), None);
        page[1024..2024].copy_from_slice(&frame);
        page[3000] = 1;
        assert_eq!(find_in(&page), None);
    }
}
