//! The ledger of a session that has just ended, made of what its process has in memory. The file that
//! the session was written to is not read: its disk may give nothing back.
//!
//! It is the ledger that [`crate::Recording::ledger`] makes of that file, if the file is whole. Only how
//! its sums came about is known by the file alone: see [`Replay`].

use crate::{
    format::{rows::Table, stack_source::StackSource},
    read::{
        assembly::{Parts, assemble},
        context::Context,
        course::{self, Places},
        replay::Replay,
    },
};
use heapattach_ledger::Ledger;
use heapattach_profile::Sheet;

/// The sums of a session that has ended, and whose they are.
#[derive(Debug)]
pub struct Ended {
    sheet: Sheet,
    table: Table,
}

impl Ended {
    /// Of these sums.
    pub fn of(sheet: Sheet, stacks: &impl StackSource) -> Self {
        let table = Table::of(sheet.rows.all(), stacks);
        Self { sheet, table }
    }

    /// The addresses that calls of all stacks return to, each once: [`Context::code`] is to have their
    /// names.
    pub fn addresses(&self) -> &[u64] {
        &self.table.addresses
    }

    /// The ledger, where the sums were complete at `until`, in ticks; and what is needed to find out how
    /// they came about, where that is to be judged.
    pub fn ledger(self, mut context: Context, until: u64) -> (Ledger, Option<Replay>) {
        context.clean();
        context.set_lasted(context.length(until));
        let note = context.heading.note_on_holes();
        context.heading.about.blind.extend(note);
        let known: Vec<bool> = self.sheet.rows.all().iter().map(|row| row.is_known()).collect();
        let ledger = assemble(Parts { context, table: &self.table, sheet: self.sheet });
        let replay = course::is_judged(&ledger)
            .then(|| Replay::new(Places::of(&known, &self.table, &ledger)));
        (ledger, replay)
    }
}
