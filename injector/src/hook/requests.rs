//! valgrind's client requests, which a program makes of its pools and blocks: from its first instruction on a
//! jump to our home stands in for each, where it is told to hooks ([`arch::request_code`]).
//!
//! All or none: a request that is not heard could be one that frees. Three changes make one jump, since it
//! is longer than what can be written at once; whenever we are killed, what is there can be run:
//!
//! ```text
//! as it is              rol rol rol rol xchg
//! first                 jmp over it          (does nothing, as the request does)
//! second                jmp over it, and where to
//! third                 jmp [where to]
//! ```
//!
//! They are undone the other way round.

use std::path::Path;

use heapattach_abi::{
    form::{Asks, Form},
    kind::HookKind,
};
use heapattach_entry::{REQUEST_BYTES, Requests, requests};
use heapattach_process::{
    addr::RemoteAddr,
    linker::Link,
    memory::Memory,
    proc::{file, maps::Mapping},
};
use nix::errno::Errno;

use crate::{
    arch::{self, RequestWord},
    home::{ChangeKind, Home, REQUEST_ROOM, payload_image::PayloadImage},
    hook::{
        patch::{PatchError, Patches, RequestHooks, change},
        survey::{Survey, mapping_of},
    },
    module::{
        build::Build,
        without_requests::{self, Part},
    },
    trace::{stopped::Stopped, target::Target},
};

/// One request.
#[derive(Debug)]
struct Site {
    at: RemoteAddr,
    link: Link,
}

/// What a hook of a request gets its block from: the second argument is how large it is.
const TOLD: Form = Form { block: 0, size: 2, times: 0, asks: Asks::Told };

/// Libraries whose requests tell of parts of blocks that are seen as a whole.
const WHOLE: [&str; 2] = ["libglib-2.0.so", "libgobject-2.0.so"];

/// Whether this is the name of such a library.
pub fn is_seen_whole(name: &str) -> bool {
    WHOLE.iter().any(|one| name.starts_with(one))
}

/// Room for the common code, and for the parts of sites.
const COMMON_ROOM: usize = 768;

/// Has the requests of all modules heard, if there are any; where that cannot be, `heard` says why.
///
/// # Errors
/// When the target cannot be written.
pub fn hear(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    image: &PayloadImage,
    survey: &Survey,
    patches: &mut Patches,
) -> Result<(), PatchError> {
    let sites = match sites(stop.target(), maps, survey) {
        Ok(sites) => sites,
        Err(why) => {
            patches.heard.why_not = Some(why);
            return Ok(());
        }
    };
    if sites.is_empty() {
        return Ok(());
    }
    let mut take = |kind| patches.number_for(image, kind);
    let free = HookKind::Free;
    let kinds = [HookKind::Chosen, free, free, free, free, HookKind::Chosen, free];
    let numbers: Option<Vec<usize>> = kinds.into_iter().map(&mut take).collect();
    let Some(&[allocated, freed, pool, destroyed, checked, trimmed, moved]) = numbers.as_deref()
    else {
        patches.heard.why_not = Some("the payload has no free hook left".to_owned());
        return Ok(());
    };
    let hooks = RequestHooks { allocated, freed, pool, destroyed, checked, trimmed, moved };
    write_code(stop, image, patches, hooks, &sites)?;
    lead(stop, patches, &sites)?;
    patches.heard.hooks = Some(hooks);
    Ok(())
}

