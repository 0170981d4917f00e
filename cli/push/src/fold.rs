//! As many stacks as a backend takes: the small ones together, under `other`.

use heapattach_export::{Place, StackRow};

/// The rows that have something, `most` at most (1 is the least); how many are together in the last of them, if some are.
pub fn fold(mut rows: Vec<StackRow>, most: usize) -> (Vec<StackRow>, usize) {
    rows.retain(|row| row.values.iter().any(|value| *value > 0));
    if rows.len() <= most.max(1) {
        return (rows, 0);
    }
    let columns = rows.iter().map(|row| row.values.len()).max().unwrap_or(0);
    let mut totals = vec![0_u64; columns];
    for row in &rows {
        totals
            .iter_mut()
            .zip(&row.values)
            .for_each(|(sum, value)| *sum = sum.saturating_add(*value));
    }
    // A stack is as large as its largest share of anything.
    #[allow(clippy::cast_precision_loss)]
    let share = |row: &StackRow| {
        let shares = row
            .values
            .iter()
            .zip(&totals)
            .map(|(value, total)| *value as f64 / (*total).max(1) as f64);
        shares.fold(0.0, f64::max)
    };
    rows.sort_by_cached_key(|row| std::cmp::Reverse(share(row).to_bits()));
    let small = rows.split_off(most.max(1) - 1);
    let mut other = StackRow { place: Place::Other, values: vec![0; columns] };
    for row in &small {
        other
            .values
            .iter_mut()
            .zip(&row.values)
            .for_each(|(sum, value)| *sum = sum.saturating_add(*value));
    }
    rows.push(other);
    (rows, small.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(stack: u32, values: [u64; 2]) -> StackRow {
        StackRow { place: Place::Stack(stack), values: values.to_vec() }
    }

    #[test]
    fn the_small_ones_are_together_and_what_is_large_in_one_respect_is_not_small() {
        let rows = vec![
            row(0, [1, 1]),
            row(1, [1000, 0]),
            row(2, [0, 0]),
            row(3, [2, 1]),
            row(4, [0, 50]),
        ];
        let (rows, together) = fold(rows, 3);
        let places: Vec<_> = rows.iter().map(|row| row.place).collect();
        assert_eq!(places, [Place::Stack(1), Place::Stack(4), Place::Other]);
        assert_eq!((together, &rows[2].values[..]), (2, &[3, 2][..]));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(values in prop::collection::vec((0..1_u64 << 50, 0..1_u64 << 20), 0..60), most in 0_usize..20) {
            let rows: Vec<_> = (0..).zip(&values).map(|(at, (a, b))| row(at, [*a, *b])).collect();
            let sum = |rows: &[StackRow], at: usize| rows.iter().map(|row| row.values[at]).sum::<u64>();
            let (folded, _) = fold(rows.clone(), most);
            prop_assert!(folded.len() <= most.max(1));
            for at in 0..2 {
                prop_assert_eq!(sum(&folded, at), sum(&rows, at));
            }
        }
    }
}
