//! Which of many points to try: all of them in the soak, a random spread of them in CI.

use std::time::{Duration, Instant};

use crate::{hazard::cycles, seed::Random};

/// From this many cycles on a run is a soak.
const SOAK: u64 = 100;
/// How long the points of one test may take in all, unless it is a soak.
const BUDGET: Duration = Duration::from_secs(12);

/// Whether this run is to leave nothing out.
///
/// # Panics
/// If `HEAPATTACH_CYCLES` is not a number.
pub fn is_soak() -> bool {
    cycles() >= SOAK
}

/// Points `1..=last` in random order, all in the soak, else at most `most` and until the time of
/// one test is used up.
///
/// # Panics
/// If `HEAPATTACH_CYCLES` is not a number.
pub fn points(last: u64, most: usize, random: &mut Random) -> impl Iterator<Item = u64> + use<> {
    let mut points: Vec<u64> = (1..=last).collect();
    for index in (1..points.len()).rev() {
        let other = random.between(0, index as u64 + 1);
        points.swap(index, usize::try_from(other).unwrap_or(index));
    }
    if !is_soak() {
        points.truncate(most);
    }
    let deadline = Instant::now() + BUDGET;
    points.into_iter().take_while(move |_| is_soak() || Instant::now() < deadline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_each_point_once() {
        let mut points: Vec<u64> = points(50, 100, &mut Random::new(7)).collect();
        points.sort_unstable();
        assert_eq!(points, (1..=50).collect::<Vec<_>>());
    }
}
