//! What is told over HTTP: what is watched, and figures of the agent.

use super::Agent;
use crate::commands::agent::figures::{Now, all};

impl Agent {
    /// As it is now.
    pub(super) fn publish(&self) {
        let Some(routes) = &self.routes else { return };
        routes.set(self.sessions.iter().map(|session| session.target.clone()).collect());
        let now = Now {
            config: &self.config,
            state: &self.saved.state,
            sessions: self.sessions.iter().map(|session| session.rule.as_str()).collect(),
            refused: &self.refusals,
            counts: &self.counts,
            used: self.used,
            spooled: self.spooled,
            due: &self.due,
            counted: self.counted.values().collect(),
        };
        routes.tell(all(&now));
    }
}
