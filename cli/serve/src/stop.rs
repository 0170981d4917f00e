//! The end of a server, for all who wait for it.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

/// Says when it is over.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// It is over.
    pub fn set(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Whether it is.
    pub fn is_set(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits so long, or until it is over.
    pub fn wait(&self, time: Duration) {
        let is_over = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.0.1.wait_timeout_while(is_over, time, |is_over| !*is_over);
    }
}
