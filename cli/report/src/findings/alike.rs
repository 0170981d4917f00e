//! What is the same of several processes is told once.

use std::collections::HashMap;
use std::hash::Hash;

/// The items, those with one key together, in the order in which the first of each came.
pub fn alike<T, K: Hash + Eq>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<Vec<T>> {
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in items {
        let place = *places.entry(key(&item)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// Which processes: `4711 (app)`, or how many if there are more.
pub fn who(pid: i32, program: &str, number: usize) -> String {
    match (number, pid) {
        (0 | 1, 0) => program.to_owned(),
        (0 | 1, pid) => format!("{pid} ({program})"),
        (number, _) => format!("{number} x {program}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_one_key_comes_together_and_keeps_its_order() {
        assert_eq!(alike([3, 14, 5, 24, 13], |n| n % 10), [vec![3, 13], vec![14, 24], vec![5]]);
        assert!(alike([0; 0], |n| *n).is_empty());
        assert_eq!(who(7, "app", 1), "7 (app)");
        assert_eq!(who(7, "app", 50), "50 x app");
        assert_eq!(who(0, "3 processes", 1), "3 processes");
    }
}
