//! A recording made smaller: what happened goes, older snapshots and moments are thinned out, and of
//! what is replaced only the last stays. So a session can last for months.

use std::{collections::BTreeSet, fs::File, io};

use serde::{Serialize, de::DeserializeOwned};

use crate::format::{
    block::{self, Content, Effort, Place},
    disk::Disk,
    snapshot,
};
use heapattach_ledger::{Mark, Moment};
use heapattach_profile::{RowId, Sheet, Snapshot};

/// With more, every second of the older half is left out.
const SNAPSHOTS: usize = 64;
const MOMENTS: usize = 2048;
const MARKS: usize = 2048;
/// No snapshot has more rows.
const ROWS: usize = 1 << 22;

/// Copies these blocks behind the first line of a file; answers where it ends, and the blocks.
pub fn compact(
    disk: &dyn Disk,
    places: &[Place],
    file: &File,
    limit: u64,
) -> io::Result<(u64, Vec<Place>)> {
    let mut copy = Copy { file, end: block::title().len() as u64, places: Vec::new() };
    let mut snapshots: Vec<Vec<Place>> = vec![Vec::new()];
    let (mut moments, mut marks): (Vec<Moment>, Vec<Mark>) = Default::default();
    let last_of = |content| places.iter().rposition(|place| place.content == content);
    for (number, place) in places.iter().enumerate() {
        let content = place.content;
        match content {
            Content::Changes => {}
            Content::Moments => moments.extend(json::<Moment>(disk, place)?),
            Content::Marks => marks.extend(json::<Mark>(disk, place)?),
            Content::Snapshot => {
                let (_, is_last) = snapshot::head(&read(disk, place)?).ok_or_else(nonsense)?;
                snapshots.last_mut().into_iter().for_each(|pieces| pieces.push(*place));
                if is_last {
                    snapshots.push(Vec::new());
                }
            }
            _ if content.is_replaced() && last_of(content) != Some(number) => {}
            _ => copy.copy(disk, place)?,
        }
    }
    // One that has not come to its end is none.
    snapshots.pop();
    for group in thinned(&snapshots, limit / 2) {
        match group {
            [one] => one.iter().try_for_each(|place| copy.copy(disk, place))?,
            group => {
                for piece in merged(disk, group)? {
                    copy.put(Content::Snapshot, &piece)?;
                }
            }
        }
    }
    thin(&mut moments, MOMENTS);
    thin(&mut marks, MARKS);
    copy.put_json(Content::Moments, &moments)?;
    copy.put_json(Content::Marks, &marks)?;
    Ok((copy.end, copy.places))
}

/// A file that is being written.
struct Copy<'a> {
    file: &'a File,
    end: u64,
    places: Vec<Place>,
}

impl Copy<'_> {
    fn copy(&mut self, disk: &dyn Disk, place: &Place) -> io::Result<()> {
        let mut bytes = vec![0; block::HEAD + place.stored as usize];
        disk.read(&mut bytes, place.at)?;
        self.append(&bytes)
    }

    fn put(&mut self, content: Content, bytes: &[u8]) -> io::Result<()> {
        self.append(&block::encode(content, bytes, Effort::Usual).ok_or_else(nonsense)?)
    }

    fn put_json<T: Serialize>(&mut self, content: Content, items: &[T]) -> io::Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        self.put(content, &serde_json::to_vec(items)?)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write(bytes, self.end)?;
        let place = block::place_of(self.end, bytes).ok_or_else(nonsense)?;
        self.end = place.end();
        self.places.push(place);
        Ok(())
    }
}

/// In the older half only every second; the first and the last stay as long as there is a choice.
fn thin<T>(items: &mut Vec<T>, most: usize) {
    while items.len() > most {
        let half = items.len() / 2;
        if half < 2 {
            items.remove(0);
            continue;
        }
        let mut number = 0;
        items.retain(|_| {
            number += 1;
            number > half || number % 2 == 1
        });
    }
}

/// Which snapshots become one, so that they are neither too many nor too large.
fn thinned(all: &[Vec<Place>], room: u64) -> Vec<&[Vec<Place>]> {
    let mut ends: Vec<usize> = (1..=all.len()).collect();
    thin(&mut ends, SNAPSHOTS);
    // The newer a snapshot is, the more it says that no other does.
    let size = |group: &[Vec<Place>]| {
        let pieces = group.iter().map(|pieces| pieces.iter().map(|p| u64::from(p.stored)).sum());
        pieces.max().unwrap_or(0_u64)
    };
    loop {
        let begins = std::iter::once(0).chain(ends.iter().copied());
        let groups: Vec<_> = begins.zip(&ends).map(|(begin, &end)| &all[begin..end]).collect();
        let bytes: u64 = groups.iter().map(|group| size(group)).sum();
        if bytes <= room || ends.len() <= 1 {
            return groups;
        }
        let most = ends.len() - 1;
        thin(&mut ends, most);
    }
}

/// Several snapshots as one: the last of them, with what only earlier ones say.
fn merged(disk: &dyn Disk, group: &[Vec<Place>]) -> io::Result<Vec<Vec<u8>>> {
    let mut now = 0;
    let mut pieces = Vec::new();
    for place in group.iter().flatten() {
        let content = read(disk, place)?;
        now = snapshot::head(&content).ok_or_else(nonsense)?.0;
        pieces.push(snapshot::decode(&content, ROWS).ok_or_else(nonsense)?);
    }
    let all = pieces.iter().flat_map(|piece| piece.rows.iter().map(|(id, _)| *id));
    let ids: Vec<RowId> = all.chain([RowId(0)]).collect::<BTreeSet<_>>().into_iter().collect();
    let number = |id: RowId| ids.binary_search(&id).unwrap_or(0);
    let mut sheet = Sheet::new(ids.len(), 0);
    sheet.rows.extend(ids.iter().skip(1).map(|_| 0));
    for Snapshot { total, has_new_peak, rows } in pieces {
        let small = |(id, row)| (RowId(u32::try_from(number(id)).unwrap_or(0)), row);
        let rows = rows.into_iter().map(small).collect();
        sheet.resume(Snapshot { total, has_new_peak, rows });
    }
    let Snapshot { total, has_new_peak, rows } = sheet.snapshot();
    let rows = rows.into_iter().map(|(RowId(number), row)| (ids[number as usize], row)).collect();
    Ok(snapshot::encode(now, &Snapshot { total, has_new_peak, rows }))
}

fn read(disk: &dyn Disk, place: &Place) -> io::Result<Vec<u8>> {
    block::read(disk, place).ok_or_else(nonsense)
}

fn json<T: DeserializeOwned>(disk: &dyn Disk, place: &Place) -> io::Result<Vec<T>> {
    Ok(serde_json::from_slice(&read(disk, place)?)?)
}

/// Another process writes to the file.
fn nonsense() -> io::Error {
    io::Error::other("what was written there is not there any more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_things_are_the_further_they_are_apart() {
        let mut items: Vec<u32> = Vec::new();
        for item in 0..100_000 {
            items.push(item);
            thin(&mut items, 16);
        }
        assert!(items.len() <= 16 && *items.last().unwrap() == 99_999, "{items:?}");
        let apart: Vec<_> = items.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(apart[0] > 1000 && *apart.last().unwrap() < 10, "{apart:?}");
    }
}
