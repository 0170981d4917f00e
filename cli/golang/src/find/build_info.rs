//! The release that a program was built with, as the linker notes it in every Go program.

use heapattach_census::{Image, Moment, Region, RegionKind};

/// How the note begins; it is aligned to so many bytes.
const MAGIC: &[u8; 14] = b"\xff Go buildinf:";
const ALIGNED: usize = 16;
/// Behind it: the size of a pointer and flags; the version begins there.
const FLAGS: usize = 15;
const TEXT: usize = 32;
/// The version is in the note itself, since go1.18.
const INLINE: u8 = 2;
/// So much is read at once, and of one mapping.
const WINDOW: u64 = 1 << 20;
const MOST: u64 = 64 << 20;

/// A release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// As the program has it: `go1.22.10`, `go1.21.0 X:nocoverageredesign`.
    pub text: String,
    /// The 22 of it.
    pub minor: u32,
}

impl Release {
    /// Of a module, if it was built by Go.
    pub fn of(moment: &Moment<'_>, image: &Image) -> Option<Self> {
        let regions: Vec<&Region> = moment
            .regions()
            .iter()
            .filter(|region| image.range.contains(&region.range.start) && is_data(region))
            .collect();
        // Variables; and before them what was made read-only once it was relocated.
        let of_variables = regions.iter().filter(|region| region.writable);
        let relocated = regions.windows(2).filter(|pair| pair[1].writable && !pair[0].writable);
        of_variables
            .copied()
            .chain(relocated.map(|pair| pair[0]))
            .find_map(|region| search(moment, region))
    }

    fn parse(text: &str) -> Option<Self> {
        let version = text.split(' ').next()?;
        let numbers = version.strip_prefix("go1.")?;
        let digits = numbers.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(Self { text: version.to_owned(), minor: digits.parse().ok()? })
    }
}

fn is_data(region: &Region) -> bool {
    region.kind == RegionKind::File && region.readable && !region.executable
}

fn search(moment: &Moment<'_>, region: &Region) -> Option<Release> {
    let end = region.range.end.min(region.range.start + MOST);
    let mut at = region.range.start;
    while at < end {
        // A note at the end of a window is read with the next bytes.
        let length = (end - at).min(WINDOW + 256);
        let bytes = moment.bytes(at, usize::try_from(length).ok()?)?;
        let starts = (0..bytes.len()).step_by(ALIGNED);
        let note =
            starts.filter_map(|start| bytes.get(start..)).find(|rest| rest.starts_with(MAGIC));
        if let Some(release) = note.and_then(read) {
            return Some(release);
        }
        at += WINDOW;
    }
    None
}

fn read(note: &[u8]) -> Option<Release> {
    let length = *note.get(TEXT)?;
    if note.get(FLAGS)? & INLINE == 0 || length & 0x80 != 0 {
        return None;
    }
    let text = note.get(TEXT + 1..TEXT + 1 + usize::from(length))?;
    Release::parse(str::from_utf8(text).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_and_candidates_of_them_have_their_minor() {
        let minor = |text| Release::parse(text).map(|release| release.minor);
        assert_eq!((minor("go1.22.10"), minor("go1.27rc1")), (Some(22), Some(27)));
        assert_eq!(minor("go1.24.3 X:synchashtriemap"), Some(24));
        assert_eq!((minor("devel +abc"), minor("go2.1"), minor("go1.")), (None, None, None));
    }

    #[test]
    fn a_note_that_is_cut_off_or_of_another_form_tells_nothing() {
        let mut note = Vec::from(MAGIC);
        note.extend([8, INLINE]);
        note.resize(TEXT, 0);
        note.push(6);
        note.extend(b"go1.19");
        assert_eq!(read(&note).map(|release| release.minor), Some(19));
        assert_eq!(read(&note[..note.len() - 1]), None);
        note[FLAGS] = 0;
        assert_eq!(read(&note), None);
    }
}
