//! Which files of the spool go: the oldest, until the rest is small and young enough.

use std::path::PathBuf;

/// What is there as long as all of it: a file, or the files of one session's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its files, in the order in which they go.
    pub paths: Vec<PathBuf>,
    /// How large they are together.
    pub bytes: u64,
    /// When the last was written, in seconds since 1970.
    pub at: u64,
}

/// What is too much.
pub fn excess(mut all: Vec<Kept>, most_bytes: u64, oldest: u64) -> Vec<Kept> {
    all.sort_by(|a, b| (b.at, &b.paths).cmp(&(a.at, &a.paths)));
    let mut sum = 0_u64;
    // Once one has no room, older ones have none either.
    let mut is_full = false;
    let goes = all.into_iter().filter(|kept| {
        sum = sum.saturating_add(kept.bytes);
        is_full |= sum > most_bytes || kept.at < oldest;
        is_full
    });
    goes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_day_of_slots_stays_within_bytes_and_age(
            sizes in proptest::collection::vec(0_u64..5000, 1440),
        ) {
            let mut files: Vec<Kept> = Vec::new();
            for (minute, bytes) in sizes.into_iter().enumerate() {
                let at = minute as u64 * 60;
                files.push(Kept { paths: vec![format!("{minute}").into()], bytes, at });
                let oldest = at.saturating_sub(3600);
                let gone = excess(files.clone(), 40_000, oldest);
                files.retain(|file| !gone.contains(file));
                assert!(files.iter().map(|file| file.bytes).sum::<u64>() <= 40_000);
                assert!(files.iter().all(|file| file.at >= oldest) && files.len() <= 61);
                assert!(files.iter().any(|file| file.at == at));
            }
        }
    }
}
