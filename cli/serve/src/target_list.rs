//! Which processes are served: the same all the time, or those of the moment.

use std::sync::{Arc, PoisonError, RwLock};

use crate::target::Target;

/// Processes, for the server and for who begins and ends their sessions.
#[derive(Clone, Debug, Default)]
pub struct TargetList {
    all: Arc<RwLock<Vec<Arc<Target>>>>,
    is_fleet: bool,
}

impl From<Vec<Arc<Target>>> for TargetList {
    /// That stay the same: one alone is served without its number, too.
    fn from(all: Vec<Arc<Target>>) -> Self {
        Self { all: Arc::new(RwLock::new(all)), is_fleet: false }
    }
}

impl TargetList {
    /// None yet, of a number that changes: each is served under its number alone, or a path would be now this
    /// process's, now that one's.
    pub fn fleet() -> Self {
        Self { is_fleet: true, ..Self::default() }
    }

    /// Serves these from now on; readers of events of others are told that it is over.
    pub fn set(&self, new: Vec<Arc<Target>>) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let stays = |one: &&Arc<Target>| new.iter().any(|other| Arc::ptr_eq(one, other));
        all.iter().filter(|one| !stays(one)).for_each(|one| one.end());
        *all = new;
    }

    /// As they are now.
    pub fn now(&self) -> Vec<Arc<Target>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The one that is meant where no number is given.
    pub fn only(&self) -> Option<Arc<Target>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        match all.as_slice() {
            [only] if !self.is_fleet => Some(only.clone()),
            _ => None,
        }
    }

    /// The one with this number.
    pub fn find(&self, pid: i32) -> Option<Arc<Target>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|target| target.pid == pid).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(pid: i32) -> Arc<Target> {
        Arc::new(Target::new(pid, "a".to_owned(), "/nowhere".into(), false))
    }

    #[test]
    fn one_of_a_fleet_has_its_number_in_every_path() {
        let alone = TargetList::from(vec![target(7)]);
        assert!(alone.only().is_some() && alone.find(7).is_some() && alone.find(8).is_none());
        let fleet = TargetList::fleet();
        fleet.set(vec![target(7)]);
        assert!(fleet.only().is_none() && fleet.find(7).is_some());
    }

    #[test]
    fn readers_of_one_that_goes_are_told_and_those_of_others_are_not() {
        let (fleet, both) = (TargetList::fleet(), [target(7), target(8)]);
        fleet.set(both.to_vec());
        fleet.set(vec![both[1].clone()]);
        assert!(both[0].is_over() && !both[1].is_over());
        assert_eq!(fleet.now().len(), 1);
    }
}
