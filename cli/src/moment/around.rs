//! What a session is told with `--census`: what all memory was before it and after it, and what grew
//! meanwhile. The two moments are kept beside the recording.

use std::path::{Path, PathBuf};

use heapattach_files::output_file::{self, Readers};
use heapattach_ledger::About;
use heapattach_moment::{Difference, Moment};
use heapattach_recording::Recording;
use heapattach_report::{CensusReport, PlacedSites, SitesReport, Status};
use heapattach_session::heap::both_ends::BothEnds;
use heapattach_text::{error_chain::with_causes, quantity::time};
use heapattach_view::{Page, quoted, tell_difference, tell_placed_sites};
use serde::Serialize;

use super::is_interrupted;
use crate::output::complain;

/// Rows of each kind that a report has.
const ROWS: usize = 5;
/// What the names of the two files end with, in the place of `.heapattach`.
const ENDINGS: [&str; 2] = ["before.heapattach-moment", "after.heapattach-moment"];
/// In milliseconds; a session begins so soon after its first moment.
const SECOND: u64 = 1000;
const LONGEST: u64 = 600_000;
/// That of the recording.
const RECORDING: &str = "heapattach";
const NAMES: [&str; 2] = ["before", "after"];

/// The moments of one session.
#[derive(Debug)]
pub struct Around {
    taker: BothEnds,
    taken: Vec<Moment>,
    redact: bool,
}

/// It is watched what is written.
#[derive(Clone, Copy, Debug)]
pub struct Watched;

/// What came of it, for JSON.
#[derive(Debug, Serialize)]
pub struct CensusOfSession {
    /// Microseconds that each of the two stopped the process.
    pub stopped_us: Vec<f64>,
    /// The files, where they are kept.
    pub files: Vec<PathBuf>,
    /// What became different, if both could be taken.
    pub difference: Option<Difference>,
    /// What the recorded blocks occupy and keep, by who allocated them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sites: Option<PlacedSites>,
}

impl Around {
    /// Takes the first.
    ///
    /// # Errors
    /// Why it cannot be taken: the session should not begin.
    pub fn begin(taker: BothEnds, redact: bool) -> Result<Self, (Status, String)> {
        let mut around = Self { taker, taken: Vec::new(), redact };
        around.take(None).map(|()| around)
    }

