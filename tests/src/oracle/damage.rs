//! What may go wrong with a call stack, done on purpose: a judge must find each of these.

use super::RecordedStack;

/// Kinds of damage.
pub const KINDS: usize = 6;

impl RecordedStack {
    /// Damages the frame number `at`.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn damage(&mut self, kind: usize, at: usize) {
        match kind {
            0 => self.frames[at] += 1,
            1 => drop(self.frames.remove(at)),
            2 => self.frames.insert(at, self.frames[at]),
            3 => self.frames.truncate(at),
            4 => self.frames.push(self.frames[at]),
            _ => "no-rule".clone_into(&mut self.end),
        }
    }
}
