//! The units of a module that hold the wanted addresses, out of all its debug information.
//!
//! Where there is a table that tells which unit an address is in (`.debug_aranges`: gcc writes it),
//! nothing else of `.debug_info` is read, let alone parsed, and it is unpacked as far as the last of
//! them. The names must be those that all units would give: with any doubt there is no answer, and
//! all are to be read.

use std::{io::Read, sync::Arc};

use gimli::{Reader as _, RunTimeEndian, constants as dw};
use object::Object;

use crate::{
    dwarf::reader::{Meter, Reader},
    files::elf::{Allowance, Elf, Source},
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
    units.shrink_to_fit();
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use crate::files::surroundings::Surroundings;
    use crate::image::Image;
    use crate::tests::folder::Folder;

    /// Three units, each with an inlined call, as `a.so`.
    fn compiled(flags: &str) -> Folder {
        let folder = Folder::new("units");
        let names = ["one", "two", "three"];
        for name in names {
            let source = format!(
                "extern int volatile sink;\n{}\n\
                 static inline __attribute__((always_inline)) void inner_{name}(int a) {{\nsink = a; }}\n\
                 __attribute__((noinline)) void outer_{name}(int a) {{\nsink = 1;\ninner_{name}(a); }}\n",
                if name == "one" { "int volatile sink;" } else { "" }
            );
            fs::write(folder.0.join(format!("{name}.c")), source).unwrap();
            folder.run(&format!("gcc -O1 -fPIC {flags} -c {name}.c"));
        }
        let link = "-shared -nostdlib -Wl,-z,noseparate-code -o a.so one.o two.o three.o";
        folder.run(&format!("gcc -O1 -fPIC {flags} {link}"));
        folder
    }

    fn read(folder: &Folder, offsets: &[u64]) -> Image {
        let file = File::open(folder.0.join("a.so")).unwrap();
        Image::read(file, &Surroundings::default(), offsets).unwrap()
    }

    fn assert_equal_names(folder: &Folder, is_part: bool) {
        let start = |name| folder.offset_of("a.so", &format!("outer_{name}"));
        let [one, two, three] = ["one", "two", "three"].map(start);
        let mut all = read(folder, &[]);
        assert!(!all.reads_part_of_units());
        for wanted in [&[two][..], &[one + 3, three], &[three, two, one]] {
            let mut part = read(folder, wanted);
            assert_eq!(part.reads_part_of_units(), is_part, "{wanted:x?}");
            for address in wanted {
                let calls = part.calls(*address);
                assert_eq!(calls, all.calls(*address));
                assert!(calls[0].line.is_some(), "{calls:?}");
            }
            assert_eq!(part.reads_part_of_units(), is_part, "the part was enough");
            // What was not foreseen is read then.
            for address in [one, two, three].into_iter().flat_map(|start| start..start + 16) {
                assert_eq!(part.calls(address), all.calls(address), "{address:x}");
            }
            assert!(!part.reads_part_of_units());
        }
    }

    #[test]
    fn a_part_of_the_units_gives_the_names_that_all_give() {
        for flags in
            ["-gdwarf-5", "-gdwarf-4", "-g -gz=zlib", "-gdwarf-5 -gsplit-dwarf", "-gdwarf64 -g"]
        {
            assert_equal_names(&compiled(flags), true);
        }
    }

    #[test]
    fn with_any_doubt_all_units_are_read() {
        // Code and its description are in different units.
        assert_equal_names(&compiled("-g -flto -ffat-lto-objects"), false);
        let folder = compiled("-g");
        folder.run("objcopy --remove-section=.debug_aranges a.so");
        assert_equal_names(&folder, false);
    }

    #[test]
    fn an_address_in_no_unit_needs_all_units() {
        let folder = compiled("-g");
        let one = folder.offset_of("a.so", "outer_one");
        assert!(read(&folder, &[one]).reads_part_of_units());
        assert!(!read(&folder, &[0x10, one]).reads_part_of_units());
    }
}
