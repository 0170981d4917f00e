//! Which files of the spool go: the oldest, until the rest is small and young enough.

use std::path::PathBuf;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where.
    pub path: PathBuf,
    /// How large.
    pub bytes: u64,
    /// When it was written, in seconds since 1970.
    pub at: u64,
}

/// The files that are too many.
pub fn excess(mut files: Vec<Kept>, most_bytes: u64, oldest: u64) -> Vec<PathBuf> {
    files.sort_by(|a, b| (b.at, &b.path).cmp(&(a.at, &a.path)));
    let mut sum = 0_u64;
    // Once one has no room, older ones have none either.
    let mut is_full = false;
    let goes = files.into_iter().filter(|file| {
        sum = sum.saturating_add(file.bytes);
        is_full |= sum > most_bytes || file.at < oldest;
        is_full
    });
    goes.map(|file| file.path).collect()
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
                files.push(Kept { path: format!("{minute}").into(), bytes, at });
                let oldest = at.saturating_sub(3600);
                let gone = excess(files.clone(), 40_000, oldest);
                files.retain(|file| !gone.contains(&file.path));
                assert!(files.iter().map(|file| file.bytes).sum::<u64>() <= 40_000);
                assert!(files.iter().all(|file| file.at >= oldest) && files.len() <= 61);
                assert!(files.iter().any(|file| file.at == at));
            }
        }
    }
}