    fn take(&mut self, watched: Option<Watched>) -> Result<(), (Status, String)> {
        let census = match watched {
            Some(Watched) => self.taker.take_watched(is_interrupted),
            None => self.taker.take(),
        };
        let Some(mut census) = census else {
            let why = "the process that takes the census died; clean up with heapattach detach";
            return Err((Status::Left, why.to_owned()));
        };
        if let Some(why) = census.error {
            return Err((census.status, why));
        }
        if self.redact {
            census.command.clear();
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.taken.push(Moment { version, census });
        Ok(())
    }

    /// Takes the second, and keeps both beside the recording, if there is one with a name; names of who
    /// allocated are out of what was `written`.
    /// It is watched before it what is written, if that is `watched`, and the session was not interrupted.
    pub fn end(
        mut self,
        watched: Option<Watched>,
        recording: Option<&Path>,
        written: Option<Recording>,
    ) -> CensusOfSession {
        let watched = watched.filter(|_| !is_interrupted());
        if let Err((_, why)) = self.take(watched) {
            complain(&format!("no census after the session: {why}"));
        }
        let stopped = self.taken.iter().map(|moment| moment.census.moment.stopped_us);
        let stopped_us = stopped.collect();
        let after = self.taken.get(1).and_then(|moment| moment.census.sites.as_ref());
        let sites = after.zip(written).map(|(sites, recording)| placed(sites, &recording));
        let files = recording.map_or_else(Vec::new, |recording| self.keep(recording));
        let named: Vec<(String, Moment)> =
            NAMES.iter().map(|name| (*name).to_owned()).zip(self.taken).collect();
        let difference = (named.len() == NAMES.len()).then(|| Difference::of(&named));
        CensusOfSession { stopped_us, files, difference, sites }
    }

    fn keep(&self, recording: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for (path, moment) in beside(recording).into_iter().zip(&self.taken) {
            let file = heapattach_moment::encode(&moment.census, &moment.version);
            let file = file.map_err(|error| error.to_string());
            match file.and_then(|file| output_file::write(&path, file, Readers::Owner)) {
                Ok(()) => files.push(path),
                Err(error) => complain(&error),
            }
        }
        files
    }
}

impl CensusOfSession {
    /// As text, behind the report.
    pub fn tell(&self, page: Page) -> String {
        let Some(difference) = &self.difference else { return String::new() };
        let mut cost = page.clone();
        let micros =
            |us: &f64| std::time::Duration::try_from_secs_f64(us / 1e6).unwrap_or_default();
        let stops: Vec<String> = self.stopped_us.iter().map(|us| time(micros(us))).collect();
        let text =
            format!("taken before and after the session; stopped for {}", stops.join(" and "));
        cost.gap();
        cost.prose("CENSUS", heapattach_view::Ink::Bold, &text);
        let files: Vec<_> = self.files.iter().map(|file| quoted(&file.to_string_lossy())).collect();
        if files.len() == NAMES.len() {
            cost.command("", &format!("heapattach diff {}", files.join(" ")));
        }
        let sites = self.sites.as_ref();
        let sites = sites.map(|sites| tell_placed_sites(sites, ROWS, page.clone()));
        cost.finish() + &tell_difference(difference, ROWS, page) + &sites.unwrap_or_default()
    }
}

/// The moments that are kept beside a recording, if they are those of this session: a file of that name can be
/// older.
pub fn kept(recording: &Path, about: &About) -> Option<CensusOfSession> {
    let files = beside(recording);
    let named = NAMES.iter().zip(&files).map(|(name, file)| {
        let moment = heapattach_moment::read(file).ok()?;
        Some(((*name).to_owned(), moment))
    });
    let named: Option<Vec<(String, Moment)>> = named.collect();
    let named = named.filter(|named| is_of(named, about))?;
    let stopped_us = named.iter().map(|(_, moment)| moment.census.moment.stopped_us).collect();
    let difference = Some(Difference::of(&named));
    let after = named.last().and_then(|(_, moment)| moment.census.sites.as_ref());
    let sites = after.and_then(|sites| Some(placed(sites, &Recording::open(recording).ok()?)));
    Some(CensusOfSession { stopped_us, files: files.to_vec(), difference, sites })
}

/// What the blocks of a session occupy and keep, where a file is the second moment of one: with names, if its recording
/// is there.
///
/// # Errors
/// Why there are no names.
pub fn sites_of(file: &Path, census: &CensusReport) -> Option<Result<PlacedSites, String>> {
    let sites = census.sites.as_ref()?;
    let name = file.to_str()?;
    let recording = match name.strip_suffix(ENDINGS[1]) {
        Some(start) => PathBuf::from(format!("{start}{RECORDING}")),
        None => {
            let what = format!("need its first name, which ends with .{}", ENDINGS[1]);
            return Some(Err(format!(
                "who allocated them is in the recording of the session: {what}"
            )));
        }
    };
    let read = Recording::open(&recording).map_err(|error| {
        format!("who allocated them is in {}: {}", recording.display(), with_causes(&error))
    });
    Some(read.and_then(|read| {
        let about = &read.ledger_with_rows().0.about;
        match census.pid == about.pid
            && census.moment.taken_ms.is_some_and(|after| is_soon(about, after))
        {
            true => Ok(placed(sites, &read)),
            false => Err(format!("{} is of another session", recording.display())),
        }
    }))
}

/// Whether that is right after a session.
fn is_soon(about: &About, after: u64) -> bool {
    let ended = about.began.saturating_mul(1000).saturating_add(about.lasted_ms);
    ended <= after.saturating_add(SECOND) && after <= ended.saturating_add(LONGEST)
}

/// With the names that the recording has.
fn placed(sites: &SitesReport, recording: &Recording) -> PlacedSites {
    let (mut ledger, places) = recording.ledger_with_rows();
    ledger.shorten_names();
    sites.placed(&ledger, |row| places.stack(row))
}

/// Whether a session lies between two moments of its process.
fn is_of(named: &[(String, Moment)], about: &About) -> bool {
    let times: Vec<Option<u64>> =
        named.iter().map(|(_, moment)| moment.census.moment.taken_ms).collect();
    let [Some(before), Some(after)] = times[..] else { return false };
    let began = about.began.saturating_mul(1000);
    // The start is told in whole seconds.
    let is_before =
        before <= began.saturating_add(SECOND) && began <= before.saturating_add(LONGEST);
    let is_after = began.saturating_add(about.lasted_ms) <= after.saturating_add(SECOND);
    before < after
        && is_before
        && is_after
        && named.iter().all(|(_, moment)| moment.census.pid == about.pid)
}

fn beside(recording: &Path) -> [PathBuf; 2] {
    ENDINGS.map(|ending| recording.with_extension(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_lie_beside_the_recording() {
        let [before, after] = beside(Path::new("/tmp/redis.7.heapattach"));
        assert_eq!(before, Path::new("/tmp/redis.7.before.heapattach-moment"));
        assert_eq!(after, Path::new("/tmp/redis.7.after.heapattach-moment"));
    }
}
