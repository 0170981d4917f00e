//! Where modules say that their mailbox is: in a note, which every module carries where it is mapped,
//! so that neither its file nor a list of the loader is needed.

use std::collections::HashSet;

use heapattach_process::{
    addr::RemoteAddr,
    little_endian::{u32_at, u64_at},
    memory::Memory,
    proc::maps::{self, Mapping},
};

const PT_LOAD: u32 = goblin::elf::program_header::PT_LOAD;
const PT_NOTE: u32 = goblin::elf::program_header::PT_NOTE;
const FILE_HEADER: usize = 64;
const HEADER: usize = 56;
/// No honest module has more headers, or more notes.
const MOST_HEADERS: usize = 512;
const MOST_NOTES: u64 = 1 << 16;

/// Who wrote the note, and which one it is.
const OWNER: &[u8] = b"heapattach\0";
const VERSION: u32 = 1;
/// Where each part is, as seen from the word that says so.
const PARTS: usize = 2;

/// What a note says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// What was added to the addresses in the module's file.
    pub(super) base: u64,
    /// The module's program headers.
    pub(super) headers: RemoteAddr,
    /// The mailbox.
    pub(super) mailbox: RemoteAddr,
    /// Its entries.
    pub(super) entries: RemoteAddr,
}

/// All places in these mappings.
pub(super) fn places(memory: &Memory, maps: &[Mapping<'_>]) -> Vec<Place> {
    let mut known = HashSet::new();
    let begins = maps.iter().filter(|m| m.readable && m.file_offset == 0 && m.inode != 0);
    let all = begins.filter_map(|m| of_module(memory, maps, m)).flatten();
    all.filter(|place| known.insert(*place)).collect()
}

/// Of the module whose file header is mapped there, if it is one.
fn of_module(memory: &Memory, maps: &[Mapping<'_>], first: &Mapping<'_>) -> Option<Vec<Place>> {
    let start = first.range.start;
    let header = memory.read_vec(start, FILE_HEADER).ok()?;
    // 64 bits, little-endian.
    if header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let headers_at = start.checked_add(u64_at(&header, 32)?)?;
    let size = u16::from_le_bytes([header[54], header[55]]);
    let count = usize::from(u16::from_le_bytes([header[56], header[57]])).min(MOST_HEADERS);
    if usize::from(size) != HEADER {
        return None;
    }
    let headers = memory.read_vec(headers_at, count * HEADER).ok()?;
    let of_kind = |kind| {
        let all = headers.chunks_exact(HEADER);
        all.filter(move |header| u32_at(header, 0) == Some(kind))
    };
    // What is mapped there begins with the file.
    let load = of_kind(PT_LOAD).find(|header| u64_at(header, 8) == Some(0))?;
    let base = start.get().wrapping_sub(u64_at(load, 16)?);
    let mut places = Vec::new();
    for note in of_kind(PT_NOTE) {
        let at = RemoteAddr::new(base.wrapping_add(u64_at(note, 16)?));
        let length = u64_at(note, 40)?.min(MOST_NOTES);
        let Ok(bytes) = memory.read_vec(at, usize::try_from(length).ok()?) else { continue };
        for (offset, words) in parse(&bytes) {
            let part = |index: usize| {
                let own = at.get().wrapping_add((offset + 8 * index) as u64);
                RemoteAddr::new(own.wrapping_add(words[index]))
            };
            let place = Place { base, headers: headers_at, mailbox: part(0), entries: part(1) };
            // Where a file is only looked at its notes lead to other memory.
            let is_writable =
                |at| maps::covering(maps, at).is_some_and(|m| m.writable && !m.shared);
            if is_writable(place.mailbox) && is_writable(place.entries) {
                places.push(place);
            }
        }
    }
    Some(places)
}

/// Our notes among others: where in the bytes the words of each are, and the words.
fn parse(bytes: &[u8]) -> Vec<(usize, [u64; PARTS])> {
    let mut found = Vec::new();
    let mut at = 0;
    while let (Some(name), Some(content), Some(kind)) =
        (u32_at(bytes, at), u32_at(bytes, at + 4), u32_at(bytes, at + 8))
    {
        let padded = |length: u32| usize::try_from(length).ok()?.checked_next_multiple_of(4);
        let (Some(name_room), Some(room)) = (padded(name), padded(content)) else { break };
        let name_at = at + 12;
        let Some(content_at) = name_at.checked_add(name_room) else { break };
        let Some(end) = content_at.checked_add(room) else { break };
        let is_ours = bytes.get(name_at..).is_some_and(|rest| rest.starts_with(OWNER));
        if is_ours
            && kind == VERSION
            && let (Some(mailbox), Some(entries)) =
                (u64_at(bytes, content_at), u64_at(bytes, content_at + 8))
        {
            found.push((content_at, [mailbox, entries]));
        }
        at = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
        let mut note = [length(owner), length(content), kind.to_le_bytes()].concat();
        note.extend(owner);
        note.resize(note.len().next_multiple_of(4), 0);
        note.extend(content);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn our_note_is_found_among_others() {
        let words = [7_u64.to_le_bytes(), (-16_i64).to_le_bytes()].concat();
        let other = note(b"GNU\0", 3, &[1; 20]);
        let bytes = [other.clone(), note(OWNER, VERSION, &words), other.clone()].concat();
        let at = other.len() + 12 + 12;
        assert_eq!(parse(&bytes), [(at, [7, (-16_i64).cast_unsigned()])]);
        assert_eq!(parse(&note(OWNER, 2, &words)), [], "a later version");
    }

    #[test]
    fn notes_that_make_no_sense_end_the_list() {
        for cut in 0..40 {
            let words = [0xff; 16];
            let whole = note(OWNER, VERSION, &words);
            assert!(parse(&whole[..cut.min(whole.len() - 1)]).is_empty(), "{cut}");
        }
        assert_eq!(parse(&[0xff; 64]), []);
        assert_eq!(parse(&[0; 64]), []);
    }
}
