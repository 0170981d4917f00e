//! Whole numbers for estimates, such that nothing is lost.
//!
//! Each estimate is rounded down or up. Up are rounded those with the largest remainders, as many as
//! are needed for all together to be the rounded total (Hamilton's way to give seats to parties).
//! What is whole stays as it is.

/// Nothing that can be allocated is more; sums of many remain numbers.
pub const MOST: f64 = (1_u64 << 60) as f64;

/// Whole numbers whose sum is `total`, rounded, if that is what `estimates` add up to. If they add up
/// to something else, so do the whole numbers.
pub fn apportion(estimates: &[f64], total: f64) -> Vec<u64> {
    let floor = |estimate: &f64| whole(clean(*estimate).floor());
    let mut parts: Vec<u64> = estimates.iter().map(floor).collect();
    let sum: f64 = estimates.iter().copied().map(clean).sum();
    // A sum of floating-point numbers in another order is another number.
    let goal = if (sum - total).abs() < 0.5 { total } else { sum };
    let known = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
    let missing = whole(goal.round()).saturating_sub(known);
    let remainder = |index: usize| clean(estimates[index]).fract();
    let mut rest: Vec<usize> = (0..parts.len()).filter(|&i| remainder(i) > 0.0).collect();
    rest.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)));
    let missing = usize::try_from(missing).unwrap_or(usize::MAX);
    rest.iter().take(missing).for_each(|&index| parts[index] += 1);
    parts
}

/// What an estimate counts: nothing, if it is no number.
pub fn clean(estimate: f64) -> f64 {
    if estimate > 0.0 { estimate.min(MOST) } else { 0.0 }
}

/// Of a number that is not negative, and that has no fraction.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_largest_remainders_are_rounded_up() {
        assert_eq!(apportion(&[1.2, 2.5, 3.3], 7.0), [1, 3, 3]);
        assert_eq!(apportion(&[0.4, 0.4, 0.4], 1.2), [1, 0, 0]);
        assert_eq!(apportion(&[5.0, 7.0], 12.0), [5, 7]);
        assert_eq!(apportion(&[], 0.0), Vec::<u64>::new());
    }

    #[test]
    fn what_is_no_number_counts_nothing() {
        assert_eq!(apportion(&[f64::NAN, -3.0, 2.0], f64::NAN), [0, 0, 2]);
        assert_eq!(apportion(&[f64::INFINITY], 1.0), [1 << 60]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(estimates in prop::collection::vec(0.0..1e9_f64, 0..200)) {
            let total = estimates.iter().rev().sum::<f64>();
            let parts = apportion(&estimates, total);
            prop_assert_eq!(parts.iter().sum::<u64>(), whole(total.round()));
            for (part, estimate) in parts.iter().zip(&estimates) {
                #[allow(clippy::cast_precision_loss)]
                let difference = (*part as f64 - estimate).abs();
                prop_assert!(difference <= 1.0);
            }
        }
    }
}
