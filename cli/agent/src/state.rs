//! What an agent must know after it was killed: what it attached to, and what may not be attached to again.

use serde::{Deserialize, Serialize};

use crate::{
    facts::{Facts, Key},
    look::{Look, Looked},
};

/// A target that ends so many seconds after an attach is barred.
pub const SOON: u64 = 60;
/// No honest file has more.
pub const MOST: usize = 10_000;

/// An attach, from before it is made until it is undone and its target cannot be barred any more.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Attached {
    /// The process.
    pub pid: i32,
    /// When it began.
    pub start: u64,
    /// By which rule.
    pub rule: String,
    /// What it runs.
    pub executable: String,
    /// When, in seconds since 1970.
    pub at: u64,
    /// Whether it is detached from.
    #[serde(default)]
    pub is_over: bool,
}

/// What may not be attached to until an operator allows it.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct Barred {
    /// By which rule,
    pub rule: String,
    /// and what it runs.
    pub executable: String,
    /// The process that ended.
    pub pid: i32,
    /// When, in seconds since 1970.
    pub at: u64,
    /// How long after the attach, in seconds.
    pub after: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub struct State {
    /// Attaches.
    #[serde(default)]
    pub attached: Vec<Attached>,
    /// What is barred.
    #[serde(default)]
    pub barred: Vec<Barred>,
    /// The last look of each kind at each process.
    #[serde(default)]
    pub looked: Vec<Looked>,
}

impl Attached {
    /// Which process it was.
    pub fn key(&self) -> Key {
        Key { pid: self.pid, start: self.start }
    }
}

impl State {
    /// Reads what was written.
    ///
    /// # Errors
    /// If it is not that.
    pub fn parse(text: &str) -> Result<Self, String> {
        let state: Self =
            serde_json::from_slice(text.as_bytes()).map_err(|error| error.to_string())?;
        let most = state.attached.len().max(state.barred.len()).max(state.looked.len());
        match most > MOST {
            true => Err(format!("more than {MOST} entries")),
            false => Ok(state),
        }
    }

    /// To be written.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Whether this rule may not have this process; the name by which it is allowed.
    pub fn bar(&self, rule: &str, executable: &str) -> Option<String> {
        let is_it = |one: &&Barred| one.rule == rule && one.executable == executable;
        self.barred.iter().find(is_it).map(|one| one.rule.clone())
    }

    /// Notes an attach that will be made.
    pub fn will_attach(&mut self, one: &Facts, rule: &str, now: u64) {
        self.attached.retain(|old| old.key() != one.key);
        self.attached.push(Attached {
            pid: one.key.pid,
            start: one.key.start,
            rule: rule.to_owned(),
            executable: one.executable.clone(),
            at: now,
            is_over: false,
        });
    }

    /// Notes a look that will be made. With very many the oldest are forgotten.
    pub fn will_look(&mut self, of: Key, look: Look, now: u64) {
        self.looked.retain(|old| old.key() != of || old.look != look);
        let too_many = (self.looked.len() + 1).saturating_sub(MOST);
        self.looked.drain(..too_many);
        self.looked.push(Looked { pid: of.pid, start: of.start, look, at: now });
    }

    /// Forgets an attach that was refused: its target was not touched.
    pub fn untouched(&mut self, key: Key) {
        self.attached.retain(|one| one.key() != key);
    }

    /// Notes that nothing of ours is in a process any more.
    pub fn detached(&mut self, key: Key) {
        self.attached.iter_mut().filter(|one| one.key() == key).for_each(|one| one.is_over = true);
    }

    /// Looks which targets are there no longer; those that ended soon are barred, and answered.
    pub fn look(&mut self, is_there: impl Fn(Key) -> bool, now: u64) -> Vec<Barred> {
        self.looked.retain(|one| is_there(one.key()));
        let mut new = Vec::new();
        self.attached.retain(|one| {
            let after = now.saturating_sub(one.at);
            if is_there(one.key()) {
                return !one.is_over || after < SOON;
            }
            if after < SOON {
                new.push(Barred {
                    rule: one.rule.clone(),
                    executable: one.executable.clone(),
                    pid: one.pid,
                    at: now,
                    after,
                });
            }
            false
        });
        new.retain(|one| self.bar(&one.rule, &one.executable).is_none());
        new.dedup_by(|a, b| a.rule == b.rule && a.executable == b.executable);
        self.barred.extend(new.iter().cloned());
        // What is written must be read again: with very many the oldest are forgotten.
        let too_many = self.barred.len().saturating_sub(MOST);
        self.barred.drain(..too_many);
        new
    }

    /// Allows what was barred under this name, of a rule or of an executable; how many those were.
    pub fn allow(&mut self, name: &str) -> usize {
        let before = self.barred.len();
        let is_file = |path: &str| path == name || path.rsplit('/').next() == Some(name);
        self.barred.retain(|one| one.rule != name && !is_file(&one.executable));
        before - self.barred.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pid: i32) -> Facts {
        Facts { key: Key { pid, start: 7 }, executable: "/bin/a".to_owned(), ..Facts::default() }
    }

    #[test]
    fn what_ends_soon_after_an_attach_is_barred_until_it_is_allowed() {
        let mut state = State::default();
        state.will_attach(&facts(10), "web", 1000);
        state.detached(facts(10).key);
        assert!(state.look(|_| true, 1030).is_empty());
        let barred = state.look(|_| false, 1059);
        assert_eq!((barred.len(), barred[0].after), (1, 59));
        assert!(state.bar("web", "/bin/a").is_some() && state.bar("web", "/bin/b").is_none());
        assert_eq!(State::parse(&state.text()).unwrap(), state);
        assert_eq!((state.allow("b"), state.allow("a")), (0, 1));
        assert!(state.bar("web", "/bin/a").is_none());
    }

    #[test]
    fn what_ends_later_is_not_and_nothing_is_kept_of_it() {
        let mut state = State::default();
        state.will_attach(&facts(10), "web", 1000);
        assert!(state.look(|_| false, 1060).is_empty() && state.attached.is_empty());
        state.will_attach(&facts(11), "web", 2000);
        assert!(state.look(|_| true, 9000).is_empty());
        assert_eq!(state.attached.len(), 1, "it is attached to");
        state.detached(facts(11).key);
        state.look(|_| true, 9000);
        assert!(state.attached.is_empty());
    }
}
