//! Writes a moment.

use std::io::{self, Write};

use flate2::{Compression, write::DeflateEncoder};
use heapattach_report::{AskedReport, CensusReport};

use super::{HEAD, LIMIT, Moment, TITLE, VERSION, limits::LARGEST, private::without_addresses};

/// The file, whole.
///
/// # Errors
/// Its names are longer than a reader takes.
pub fn encode(report: &CensusReport, version: &str) -> io::Result<Vec<u8>> {
    let mut moment = Moment { version: version.to_owned(), census: report.clone() };
    without_addresses(&mut moment.census);
    // Contents are in no file.
    moment.census.asked = AskedReport::default();
    moment.census.unreachable.iter_mut().flat_map(|found| &mut found.groups).for_each(|group| {
        group.head = None;
    });
    // The largest number stands for sizes of which there are too many to tell them apart.
    moment.census.sizes.iter_mut().for_each(|row| row.size = row.size.min(LARGEST));
    let content = loop {
        let content = serde_json::to_vec(&moment)?;
        if content.len() <= LIMIT {
            break content;
        }
        if !halve(&mut moment.census) {
            return Err(io::Error::other("its names are longer than a moment file takes"));
        }
    };
    let mut file = [TITLE, VERSION.to_string().as_bytes(), b"\n"].concat();
    let start = file.len();
    file.resize(start + HEAD, 0);
    let mut encoder = DeflateEncoder::new(file, Compression::default());
    encoder.write_all(&content)?;
    let mut file = encoder.finish()?;
    let number = |bytes: usize| u32::try_from(bytes).map_err(io::Error::other);
    let head =
        [number(file.len() - start - HEAD)?, number(content.len())?, crc32fast::hash(&content)];
    for (place, number) in file[start..start + HEAD].chunks_exact_mut(4).zip(head) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    Ok(file)
}

/// Leaves out the smaller half of the longest lists; what is left of a tree stays one.
fn halve(census: &mut CensusReport) -> bool {
    let holders = census.holders.as_mut().map(|found| &mut found.holders);
    let mut longest = census.sizes.len().max(census.classes.len()).max(census.mappings.len());
    longest = longest.max(holders.as_ref().map_or(0, |rows| rows.len()));
    let go = census.go.as_mut().map(|go| &mut go.holders);
    longest = longest.max(go.as_ref().map_or(0, |rows| rows.len()));
    let most = longest / 2;
    census.sizes.truncate(most);
    census.classes.truncate(most);
    census.mappings.truncate(most);
    // Each row comes behind the one that it goes on from.
    if let Some(rows) = holders {
        rows.truncate(most);
    }
    if let Some(rows) = go {
        rows.truncate(most);
    }
    most > 0
}