/// All of them, or why they cannot be heard.
fn sites(target: &Target, maps: &[Mapping<'_>], survey: &Survey) -> Result<Vec<Site>, String> {
    let mut all = Vec::new();
    for loaded in &survey.loaded {
        let link = &loaded.link;
        let Some(mapping) = mapping_of(maps, link) else { continue };
        let name = mapping.file().and_then(Path::file_name).and_then(|name| name.to_str());
        if name.is_none_or(is_seen_whole) {
            continue;
        }
        let build = Build::of((&target.process, &target.memory), maps, mapping);
        if build.as_ref().is_some_and(|build| without_requests::has_none(build, Part::File)) {
            continue;
        }
        let Ok(bytes) = file::read_module(&target.process, mapping) else { continue };
        let Ok(found) = requests(&bytes) else { continue };
        if found == Requests::default() {
            build.into_iter().for_each(|build| without_requests::note(build, Part::File));
            continue;
        }
        if found.refused != 0 {
            let name = name.unwrap_or_default();
            return Err(format!("{} of {name} may be entered in their middle", found.refused));
        }
        for at in found.sites {
            let at = link.bias().place(at);
            let there = target.memory.read_vec(at, REQUEST_BYTES.len());
            if there.ok().as_deref() != Some(&REQUEST_BYTES) {
                return Err(format!("the code at {at} differs from its file's"));
            }
            all.push(Site { at, link: link.clone() });
        }
    }
    let room = (usize::try_from(REQUEST_ROOM).unwrap_or(0) - COMMON_ROOM) / arch::SITE_BYTES;
    if all.len() > room {
        return Err(format!("there are more than {room}"));
    }
    Ok(all)
}

/// Puts the code into the home, and tells the hooks where they go on.
fn write_code(
    stop: &Stopped<'_>,
    image: &PayloadImage,
    patches: &Patches,
    hooks: RequestHooks,
    sites: &[Site],
) -> Result<(), PatchError> {
    let memory = &stop.target().memory;
    let write = |at, bytes: &[u8]| {
        memory.write(at, bytes).map_err(|source| PatchError::Write { at, source })
    };
    let common = patches.home.requests();
    let mut code = arch::request_code().to_vec();
    let [allocates, done] =
        arch::request_originals().map(|original| common.offset(original as u64).get());
    let cell = |cell: Option<usize>| patches.body.offset(cell.unwrap_or(0) as u64);
    for (word, number, original, second) in [
        (RequestWord::Allocated, hooks.allocated, allocates, TOLD.pack()),
        (RequestWord::Freed, hooks.freed, done, 0),
        (RequestWord::Pool, hooks.pool, done, 0),
        (RequestWord::Destroyed, hooks.destroyed, done, 0),
        (RequestWord::Checked, hooks.checked, done, 0),
        (RequestWord::Trimmed, hooks.trimmed, allocates, TOLD.pack()),
        (RequestWord::Moved, hooks.moved, done, 0),
    ] {
        let hook = patches.body.offset(image.hook_offset(number).unwrap_or(0) as u64);
        let word = word as usize;
        code[word..word + 8].copy_from_slice(&hook.get().to_le_bytes());
        write(cell(image.orig_cell(number)), &original.to_le_bytes())?;
        write(cell(image.second_cell(number)), &second.to_le_bytes())?;
    }
    code.resize(COMMON_ROOM, 0xcc);
    for (part, site) in (0..).zip(sites) {
        let at = part_of(patches, part);
        code.extend(arch::request_site(at, common, behind(site)));
    }
    write(common, &code)
}

/// Leads every request there.
fn lead(stop: &Stopped<'_>, patches: &mut Patches, sites: &[Site]) -> Result<(), PatchError> {
    let memory = &stop.target().memory;
    let mut changes = Vec::with_capacity(3 * sites.len());
    let address_at = arch::FAR_JUMP.len();
    let skip = arch::SKIP_REQUEST.len();
    let mut skipped = REQUEST_BYTES;
    skipped[..skip].copy_from_slice(&arch::SKIP_REQUEST);
    for (part, site) in (0..).zip(sites) {
        let module = patches.module_index(stop, &site.link)?;
        let to = part_of(patches, part).get().to_le_bytes();
        let change = |at: usize, old: &[u8], new: &[u8]| {
            change(site.at.offset(at as u64), old, new, ChangeKind::Request, module)
        };
        // In the order in which they are undone.
        changes.extend([
            change(0, &skipped[..address_at], &arch::FAR_JUMP),
            change(address_at, &REQUEST_BYTES[address_at..arch::FAR_JUMP_BYTES], &to),
            change(0, &REQUEST_BYTES[..skip], &arch::SKIP_REQUEST),
        ]);
    }
    patches.home.note_changes(memory, &changes)?;
    for change in changes.chunks(3).flat_map(|parts| parts.iter().rev()) {
        let write = |source| PatchError::Write { at: change.at, source };
        memory.write(change.at, &change.new[..change.length]).map_err(write)?;
    }
    patches.heard.sites = sites.len();
    Ok(())
}

/// Tells the code whether a session watches that makes checks.
///
/// # Errors
/// When the target cannot be written.
pub fn watch(memory: &Memory, home: &Home, word: u64) -> Result<(), Errno> {
    memory.write_word(home.requests().offset(RequestWord::Watch as u64), word)
}

/// The same where none does any more, if one did.
///
/// # Errors
/// When the target cannot be written.
pub fn leave(memory: &Memory, home: &Home) -> Result<(), Errno> {
    let at = home.requests().offset(RequestWord::Watch as u64);
    if memory.word(at)? == 0 { Ok(()) } else { watch(memory, home, 0) }
}

/// Lets the thread go on that waits for a check, with what it found.
///
/// # Errors
/// When the target cannot be written.
pub fn answer(
    memory: &Memory,
    home: &Home,
    number: u32,
    found: &[u64; arch::REQUEST_ANSWERS],
) -> Result<(), Errno> {
    let at = |word: RequestWord| home.requests().offset(word as u64);
    let bytes: Vec<u8> = found.iter().flat_map(|number| number.to_le_bytes()).collect();
    memory.write(at(RequestWord::Found), &bytes)?;
    memory.write(at(RequestWord::Answered), &number.to_le_bytes())
}

/// Where the code of a site is.
fn part_of(patches: &Patches, part: usize) -> RemoteAddr {
    patches.home.requests().offset((COMMON_ROOM + part * arch::SITE_BYTES) as u64)
}

/// Where the program goes on behind the request.
fn behind(site: &Site) -> RemoteAddr {
    site.at.offset(REQUEST_BYTES.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_the_code_that_sites_have_in_common() {
        assert!(arch::request_code().len() <= COMMON_ROOM);
    }
}
