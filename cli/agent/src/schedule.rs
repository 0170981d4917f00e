//! Looks at processes that a rule asks for from time to time: which are due. A look counts from its beginning, and the
//! first is due when the process is as old as the time between two: what has just begun has nothing to show, and what
//! begins again and again is not looked at each time.

use std::time::Duration;

use crate::{
    config::Rule,
    decide::{Action, Decision},
    facts::Facts,
    look::{Look, Looked},
};

/// A look that a rule asks for.
#[derive(Clone, Copy, Debug)]
pub struct Scheduled<'a> {
    /// The process.
    pub process: &'a Facts,
    /// The rule.
    pub rule: &'a Rule,
    /// At what.
    pub look: Look,
    /// So long after each other.
    pub every: Duration,
    /// In so many seconds it is due; 0 is now.
    pub left: u64,
    /// How many times as long as it should the last one is past.
    overdue: f64,
}

impl Rule {
    /// How often it has that looked at, if it does.
    pub fn schedule(&self, look: Look) -> Option<Duration> {
        match look {
            Look::Allocator => self.allocator,
            Look::Census => self.census,
        }
    }
}

/// What is scheduled for one process.
pub fn scheduled<'a>(one: &Decision<'a>, looked: &[Looked], now: u64) -> Vec<Scheduled<'a>> {
    let Decision { process, rule, .. } = *one;
    let of = |look| {
        let every = rule.schedule(look)?;
        let mut before = looked.iter().filter(|old| old.key() == process.key && old.look == look);
        let since = before.next().map_or(process.age.as_secs(), |old| now.saturating_sub(old.at));
        let (whole, left) = (every.as_secs().max(1), every.as_secs().saturating_sub(since));
        #[allow(clippy::cast_precision_loss)]
        let overdue = since as f64 / whole as f64;
        Some(Scheduled { process, rule, look, every, left, overdue })
    };
    Look::ALL.into_iter().filter_map(of).collect()
}

/// What is due now, what waits for longest first; nothing of processes that are refused.
pub fn due<'a>(all: &[Decision<'a>], looked: &[Looked], now: u64) -> Vec<Scheduled<'a>> {
    let open = all.iter().filter(|one| !matches!(one.action, Action::Refuse(_)));
    let mut due: Vec<_> =
        open.flat_map(|one| scheduled(one, looked, now)).filter(|one| one.left == 0).collect();
    due.sort_by(|a, b| {
        let order = b.overdue.total_cmp(&a.overdue);
        order.then(a.process.key.cmp(&b.process.key)).then(a.look.cmp(&b.look))
    });
    due
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap, HashSet};

    use super::*;
    use crate::{
        config::Config,
        decide::decide,
        facts::{Key, Machine},
        state::{MOST, State},
    };

    const FILE: &str = "version = 1\n[admission]\nmax-targets = 100\n[[rule]]\nname = 'web'\n\
                        process = 'web*'\nallocator = '10m'\ncensus = '6h'\n";

    fn web(pid: i32, age: u64) -> Facts {
        let (key, name) = (Key { pid, start: 7 }, format!("web-{pid}"));
        Facts { key, name, age: Duration::from_secs(age), ..Facts::default() }
    }

    fn at(config: &Config, state: &State, now: u64, all: &[Facts]) -> Vec<(i32, Look)> {
        let machine = Machine { now, processors: 2, pressure: None };
        let (none, paused) = (HashSet::new(), HashMap::new());
        let all = decide(config, state, &machine, all, &none, &paused, &mut BTreeMap::new());
        let due = due(&all, &state.looked, now);
        due.iter().map(|one| (one.process.key.pid, one.look)).collect()
    }

    #[test]
    fn the_first_is_due_when_the_process_is_old_enough_and_refused_ones_are_not_looked_at() {
        let (config, mut state) = (Config::parse(FILE).unwrap(), State::default());
        assert_eq!(at(&config, &state, 1000, &[web(4, 599), web(2, 1)]), []);
        let both = [web(3, 600), web(2, 6 * 3600)];
        let (allocator, census) = ((2, Look::Allocator), (2, Look::Census));
        // Thirty-six times overdue, then once each, by number.
        assert_eq!(at(&config, &state, 1000, &both), [allocator, census, (3, Look::Allocator)]);
        state.will_look(web(2, 0).key, Look::Allocator, 1000);
        assert_eq!(at(&config, &state, 1001, &both), [census, (3, Look::Allocator)]);
        let traced = [Facts { tracer: 9, ..web(2, 6 * 3600) }];
        assert_eq!(at(&config, &state, 9000, &traced), []);
    }

    #[test]
    fn a_day_has_as_many_looks_as_the_file_says_and_the_state_does_not_grow() {
        let (config, mut state) = (Config::parse(FILE).unwrap(), State::default());
        let mut made: BTreeMap<(i32, Look), u64> = BTreeMap::new();
        // A look each five seconds, and one process that is looked at each time.
        for now in (0..24 * 3600).step_by(5) {
            let all: Vec<_> = (101..=120).map(|pid| web(pid, 100 + now)).collect();
            if let Some(&(pid, look)) = at(&config, &state, now, &all).first() {
                *made.entry((pid, look)).or_default() += 1;
                state.will_look(web(pid, 0).key, look, now);
            }
            assert!(state.looked.len() <= 40);
        }
        for pid in 101..=120 {
            let of = |look| made.get(&(pid, look)).copied().unwrap_or(0);
            assert!((143..=145).contains(&of(Look::Allocator)), "{made:?}");
            assert!((3..=4).contains(&of(Look::Census)), "{made:?}");
        }
        state.look(|_| false, 24 * 3600);
        assert_eq!(state.looked, []);
    }

    #[test]
    fn more_looks_than_the_state_may_have_leave_it_readable() {
        let mut state = State::default();
        for pid in 0..i32::try_from(MOST).unwrap() + 10 {
            state.will_look(Key { pid, start: 7 }, Look::Census, 5);
        }
        assert_eq!(State::parse(&state.text()).unwrap().looked.len(), MOST);
    }
}
