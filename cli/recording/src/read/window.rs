//! A part of a recording's time: the sums of it, and what is to be said where they are rough.

use std::{ops::Range, sync::atomic::Ordering::Relaxed, time::Duration};

use crate::Recording;
use crate::{
    format::{
        block::{self, Content, Place},
        coded_events,
        heading::{IN_SUMS, note_on_hole},
        snapshot, version1,
    },
    read::{ahead, part::Births},
};
use heapattach_profile::clock::Clock;
use heapattach_profile::{Change, Sheet, Tick, micros};
use heapattach_text::quantity::time;

/// Changes that are handed from one thread to the other at once.
const TOGETHER: usize = 2048;

impl Recording {
    /// The sums of a part of the time and of some blocks, when it begins, and what is to be said of
    /// it.
    pub(crate) fn sheet(
        &self,
        part: Option<&Range<u64>>,
        births: Option<&Births>,
    ) -> (Sheet, u64, Vec<String>) {
        let mut sheet = Sheet::new(self.table.rows.len(), Clock::temporary());
        sheet.rows.extend(self.table.rows.iter().skip(1).map(|&(_, thread)| thread));
        let end = part.map_or(u64::MAX, |part| part.end);
        let begin = part.map_or(0, |part| part.start);
        let logged_from = self.logged_from();
        let known_from = logged_from.unwrap_or_else(|| self.length());
        let (births, note) = births.map(|births| births.beyond(known_from)).unzip();
        let mut notes: Vec<String> = note.flatten().into_iter().collect();
        // What is freed was born in this time, too: the sheet sees to it.
        let is_meant = |now: u64, change: &Change| {
            births.as_ref().is_none_or(|births| births.contain(now, change))
        };
        let hole = self.context.heading.hole(begin, end);
        if begin > 0 && logged_from.is_some_and(|from| begin >= from) && hole.is_none() {
            sheet.begin_at(Tick::of(begin));
            self.changes_in(0, begin..end, is_meant, |changes| sheet.apply_all(changes));
            return (sheet, begin, notes);
        }
        // Sums do not tell ages: what came after them is told by what happened.
        let until = if births.is_some() { end.min(known_from) } else { end };
        let is_log = |place: &Place| place.content == Content::Changes;
        let known = self.course.iter().position(|(now, _)| *now > until);
        let to = known.unwrap_or(self.course.len());
        let last = self.snapshot_before(to).map_or(0, |at| at + 1);
        let is_wanted = births.as_ref().is_none_or(|births| births.reach_before(known_from));
        let sums = self.course[..last].iter().filter(|(_, place)| !is_log(place) && is_wanted);
        for (_, place) in sums {
            let content = block::read(&self.file, place);
            let piece = content.and_then(|text| snapshot::decode(&text, self.table.rows.len()));
            if let Some(piece) = piece {
                sheet.resume(piece);
            }
        }
        self.changes_in(last, 0..end, is_meant, |changes| sheet.apply_all(changes));
        let is_rough = logged_from.is_none_or(|from| begin > 0 || end < from);
        notes.extend(self.roughness(hole, part.is_some() && is_rough, to));
        (sheet, 0, notes)
    }

    /// What is to be said where sums stand for what happened in the time that was asked for; `to` is
    /// where in the course it ends.
    pub(super) fn roughness(
        &self,
        hole: Option<[u64; 2]>,
        is_rough: bool,
        to: usize,
    ) -> Option<String> {
        let sums = "these are the sums from the beginning of the session to a snapshot";
        match hole {
            Some(hole) => Some(note_on_hole(hole, if is_rough { sums } else { IN_SUMS })),
            None if is_rough => Some(format!(
                "what happened in that time had to make room: {sums}{}",
                self.spacing(to)
            )),
            None => None,
        }
    }

    /// How far apart the snapshots are before a place in the course; they are thinned out.
    fn spacing(&self, to: usize) -> String {
        let is_log = |place: &Place| place.content == Content::Changes;
        let before = self.course.iter().take(to).filter(|(_, place)| !is_log(place));
        let mut times: Vec<u64> = before.map(|(now, _)| *now).collect();
        times.dedup();
        let next = self.course.iter().skip(to).find(|(_, place)| !is_log(place));
        match (times.as_slice(), next) {
            ([.., last], Some((next, _))) | ([.., last, next], None) => {
                let apart = Duration::from_micros(micros(next.saturating_sub(*last)));
                format!("; they are {} apart there", time(apart))
            }
            _ => String::new(),
        }
    }

