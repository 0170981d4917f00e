//! What processes of ours cost, as the kernel counts it: processor time over the last minutes, and memory.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use heapattach_agent::{Cost, Key};

use super::share::Shares;

/// An attach costs more in a moment than watching does in minutes: it is looked at together.
pub const WINDOW: Duration = Duration::from_secs(300);

/// What one process costs.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Which.
    pub key: Key,
    /// Its parent.
    pub parent: i32,
    /// Processor time until now,
    pub ticks: u64,
    /// and that of children that have ended.
    pub ended: u64,
    /// Memory, with pages that it shares with others.
    pub resident: u64,
}

/// Ticks of one moment: by target; `None` is the agent itself.
type Spent = (Instant, Option<Key>, u64);

/// What was spent in the window.
#[derive(Debug, Default)]
pub struct Usage {
    spent: VecDeque<Spent>,
    last: HashMap<Option<Key>, u64>,
    shares: Shares,
    /// Processor time of looks that have ended.
    visited: VecDeque<(Instant, Key, Duration)>,
}

impl Usage {
    /// A look at that process has ended: what it took counts for it, whether there is a session or not.
    pub fn spend(&mut self, key: Key, took: Duration) {
        self.visited.push_back((Instant::now(), key, took));
    }

    /// Adds a look: `sessions` are the processes that watch them, `visit` the one that looks at one just now: what
    /// that has taken counts as long as it goes on, and then as [`Self::spend`] is told. Answers what each target
    /// costs, and the agent; `share` reads how much memory one takes for itself.
    pub fn add(
        &mut self,
        all: &[Process],
        sessions: &HashMap<i32, Key>,
        visit: Option<(i32, Key)>,
        ticks_per_second: u64,
        share: &dyn Fn(i32) -> Option<u64>,
    ) -> (HashMap<Key, Cost>, Cost) {
        let now = Instant::now();
        let own = std::process::id().cast_signed();
        let parents: HashMap<i32, i32> = all.iter().map(|one| (one.pid(), one.parent)).collect();
        let mut sums: HashMap<Option<Key>, (u64, u64)> = HashMap::new();
        let (mut visits, none) = (0, HashMap::new());
        for one in all {
            let is_of = |(root, _): &(i32, Key)| owner(one.pid(), *root, &parents, &none).is_some();
            if let Some((_, key)) = visit.filter(is_of) {
                visits += one.ticks + one.ended;
                sums.entry(Some(key)).or_default().1 +=
                    self.shares.of(one.key, one.resident, now, || share(one.pid()));
                continue;
            }
            let Some(of) = owner(one.pid(), own, &parents, sessions) else { continue };
            let sum = sums.entry(of).or_default();
            // What ended sessions took was counted while they ran.
            sum.0 += one.ticks + of.map_or(0, |_| one.ended);
            sum.1 += self.shares.of(one.key, one.resident, now, || share(one.pid()));
        }
        let there: HashSet<Key> = all.iter().map(|one| one.key).collect();
        self.shares.retain(|key| there.contains(&key));
        for (of, (ticks, _)) in &sums {
            let before = self.last.insert(*of, *ticks).unwrap_or(0);
            self.spent.push_back((now, *of, ticks.saturating_sub(before)));
        }
        self.last.retain(|of, _| sums.contains_key(of));
        while self.spent.front().is_some_and(|(at, ..)| now.duration_since(*at) > WINDOW) {
            self.spent.pop_front();
        }
        while self.visited.front().is_some_and(|(at, ..)| now.duration_since(*at) > WINDOW) {
            self.visited.pop_front();
        }
        let of_ticks = |ticks: u64| Duration::from_millis(ticks * 1000 / ticks_per_second.max(1));
        let time = |is_it: &dyn Fn(&Option<Key>) -> bool| {
            let ticks: u64 =
                self.spent.iter().filter(|(_, of, _)| is_it(of)).map(|(.., ticks)| ticks).sum();
            of_ticks(ticks)
        };
        let (mut costs, mut own) = (HashMap::new(), Cost::default());
        for (of, (_, memory)) in &sums {
            match of {
                Some(key) => {
                    let processor = time(&|of| *of == Some(*key));
                    costs.insert(*key, Cost { processor, memory: *memory, ..Cost::default() });
                }
                None => own.memory = *memory,
            }
        }
        for (_, key, _) in &self.visited {
            let processor = time(&|of| *of == Some(*key));
            costs.entry(*key).or_insert(Cost { processor, ..Cost::default() });
        }
        for (_, key, took) in &self.visited {
            costs.entry(*key).or_default().processor += *took;
        }
        if let Some((_, key)) = visit {
            costs.entry(key).or_default().processor += of_ticks(visits);
        }
        // Sessions that have ended in the window were the agent's expense.
        own.processor = time(&|of| of.is_none_or(|key| !costs.contains_key(&key)));
        (costs, own)
    }
}

impl Process {
    fn pid(&self) -> i32 {
        self.key.pid
    }
}

/// Of which target a process of ours is, `Some(None)` if of none; `None` if it is not ours.
fn owner(
    pid: i32,
    own: i32,
    parents: &HashMap<i32, i32>,
    sessions: &HashMap<i32, Key>,
) -> Option<Option<Key>> {
    let mut at = pid;
    // Looks at different moments could have a circle in them.
    for _ in 0..64 {
        if let Some(key) = sessions.get(&at) {
            return Some(Some(*key));
        }
        if at == own {
            return Some(None);
        }
        at = *parents.get(&at)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, ticks: u64, resident: u64) -> Process {
        Process { key: Key { pid, start: 1 }, parent, ticks, ended: 0, resident }
    }

    #[test]
    fn a_look_counts_for_its_process_while_it_goes_on_and_afterwards_once() {
        let own = std::process::id().cast_signed();
        let (looked_at, watched) = (Key { pid: 7, start: 1 }, Key { pid: 8, start: 1 });
        let (look, session) = (own + 1, own + 2);
        let mut usage = Usage::default();
        let sessions = HashMap::from([(session, watched)]);
        // Pages that two have are a half of each.
        let shared = |pid| (pid == session).then_some(10);
        let base = [process(own, 1, 0, 5), process(session, own, 10, 20)];
        // A command and its tracing process.
        let both = [process(look, own, 30, 1), process(own + 3, look, 40, 2)];
        let with: Vec<_> = base.iter().chain(&both).copied().collect();
        let (costs, agent) = usage.add(&with, &sessions, Some((look, looked_at)), 100, &shared);
        assert_eq!(costs[&looked_at].processor, Duration::from_millis(700));
        assert_eq!((costs[&looked_at].memory, agent.memory), (3, 5));
        assert_eq!(costs[&watched].processor, Duration::from_millis(100));
        assert_eq!(costs[&watched].memory, 10);
        usage.spend(looked_at, Duration::from_millis(900));
        let (costs, agent) = usage.add(&base, &sessions, None, 100, &shared);
        assert_eq!(costs[&looked_at].processor, Duration::from_millis(900));
        assert_eq!(
            (costs[&watched].processor, agent.processor),
            (Duration::from_millis(100), Duration::ZERO)
        );
    }
}
