//! What processes of ours cost, as the kernel counts it: processor time over the last minutes, and memory.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use heapattach_agent::{Cost, Key};

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
    /// Memory.
    pub resident: u64,
}

/// Ticks of one moment: by target; `None` is the agent itself.
type Spent = (Instant, Option<Key>, u64);

/// What was spent in the window.
#[derive(Debug, Default)]
pub struct Usage {
    spent: VecDeque<Spent>,
    last: HashMap<Option<Key>, u64>,
}

impl Usage {
    /// Adds a look: `sessions` are the processes that watch them. Answers what each target costs, and the agent.
    pub fn add(
        &mut self,
        all: &[Process],
        sessions: &HashMap<i32, Key>,
        ticks_per_second: u64,
    ) -> (HashMap<Key, Cost>, Cost) {
        let now = Instant::now();
        let own = std::process::id().cast_signed();
        let parents: HashMap<i32, i32> = all.iter().map(|one| (one.pid(), one.parent)).collect();
        let mut sums: HashMap<Option<Key>, (u64, u64)> = HashMap::new();
        for one in all {
            let Some(of) = owner(one.pid(), own, &parents, sessions) else { continue };
            let sum = sums.entry(of).or_default();
            // What ended sessions took was counted while they ran.
            sum.0 += one.ticks + of.map_or(0, |_| one.ended);
            sum.1 += one.resident;
        }
        for (of, (ticks, _)) in &sums {
            let before = self.last.insert(*of, *ticks).unwrap_or(0);
            self.spent.push_back((now, *of, ticks.saturating_sub(before)));
        }
        self.last.retain(|of, _| sums.contains_key(of));
        while self.spent.front().is_some_and(|(at, ..)| now.duration_since(*at) > WINDOW) {
            self.spent.pop_front();
        }
        let time = |is_it: &dyn Fn(&Option<Key>) -> bool| {
            let ticks: u64 =
                self.spent.iter().filter(|(_, of, _)| is_it(of)).map(|(.., ticks)| ticks).sum();
            Duration::from_millis(ticks * 1000 / ticks_per_second.max(1))
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
