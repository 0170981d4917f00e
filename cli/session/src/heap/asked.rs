//! One arena, contents: looked for only if the user asks by name.

use std::time::Duration;

use heapattach_census::{Census, Moment, OneArena, Walker, contents, waste};
use heapattach_report::{ArenaDetail, ArenasReport, AskedReport, ContentsReport};

use super::HeapOptions;

/// Sizes and classes of an arena that are told.
const ROWS: usize = 50;
/// Names of arenas that are told where none fits.
const NAMES: usize = 10;

/// `--arena`: which one, and for how long its blocks are looked at for waste.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaWanted {
    /// As it was typed: `main`, `3`, `arena 3`.
    pub name: String,
    /// At most.
    pub limit: Duration,
}

/// Looks for it; `census` has the arenas of `walkers`.
pub(super) fn look(
    moment: &Moment<'_>,
    walkers: &[&dyn Walker],
    census: &Census,
    options: &HeapOptions,
) -> AskedReport {
    let counts = |class: Option<&str>, size: u64| options.filter.counts(class, size);
    let contents = options.show_contents.map(|length| ContentsReport {
        bytes: length as u64,
        rows: contents::look(moment, walkers, length, &counts),
    });
    AskedReport {
        arena: options.arena.as_ref().map(|wanted| arenas(moment, walkers, census, wanted)),
        contents,
    }
}

fn arenas(
    moment: &Moment<'_>,
    walkers: &[&dyn Walker],
    census: &Census,
    wanted: &ArenaWanted,
) -> ArenasReport {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for allocator in &census.allocators {
        let walker = walkers.iter().find(|walker| walker.name() == allocator.name);
        let (Some(walker), Ok(walk)) = (walker, &allocator.walk) else { continue };
        for (number, arena) in (0..).zip(&walk.arenas) {
            if !is_named(&arena.name, &wanted.name) {
                others.push(format!("{}: {}", allocator.name, arena.name));
                continue;
            }
            let one = OneArena::new(*walker, number);
            let census = Census::take(moment, &[&one]);
            found.push(ArenaDetail {
                allocator: allocator.name.to_owned(),
                arena: arena.name.clone(),
                sizes: census.sizes.largest(ROWS),
                different_sizes: census.sizes.len() as u64,
                classes: census.classes.iter().take(ROWS).cloned().collect(),
                pages: census.fill,
                waste: waste::look(moment, &[&one], wanted.limit),
            });
        }
    }
    let error = found.is_empty().then(|| none_of(&wanted.name, &others));
    ArenasReport { name: wanted.name.clone(), found, error }
}

/// Whether this is the arena that was typed: by its name, or the number at its end. The main one is number 0.
fn is_named(name: &str, wanted: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let last = name.rsplit(' ').next().and_then(number);
    let own = last.or((name == "main").then_some(0));
    name == wanted || number(wanted).is_some_and(|wanted| own == Some(wanted))
}

fn none_of(wanted: &str, names: &[String]) -> String {
    let rest = names.len().saturating_sub(NAMES);
    let more = if rest > 0 { format!(", and {rest} others") } else { String::new() };
    match names {
        [] => format!("no arena {wanted}: no allocator was recognised"),
        _ => {
            let some = names[..names.len().min(NAMES)].join(", ");
            format!("no arena {wanted}; need one of: {some}{more}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_is_named_by_its_number_or_its_name() {
        assert!(is_named("arena 3", "3") && is_named("arena 3", "arena 3"));
        assert!(is_named("main", "main") && is_named("main", "0"));
        assert!(!is_named("arena 13", "3") && !is_named("main", "1") && !is_named("mapped", "0"));
    }

    #[test]
    fn where_none_fits_those_that_there_are_are_told() {
        let names: Vec<String> = (0..12).map(|number| format!("glibc: arena {number}")).collect();
        let told = none_of("77", &names);
        assert!(told.starts_with("no arena 77; need one of: glibc: arena 0, "), "{told}");
        assert!(told.ends_with("glibc: arena 9, and 2 others"), "{told}");
    }
}
