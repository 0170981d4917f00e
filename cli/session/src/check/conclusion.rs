//! From what was seen to the report.

use std::{sync::Arc, time::Duration};

use heapattach_injector::watch::{Counts, Lost, Session};

use crate::watch::{
    hook_counts::compose,
    intake::Recorder,
    names::{Job, NOT_AWAITED},
    stacks::stacks_report,
};
use heapattach_ledger::hidden::Hidden;
use heapattach_report::{CheckMoment, Report, Status, TargetState};

use super::{
    Inspection,
    live_heap::LiveHeap,
    looked::{Seen, lock},
    named,
    patience::Patience,
    retained_sites,
    rounds::told::Tally,
};

impl Inspection<'_> {
    /// Writes down what was found at this moment, if names can be had for it.
    pub(super) fn conclude(
        &mut self,
        at: CheckMoment,
        seen: Seen,
        (tally, lost): (Tally, Lost),
        patience: &mut Patience<'_>,
        report: &mut Report,
    ) -> Result<(), &'static str> {
        let symbols = Arc::clone(&self.symbols);
        let (told, wanted) = (self.options.told.clone(), self.options.retained_by.clone());
        let hidden = Hidden::new(&self.options.hooks.hide_frames);
        let name = move || {
            let symbols = &mut *lock(&symbols);
            let heap = &seen.live_heap;
            let mut check = named::report(&seen.checked, heap, symbols, &hidden, &told);
            if let Some(wanted) = wanted {
                let names = (&mut *symbols, &hidden);
                let (sites, holders) = (&seen.checked.retained, &seen.holders);
                check.retained = retained_sites::of(sites, &wanted, heap, holders, names);
            }
            (check, seen, symbols.missing())
        };
        let named = Job::begin(name).and_then(|job| job.wait(&mut || patience.goes_on()));
        let (mut check, seen, missing_symbols) = named.ok_or(NOT_AWAITED)?;
        report.missing_symbols = missing_symbols;
        let heap = &seen.live_heap;
        seen.suppressed.tell(seen.checked.quiet, &mut check);
        check.notes.append(&mut self.notes);
        check.at = at;
        check.exit_code = self.settings.exit_code();
        check.is_complete = seen.is_complete;
        check.older = seen.older.map(|older| older.report(&seen.checked.unrecorded));
        check.look = seen.look;
        check.blind = seen.scene.blind;
        check.doubts.extend(seen.doubts);
        check.doubts.extend(missing(heap, Some(lost)));
        if seen.scene.unread_threads > 0 {
            let many = seen.scene.unread_threads;
            check.doubts.push(format!("the vector registers of {many} threads could not be read"));
        }
        if check.look.unreadable_pages > 0 {
            let many = check.look.unreadable_pages;
            check.blind.push(format!("{many} pages could not be read"));
        }
        tally.tell(&mut check);
        if report.target == TargetState::Altered {
            report.status = Status::Left;
        }
        report.check = Some(check);
        Ok(())
    }
}

impl Inspection<'_> {
    /// What a report of a session says of its functions and stacks, too.
    pub(super) fn tell_functions(
        &self,
        session: &Session<'_>,
        recorder: &Recorder,
        counts: &Counts,
        counted: Duration,
        report: &mut Report,
    ) {
        let all = compose(session, counts, recorder, counted);
        (report.functions, report.not_hooked) = (all.functions, all.not_hooked);
        (report.counted_ms, report.memory) = (all.counted_ms, all.memory);
        report.stacks = stacks_report(session.tables.totals(), recorder, counts);
    }
}

/// What records are missing, in words: those dropped by the end, or by the moment itself.
pub(super) fn missing(heap: &LiveHeap, lost: Option<Lost>) -> Vec<String> {
    let odd = heap.oddities;
    let lost = lost.unwrap_or(heap.lost);
    let numbers = [
        (lost.blocks, "blocks were not recorded: their rings were full"),
        (lost.frees, "frees were not recorded: their rings were full"),
        (heap.unfinished, "records were never finished"),
        (heap.absurd, "records make no sense"),
        (odd.missed_frees, "frees were missed"),
        (odd.blocks_beyond_limit, "blocks found no room"),
    ];
    let told = numbers.into_iter().filter(|(number, _)| *number > 0);
    told.map(|(number, what)| format!("{number} {what}")).collect()
}
