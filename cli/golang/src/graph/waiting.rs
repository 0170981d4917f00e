//! Goroutines that wait for ever, by where they wait and who started them.

use std::collections::HashMap;

use super::{
    goroutine::Goroutine,
    heap::{Sum, index},
    leaks::Leaked,
};

/// Those that wait in one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The function that waits.
    pub function: String,
    /// The function that started them.
    pub created_by: String,
    /// How many.
    pub goroutines: u64,
    /// Objects that are reached by these alone; what several share counts once.
    pub retained: Sum,
    /// Bytes of their stacks.
    pub stacks: u64,
}

/// All of them, those that keep most first; `function` names the function that has an address.
pub fn by_place(
    leaked: &Leaked,
    goroutines: &[Goroutine],
    function: &dyn Fn(u64) -> Option<String>,
) -> Vec<Waiting> {
    let mut groups: HashMap<(String, String), Waiting> = HashMap::new();
    for (number, retained) in leaked.goroutines.iter().zip(&leaked.retained) {
        let Some(goroutine) = goroutines.get(index(*number)) else { continue };
        let key = (place(goroutine, function), function(goroutine.made_by).unwrap_or_default());
        let group = groups.entry(key).or_default();
        group.goroutines += 1;
        group.retained.objects += retained.objects;
        group.retained.bytes += retained.bytes;
        group.stacks += goroutine.stack_size;
    }
    let named = |((function, created_by), group)| Waiting { function, created_by, ..group };
    let mut groups: Vec<Waiting> = groups.into_iter().map(named).collect();
    groups.sort_by(|a, b| {
        let bytes = |group: &Waiting| group.retained.bytes + group.stacks;
        bytes(b).cmp(&bytes(a)).then_with(|| a.function.cmp(&b.function))
    });
    groups
}

/// The innermost function of the program itself.
fn place(goroutine: &Goroutine, function: &dyn Fn(u64) -> Option<String>) -> String {
    let mut names = goroutine.calls.iter().filter_map(|call| function(call.code));
    let own = names.find(|name| !name.starts_with("runtime."));
    own.or_else(|| function(goroutine.start)).unwrap_or_default()
}
