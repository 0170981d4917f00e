//! What a share of many measurements does not exceed.

/// The least measurement that is not below so many thousandths of them; 0 if there are none.
#[must_use]
pub fn rank(values: &[f64], thousandths: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let number = (sorted.len() * thousandths).div_ceil(1000).max(1);
    sorted.get(number - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_thousand_one_may_be_above() {
        let values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        let ranks = [500, 990, 999, 1000].map(|thousandths| rank(&values, thousandths));
        assert_eq!(ranks, [500.0, 990.0, 999.0, 1000.0]);
        assert_eq!((rank(&[7.0], 500), rank(&[], 999)), (7.0, 0.0));
    }
}