    /// From when on it is known what happened; before there are only sums. `None`: there are no
    /// others.
    pub(crate) fn logged_from(&self) -> Option<u64> {
        let first = self.course.iter().position(|(_, place)| place.content == Content::Changes)?;
        Some(self.snapshot_before(first).map_or(0, |at| self.course[at].0))
    }

    /// Where in the course the last snapshot before `to` is.
    pub(super) fn snapshot_before(&self, to: usize) -> Option<usize> {
        self.course[..to].iter().rposition(|(_, place)| place.content == Content::Snapshot)
    }

    /// Tells what happened in one block, as long as `tell` wants more; whether it makes sense.
    pub(super) fn changes_of(
        &self,
        decoder: &mut Decoder,
        place: &Place,
        tell: impl FnMut(u64, &Change) -> bool,
    ) -> bool {
        let Some(content) = block::read(&self.file, place) else { return false };
        self.bytes_read.fetch_add(u64::from(place.stored), Relaxed);
        if self.version > 1 && is_folded_twice(place, &content) {
            return false;
        }
        // Nonsense in a block that is whole was written on purpose; what came before counts.
        let _ = decoder.decode(&content, tell);
        true
    }

    /// Tells what happened in this time, from a place in the course on, if it is meant.
    pub(crate) fn changes_in(
        &self,
        from: usize,
        time: Range<u64>,
        is_meant: impl Fn(u64, &Change) -> bool + Send + Sync,
        mut tell: impl FnMut(&[(u64, Change)]),
    ) {
        self.changes_while(from, time, is_meant, |changes| {
            tell(changes);
            true
        });
    }

    /// The same as long as `tell` wants more.
    pub(crate) fn changes_while(
        &self,
        from: usize,
        time: Range<u64>,
        is_meant: impl Fn(u64, &Change) -> bool + Send + Sync,
        mut tell: impl FnMut(&[(u64, Change)]) -> bool,
    ) {
        let mut decoder = Decoder::of(self.version);
        let log = self.course[from..].iter().filter(|(_, place)| place.content == Content::Changes);
        let log = log.take_while(|(begin, _)| *begin < time.end);
        let read = |give: &mut dyn FnMut(Vec<(u64, Change)>) -> bool| {
            let (mut changes, mut is_wanted) = (Vec::with_capacity(TOGETHER), true);
            for (_, place) in log.clone() {
                let is_told = self.changes_of(&mut decoder, place, |now, change| {
                    if now >= time.start && now < time.end && is_meant(now, change) {
                        changes.push((now, *change));
                    }
                    if changes.len() == TOGETHER {
                        let next = Vec::with_capacity(TOGETHER);
                        is_wanted = give(std::mem::replace(&mut changes, next));
                    }
                    is_wanted && now < time.end
                });
                if !is_told || !is_wanted {
                    break;
                }
            }
            give(changes);
        };
        ahead::each(read, |changes| tell(&changes));
    }
}

/// Whether a block that a model has made small was made smaller still. Our writer never does that: there
/// is nothing to be found in it. A byte of the file would stand for a million changes.
fn is_folded_twice(place: &Place, content: &[u8]) -> bool {
    !coded_events::is_plain(content) && place.stored < place.length
}

/// Reads changes of one of the versions.
#[derive(Debug)]
pub(super) enum Decoder {
    Version1(version1::Decoder),
    /// Made when there is something to be decoded: its tables are large.
    Current(Option<Box<coded_events::Decoder>>),
}

impl Decoder {
    pub(super) fn of(version: u32) -> Self {
        match version {
            1 => Self::Version1(version1::Decoder::default()),
            _ => Self::Current(None),
        }
    }

    fn decode(&mut self, content: &[u8], tell: impl FnMut(u64, &Change) -> bool) -> Option<()> {
        match self {
            Self::Version1(decoder) => decoder.decode(content, tell),
            Self::Current(decoder) => decoder.get_or_insert_default().decode(content, tell),
        }
    }
}
