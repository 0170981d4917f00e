//! Twenty-four hours of an agent by a simulated clock.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use super::*;

const DAY: u64 = 24 * 3600;
/// Between two looks at the machine.
const INTERVAL: u64 = 5;
/// Processes at a time, and of these such as live for a day.
const PROCESSES: usize = 40;
const OLD: usize = 10;
/// For so long a process is left alone.
const PAUSE: u64 = 3600;

const FILE: &str = "version = 1
[[rule]]
name = 'web'
process = 'server'
allocator = '10m'
census = '6h'
[[rule]]
name = 'jobs'
process = 'job'
mode = 'rotate'
slot = '60s'
allocator = '1m'
";

/// The machine and what an agent knows of it.
struct Day {
    config: Config,
    state: State,
    processes: Vec<Facts>,
    watched: HashMap<Key, u64>,
    paused: HashMap<Key, u64>,
    rotations: BTreeMap<String, Rotation>,
    pids: i32,
}

impl Day {
    fn new() -> Self {
        let config = Config::parse(FILE).unwrap();
        let (state, processes, watched, paused, rotations) = Default::default();
        let mut day = Self { config, state, processes, watched, paused, rotations, pids: 0 };
        (0..PROCESSES).for_each(|_| day.begin());
        day
    }

    /// Each of the young runs a file of its own.
    fn begin(&mut self) {
        self.pids += 1;
        let name = if self.pids % 2 == 0 { "server" } else { "job" };
        self.processes.push(Facts {
            key: Key { pid: self.pids, start: 1 },
            name: name.to_owned(),
            executable: format!("/tmp/{}/{name}", self.pids),
            ..Facts::default()
        });
    }

    fn look(&mut self, now: u64) {
        // One ends, and another one begins.
        self.processes.remove(OLD + usize::try_from(now / INTERVAL).unwrap() % (PROCESSES - OLD));
        self.begin();
        self.processes.iter_mut().for_each(|one| one.age += Duration::from_secs(INTERVAL));
        let there: HashSet<Key> = self.processes.iter().map(|one| one.key).collect();
        self.watched.retain(|key, _| there.contains(key));
        self.paused.retain(|key, until| there.contains(key) && *until > now);
        self.state.look(|key| there.contains(&key), now);
        // A slot is over after a minute; what costs too much is left alone.
        let is_over = |key: &Key, since: u64| {
            let is_job = self.processes.iter().any(|one| one.key == *key && one.name == "job");
            now - since >= if is_job { 60 } else { 1800 }
        };
        let over: Vec<_> = self.watched.iter().filter(|(key, at)| is_over(key, **at)).collect();
        let over: Vec<Key> = over.into_iter().map(|(key, _)| *key).collect();
        for key in over {
            self.watched.remove(&key);
            self.state.detached(key);
            self.paused.insert(key, now + PAUSE);
        }
        let machine = Machine { now, processors: 2, pressure: None };
        let watched: HashSet<Key> = self.watched.keys().copied().collect();
        let decisions = decide(
            &self.config,
            &self.state,
            &machine,
            &self.processes,
            &watched,
            &self.paused,
            &mut self.rotations,
        );
        let looks = due(&decisions, &self.state.looked, now);
        let looked = looks.first().map(|one| (one.process.key, one.look));
        for one in &decisions {
            let is_new = one.action == Action::Watch && !watched.contains(&one.process.key);
            if is_new && self.watched.insert(one.process.key, now).is_none() {
                self.state.will_attach(one.process, &one.rule.name, now);
            }
        }
        looked.into_iter().for_each(|(key, look)| self.state.will_look(key, look, now));
    }
}

#[test]
fn a_day_of_processes_that_come_and_go_leaves_no_more_than_those_that_are_there() {
    let (mut day, mut attaches, mut most) = (Day::new(), HashSet::new(), [0; 3]);
    for now in (0..DAY).step_by(usize::try_from(INTERVAL).unwrap()) {
        day.look(now);
        let state = &day.state;
        attaches.extend(state.attached.iter().map(|one| (one.pid, one.at)));
        let now = [state.attached.len(), state.looked.len(), state.barred.len()];
        most.iter_mut().zip(now).for_each(|(most, now)| *most = now.max(*most));
        assert!(day.rotations.values().all(|one| one.len() <= PROCESSES));
        assert!(day.watched.len() <= PROCESSES && day.paused.len() <= PROCESSES);
    }
    assert!(attaches.len() > 5_000, "{}", attaches.len());
    let [attached, looked, barred] = most;
    assert!(attached <= PROCESSES && looked <= 2 * PROCESSES, "{most:?}");
    // Whatever happened, the next agent can read it.
    assert!(barred > 0 && day.state.barred.len() <= 10_000);
    assert_eq!(State::parse(&day.state.text()).as_ref(), Ok(&day.state));
}

#[test]
fn more_programs_that_end_soon_than_are_kept_can_be_read_again() {
    let mut state = State::default();
    for pid in 0..10_050 {
        let executable = format!("/tmp/{pid}");
        let one = Facts { key: Key { pid, start: 1 }, executable, ..Facts::default() };
        state.will_attach(&one, "web", 1000);
        state.look(|_| false, 1001);
    }
    assert_eq!(State::parse(&state.text()).as_ref(), Ok(&state));
    assert!(state.bar("web", "/tmp/10049").is_some(), "the latest are known");
    assert!(state.bar("web", "/tmp/0").is_none());
}
