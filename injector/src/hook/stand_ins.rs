//! Functions of LeakSanitizer that a program refers to weakly, and that no module defines: what stands in for
//! them is in the stub page, and the words that would hold null lead there.
//!
//! Such a word is filled before the program's first instruction and is never emptied while the program
//! lives: `if (f) f();` reads it twice. So it is in no journal, and the page stays; without a session the
//! functions return at once. Words for the PLT are filled first: where the others say that there is a function
//! it can be called, whenever we are killed.

use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    proc::maps::{self, Mapping},
};

use crate::{
    home::payload_image::PayloadImage,
    hook::{
        patch::{PatchError, Patches},
        survey::Survey,
    },
    module::{
        SlotKind, find_symbols,
        weak::{NAMES, WeakSlot},
    },
    trace::stopped::Stopped,
};

/// Where the function of each name is among the code: the last two are one.
const CODE: [usize; NAMES.len()] = [0, 1, 2, 3, 4, 5, 5];

/// What the functions call.
const CALLED: [&[u8]; 2] = [b"munmap", b"__errno_location"];

/// Fills the words of all modules that are empty; how many there are.
///
/// # Errors
/// When the target cannot be written.
pub fn fill(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    image: &PayloadImage,
    survey: &Survey,
    patches: &mut Patches,
) -> Result<usize, PatchError> {
    let memory = &stop.target().memory;
    let mut wanted: Vec<WeakSlot> = survey
        .loaded
        .iter()
        .filter(|loaded| loaded.link.namespace == 0)
        .flat_map(|loaded| &loaded.module.weak)
        .copied()
        .filter(|slot| is_empty(memory, maps, slot))
        .collect();
    if wanted.is_empty() {
        return Ok(0);
    }
    let Some(called) = called(memory, survey) else { return Ok(0) };
    let page = patches.provide(stop, image, called)?;
    let Some(page) = page else { return Ok(0) };
    wanted.sort_by_key(|slot| slot.kind != SlotKind::Plt);
    for slot in &wanted {
        let function = page.function(CODE[slot.function]);
        let write = |source| PatchError::Write { at: slot.at, source };
        memory.write_word(slot.at, function.get()).map_err(write)?;
    }
    Ok(wanted.len())
}

/// Whether nothing is there that can be called: null, or the way of a lazy PLT, which leads to null.
fn is_empty(memory: &Memory, maps: &[Mapping<'_>], slot: &WeakSlot) -> bool {
    let Ok(word) = memory.word(slot.at) else { return false };
    let own = maps::covering(maps, slot.at);
    // Where the loader has not been yet there is an address in the file.
    word == 0
        || slot.kind == SlotKind::Plt
            && maps::covering(maps, RemoteAddr::new(word)).is_some_and(|there| {
                own.is_some_and(|own| own.inode == there.inode && own.inode != 0)
            })
}

/// Where the functions are that they call.
fn called(memory: &Memory, survey: &Survey) -> Option<[RemoteAddr; 2]> {
    let links = survey.loaded.iter().map(|loaded| &loaded.link);
    let mut found =
        links.filter(|link| link.namespace == 0).filter_map(|link| {
            match find_symbols(memory, link, &CALLED).ok()?[..] {
                [Some(unmap), Some(errno)] => Some([unmap, errno]),
                _ => None,
            }
        });
    found.next()
}
