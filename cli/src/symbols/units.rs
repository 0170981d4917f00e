//! The units of a module that hold the wanted addresses, out of all its debug information.
//!
//! Where there is a table that tells which unit an address is in (`.debug_aranges`: gcc writes it),
//! nothing else of `.debug_info` is read, let alone parsed, and it is unpacked as far as the last of
//! them. The names must be those that all units would give: with any doubt there is no answer, and
//! all are to be read.

use std::{io::Read, sync::Arc};

use gimli::{Reader as _, RunTimeEndian, constants as dw};
use object::Object;

use super::{
    elf::{Allowance, Elf, Source},
    reader::{Meter, Reader},
};

type Sections = gimli::Dwarf<Reader>;

/// The bytes of the units that hold `addresses`, which are sorted.
pub fn read(
    source: &Source,
    elf: &Elf<'_>,
    allowance: &Allowance,
    table: &gimli::DebugAranges<Reader>,
    addresses: &[u64],
) -> Option<Vec<u8>> {
    let offsets = offsets(table, addresses)?;
    let mut info = source.stream(elf, ".debug_info", allowance)?;
    let (mut units, mut at) = (Vec::new(), 0);
    for offset in offsets {
        let gap = offset.checked_sub(at)?;
        info.skip(gap)?;
        let mut head = [0; 12];
        let (short, long) = head.split_at_mut(4);
        info.read_exact(short).ok()?;
        let is_little = elf.is_little_endian();
        let word = <[u8; 4]>::try_from(&*short).ok()?;
        let length = if is_little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) };
        let (head_size, length) = if length == u32::MAX {
            info.read_exact(long).ok()?;
            let word = <[u8; 8]>::try_from(&*long).ok()?;
            (12, if is_little { u64::from_le_bytes(word) } else { u64::from_be_bytes(word) })
        } else {
            (4, u64::from(length))
        };
        units.extend_from_slice(head.get(..head_size)?);
        // Grows as bytes come: the length is only what the file says.
        let before = units.len();
        info.by_ref().take(length).read_to_end(&mut units).ok()?;
        if (units.len() - before) as u64 != length {
            return None;
        }
        at = offset.checked_add(head_size as u64)?.checked_add(length)?;
    }
    Some(units)
}

/// Where the units of all addresses begin, in order; `None` if an address is in no unit.
fn offsets(table: &gimli::DebugAranges<Reader>, addresses: &[u64]) -> Option<Vec<u64>> {
    let (mut offsets, mut known) = (Vec::new(), Vec::new());
    let mut headers = table.headers();
    while let Some(header) = headers.next().ok()? {
        let (unit, mut entries) = (header.debug_info_offset().0 as u64, header.entries());
        while let Some(entry) = entries.next().ok()? {
            let range = entry.range();
            let first = addresses.partition_point(|address| *address < range.begin);
            if addresses.get(first).is_some_and(|address| *address < range.end) {
                known.push((range.begin, range.end));
                // Several ranges of one unit stand together.
                if offsets.last() != Some(&unit) {
                    offsets.push(unit);
                }
            }
        }
    }
    known.sort_unstable();
    let (mut known, mut end) = (known.into_iter().peekable(), 0);
    for &address in addresses {
        while let Some((_, next)) = known.next_if(|range| range.0 <= address) {
            end = end.max(next);
        }
        if address >= end {
            return None;
        }
    }
    offsets.sort_unstable();
    offsets.dedup();
    Some(offsets)
}

/// Whether no unit needs any of those that are left out.
pub fn are_complete(sections: &Sections) -> gimli::Result<bool> {
    let (mut units, mut offsets) = (sections.units(), Vec::new());
    while let Some(unit) = units.next()? {
        offsets.push(unit.debug_abbrev_offset().0);
    }
    offsets.sort_unstable();
    offsets.dedup();
    for offset in offsets {
        let mut forms = gimli::Section::reader(&sections.debug_abbrev).clone();
        forms.skip(offset)?;
        if refers_to_others(forms)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether one of a unit's abbreviations has a place for a reference into another unit.
fn refers_to_others(mut abbreviations: Reader) -> gimli::Result<bool> {
    while abbreviations.read_uleb128()? != 0 {
        let _tag = abbreviations.read_uleb128()?;
        let _has_children = abbreviations.read_u8()?;
        loop {
            let (name, form) = (abbreviations.read_uleb128()?, abbreviations.read_uleb128_u16()?);
            match gimli::DwForm(form) {
                dw::DW_FORM_ref_addr | dw::DW_FORM_indirect => return Ok(true),
                dw::DW_FORM_implicit_const => _ = abbreviations.read_sleb128()?,
                dw::DW_FORM_null if name == 0 => break,
                _ => {}
            }
        }
    }
    Ok(false)
}

/// Sections in which there are no units but these.
pub fn only(
    sections: Sections,
    units: Vec<u8>,
    endian: RunTimeEndian,
    meter: &Arc<Meter>,
) -> Sections {
    meter.provide(units.len());
    let reader = |bytes| Reader::new(bytes, endian, Arc::clone(meter));
    Sections {
        debug_info: reader(units).into(),
        // They speak of offsets that are no more.
        debug_aranges: reader(Vec::new()).into(),
        ..sections
    }
}
