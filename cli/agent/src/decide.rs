//! What is done with each process that a rule fits: the same for a dry run and for a real one.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    admission::{Refusal, refusal},
    config::{Config, Mode, Rule},
    facts::{Facts, Key, Machine},
    glob,
    rotation::Rotation,
    state::State,
};

/// The kernel cuts short names there.
const SHORT_NAME: usize = 15;

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It is watched, or will be from now on.
    Watch,
    /// Others have their slot.
    Wait,
    /// It is not watched.
    Refuse(Refusal),
}

/// What is done with one process.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    /// Which.
    pub process: &'a Facts,
    /// The first rule that fits.
    pub rule: &'a Rule,
    /// What.
    pub action: Action,
}

impl Rule {
    /// Whether it fits a process: everything that it names does.
    pub fn fits(&self, one: &Facts) -> bool {
        let name = |pattern: &String| {
            let short = pattern
                .char_indices()
                .nth(SHORT_NAME)
                .map_or(&pattern[..], |(at, _)| &pattern[..at]);
            let is_cut = !pattern.contains(['*', '?']) && one.name == short;
            is_cut || one.names.iter().chain([&one.name]).any(|name| glob::matches(pattern, name))
        };
        let group =
            |pattern: &String| one.cgroups.iter().any(|path| glob::matches_path(pattern, path));
        let user = |user: &String| one.user.as_ref() == Some(user) || user.parse() == Ok(one.uid);
        let pod = one.pod.as_ref();
        let of_pod = |pattern: &String, text: Option<&str>| {
            text.is_some_and(|text| glob::matches(pattern, text))
        };
        self.process.as_ref().is_none_or(name)
            && self.cgroup.as_ref().is_none_or(group)
            && self.user.as_ref().is_none_or(user)
            && self.namespace.as_ref().is_none_or(|p| of_pod(p, pod.map(|pod| &pod.namespace[..])))
            && self.pod.as_ref().is_none_or(|p| of_pod(p, pod.map(|pod| &pod.name[..])))
            && self
                .container
                .as_ref()
                .is_none_or(|p| of_pod(p, pod.and_then(|pod| pod.container.as_deref())))
    }
}

/// What is done with each process that a rule fits. `watched`: those that are, and stay so unless their slot
/// is over; `paused`: until when those are left alone that cost too much.
pub fn decide<'a>(
    config: &'a Config,
    state: &State,
    machine: &Machine,
    processes: &'a [Facts],
    watched: &HashSet<Key>,
    paused: &HashMap<Key, u64>,
    rotations: &mut BTreeMap<String, Rotation>,
) -> Vec<Decision<'a>> {
    let fits = |one: &'a Facts| Some((one, config.rules.iter().find(|rule| rule.fits(one))?));
    let mut decisions: Vec<_> = processes
        .iter()
        .filter_map(fits)
        .map(|(process, rule)| {
            let action = match watched.contains(&process.key) {
                true => Action::Watch,
                false => why_not(process, rule, config, state, machine, paused)
                    .map_or(Action::Watch, Action::Refuse),
            };
            Decision { process, rule, action }
        })
        .collect();
    for rule in config.rules.iter().filter(|rule| rule.mode == Mode::Rotate) {
        let is_of =
            |one: &&mut Decision<'_>| one.rule.name == rule.name && one.action == Action::Watch;
        let mut own: Vec<_> = decisions.iter_mut().filter(is_of).collect();
        let keys: Vec<_> = own.iter().map(|one| one.process.key).collect();
        let now = keys.iter().find(|key| watched.contains(key)).copied();
        let turn = now
            .or_else(|| rotations.entry(rule.name.clone()).or_default().next(&keys, machine.now));
        own.iter_mut()
            .filter(|one| Some(one.process.key) != turn)
            .for_each(|one| one.action = Action::Wait);
    }
    rotations.retain(|name, _| config.rules.iter().any(|rule| rule.name == *name));
    let mut room = config.admission.max_targets.saturating_sub(watched.len());
    for one in decisions.iter_mut().filter(|one| one.action == Action::Watch) {
        if watched.contains(&one.process.key) {
            continue;
        }
        match room.checked_sub(1) {
            Some(left) => room = left,
            None => one.action = Action::Refuse(Refusal::MaxTargets(config.admission.max_targets)),
        }
    }
    decisions
}

