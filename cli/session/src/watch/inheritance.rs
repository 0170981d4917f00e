//! What the sessions of a family leave to those of forked children, by process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use heapattach_injector::{attach::heir::Heritage, watch::Session};
use heapattach_process::proc::Process;

use crate::{lsan::ProgramSettings, runtimes::Runtimes};
use heapattach_report::suppression::Suppressions;
use heapattach_symbols::{FileCache, Symbols};

/// What one session has that its process's children have, too.
#[derive(Debug)]
pub struct Estate {
    /// In the process.
    pub heritage: Heritage,
    /// Its modules.
    modules: Mutex<Symbols>,
    /// The runtimes that were found in them, if they were looked for.
    pub runtimes: Option<Runtimes>,
    /// Where it is checked: the rules that hold, and what the program says of how it is to be checked.
    pub rules: Option<Arc<(Suppressions, ProgramSettings)>>,
}

impl Estate {
    /// The modules, for this child.
    pub fn symbols_for(&self, child: &Process) -> Symbols {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner).inherited_by(child)
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Estates {
    by_process: Arc<Mutex<HashMap<i32, Arc<Estate>>>>,
    /// What was read of the files of all processes.
    pub files: FileCache,
}

impl Estates {
    fn open(&self) -> MutexGuard<'_, HashMap<i32, Arc<Estate>>> {
        self.by_process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of this process, if it has a session that has something to leave.
    pub fn of(&self, pid: i32) -> Option<Arc<Estate>> {
        self.open().get(&pid).map(Arc::clone)
    }
}

/// The entry of one session, gone with it.
#[derive(Debug)]
pub struct Will {
    estates: Estates,
    pid: i32,
    rules: Option<Arc<(Suppressions, ProgramSettings)>>,
    /// What the session was when it was written down.
    state: Option<[u64; 4]>,
}

impl Will {
    /// Nothing yet.
    pub fn new(estates: Estates, pid: i32) -> Self {
        Self { estates, pid, rules: None, state: None }
    }

    /// With rules for checks.
    #[must_use]
    pub fn with_rules(mut self, rules: &Suppressions, settings: &ProgramSettings) -> Self {
        self.rules = Some(Arc::new((rules.clone(), settings.clone())));
        self
    }

    /// Writes down what there is, if it is not what it was.
    pub fn renew(&mut self, session: &Session<'_>, symbols: &Symbols, runtimes: Option<&Runtimes>) {
        let state = session.state();
        if self.state == Some(state) {
            return;
        }
        self.state = Some(state);
        let estate = Heritage::of(session).map(|heritage| {
            let modules = Mutex::new(symbols.inherited_by(&session.target().process));
            let (runtimes, rules) = (runtimes.cloned(), self.rules.clone());
            Arc::new(Estate { heritage, modules, runtimes, rules })
        });
        let mut all = self.estates.open();
        let before = match estate {
            Some(estate) => all.insert(self.pid, estate),
            None => all.remove(&self.pid),
        };
        drop(all);
        drop(before);
    }
}

impl Drop for Will {
    fn drop(&mut self) {
        let before = self.estates.open().remove(&self.pid);
        drop(before);
    }
}
