//! Unmapping a home: the last thing done in a target, on a borrowed thread.

use super::{GiveBackError, Undone};
use crate::home::{Home, SHARED_NAME};
use crate::{
    installation::{
        remote_call::{Carrier, CarrierError},
        shelter::choose_carrier,
    },
    trace::{
        insist::insist,
        stopped::{StopError, Stopped},
        target::Target,
    },
};
use heapattach_process::{
    addr::RemoteAddr,
    page_writes::USERFAULTFD,
    proc::maps::{self, Mapping},
};

/// A session has one open, and only while it begins; the program can name others as we do.
const MOST_DESCRIPTORS: usize = 8;

/// Unmaps the home, but for the stub page if that is `keep`.
pub(super) fn unmap(
    stop: &Stopped<'_>,
    home: &Home,
    maps: &[Mapping<'_>],
    keep: Option<RemoteAddr>,
    gadget: RemoteAddr,
    undone: &mut Undone,
) -> Result<(), GiveBackError> {
    let target = stop.target();
    let Some(thread) = choose_carrier(stop, maps) else { return Err(StopError::Gone.into()) };
    let mut carrier = Carrier::borrow(stop, thread, gadget)?;
    let frame = carrier.rescue_frame(home.frame())?;
    carrier.take_shelter(maps)?;
    // A home that was never written has no gadget to be rescued at.
    if Home::open(&target.memory, home.at()).is_ok() {
        let at = home.frame();
        insist(|| target.memory.write(at, &frame))
            .map_err(|source| GiveBackError::Write { at, source })?;
        carrier.rescue(home.gadget(), home)?;
    }
    if home.header().descriptor != 0 {
        for descriptor in our_descriptors(target) {
            carrier.call("close", libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
        }
    }
    let mut end = home.end();
    if let Some(page) = keep {
        let behind = page.offset(crate::home::PAGE);
        // If we died between the two calls, the second part may be mapped anew by now.
        if is_ours_behind(maps, home) {
            call_unmap(&mut carrier, behind, end)?;
        }
        end = page;
    }
    carrier.forgo_rescue();
    call_unmap(&mut carrier, home.at(), end)?;
    undone.exposed += carrier.finish()?;
    Ok(())
}

fn call_unmap(
    carrier: &mut Carrier<'_, '_>,
    from: RemoteAddr,
    to: RemoteAddr,
) -> Result<(), CarrierError> {
    let length = to.offset_from(from).unwrap_or(0);
    carrier.call("munmap", libc::SYS_munmap, [from.get(), length, 0, 0, 0, 0]).map(drop)
}

/// Whether the part of the range behind the stub page is still what we made it.
fn is_ours_behind(maps: &[Mapping<'_>], home: &Home) -> bool {
    maps::covering(maps, home.region()).is_some_and(|mapping| {
        let reserved = mapping.executable && !mapping.writable && mapping.is_anonymous();
        let is_private = home.header().is_private != 0 && mapping.is_anonymous();
        reserved || is_private || is_shared_name(mapping.label().as_encoded_bytes())
    })
}

fn is_shared_name(label: &[u8]) -> bool {
    let name = &SHARED_NAME[..SHARED_NAME.len() - 1];
    label.strip_prefix(b"/memfd:").is_some_and(|rest| rest.starts_with(name))
}

/// Descriptors that a killed heapattach left open in the target: of our shared memory, or to watch pages by. The
/// latter were never used where they were made; a program uses its own at once.
fn our_descriptors(target: &Target) -> Vec<u64> {
    let process = &target.process;
    let is_unused = |number: u64| {
        let told = process.read(&format!("fdinfo/{number}")).unwrap_or_default();
        let told = String::from_utf8_lossy(&told);
        let version = told.lines().find_map(|line| line.strip_prefix("API:"));
        version.and_then(|version| version.split(':').nth(1)) == Some("0")
    };
    process
        .descriptors()
        .into_iter()
        .filter(|(number, link)| {
            is_shared_name(link.as_encoded_bytes()) || link == USERFAULTFD && is_unused(*number)
        })
        .take(MOST_DESCRIPTORS)
        .map(|(number, _)| number)
        .collect()
}