/// Why a process is left alone, whether it is watched or not; what is asked before anything is done to it.
pub fn why_not(
    one: &Facts,
    rule: &Rule,
    config: &Config,
    state: &State,
    machine: &Machine,
    paused: &HashMap<Key, u64>,
) -> Option<Refusal> {
    let left = paused.get(&one.key).and_then(|until| until.checked_sub(machine.now));
    let own = refusal(one, rule, machine, &config.admission);
    let barred = || state.bar(&rule.name, &one.executable).map(Refusal::Barred);
    own.or_else(barred).or(left.filter(|left| *left > 0).map(Refusal::Paused))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::facts::Headroom;

    fn config(more: &str) -> Config {
        let text = "version = 1\n[[rule]]\nname = 'web'\nprocess = 'server*'\n";
        Config::parse(&format!("{text}{more}\n")).unwrap()
    }

    fn process(pid: i32) -> Facts {
        Facts {
            key: Key { pid, start: 1 },
            age: Duration::from_secs(100),
            name: "server".to_owned(),
            executable: "/bin/server".to_owned(),
            ..Facts::default()
        }
    }

    fn actions(
        config: &Config,
        state: &State,
        processes: &[Facts],
        watched: &[i32],
    ) -> Vec<String> {
        let watched = watched.iter().map(|pid| Key { pid: *pid, start: 1 }).collect();
        let machine = Machine { now: 1000, processors: 2, pressure: Some(1.0) };
        let mut rotations = BTreeMap::new();
        let all =
            decide(config, state, &machine, processes, &watched, &HashMap::new(), &mut rotations);
        let told = all.iter().map(|one| match &one.action {
            Action::Watch => "watch",
            Action::Wait => "wait",
            Action::Refuse(why) => why.name(),
        });
        told.map(str::to_owned).collect()
    }

    #[test]
    fn each_refusal_has_its_reason() {
        let mut all: Vec<_> = (0..8).map(|at| process(if at == 1 { 1 } else { 10 + at })).collect();
        all[0].is_ours = true;
        all[2].tracer = 9;
        all[3].age = Duration::from_secs(9);
        all[4].headroom = Some(Headroom { left: 1 << 20, limit: 4 << 30 });
        all[5].pressure = Some(40.0);
        all[6].executable = "/bin/other".to_owned();
        let mut state = State::default();
        state.will_attach(&all[6], "web", 990);
        state.look(|_| false, 1000);
        let told = actions(&config(""), &state, &all, &[]);
        assert_eq!(
            told,
            ["ours", "init", "traced", "young", "headroom", "pressure", "barred", "watch"]
        );
    }

    #[test]
    fn a_small_group_needs_only_a_part_and_what_no_rule_fits_is_not_told() {
        let mut one = process(5);
        one.headroom = Some(Headroom { left: 5 << 20, limit: 64 << 20 });
        let mut other = process(6);
        other.name = "else".to_owned();
        assert_eq!(actions(&config(""), &State::default(), &[one, other], &[]), ["watch"]);
    }

    #[test]
    fn one_has_the_slot_and_the_others_wait() {
        let all = [process(5), process(6), process(7)];
        let rotating = config("mode = 'rotate'");
        let state = State::default();
        assert_eq!(actions(&rotating, &state, &all, &[]), ["watch", "wait", "wait"]);
        assert_eq!(actions(&rotating, &state, &all, &[7]), ["wait", "wait", "watch"]);
        let few = config("[admission]\nmax-targets = 2");
        assert_eq!(actions(&few, &state, &all, &[7]), ["watch", "max-targets", "watch"]);
    }

    #[test]
    fn everything_that_a_rule_names_must_fit() {
        let mut one = process(5);
        one.uid = 33;
        one.cgroups = vec!["/kubepods/pod1/x".to_owned()];
        one.pod = Some(crate::kubernetes::Pod {
            namespace: "shop".to_owned(),
            name: "web-1".to_owned(),
            container: None,
        });
        let fits = |more: &str| config(more).rules[0].fits(&one);
        assert!(fits("user = '33'\ncgroup = '/kubepods/*'\nnamespace = 'shop'\npod = 'web-*'"));
        assert!(!fits("user = 'root'") && !fits("cgroup = '/system*'") && !fits("container = '*'"));
    }
}
