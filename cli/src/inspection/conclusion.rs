//! From what was seen to the report.

use heapattach_injector::counts::Lost;

use crate::{
    census::Census, check_report::CheckReport, exit::Exit, hidden::Hidden, report::Report, retained,
};

use super::{
    Inspection,
    sight::{Seen, lock},
    tally::Tally,
};

impl Inspection<'_> {
    /// Writes down what was found at the moment that is called `at`.
    pub(super) fn conclude(
        &mut self,
        at: &str,
        seen: Seen,
        tally: Tally,
        lost: Lost,
        report: &mut Report,
    ) {
        let hidden = Hidden::new(&self.args.hooks.hide_frames);
        let census = &seen.census;
        let symbols = &mut *lock(&self.symbols);
        let mut check = CheckReport::of(&seen.checked, census, symbols, &hidden, &self.args.told());
        seen.hush.tell(seen.checked.quiet, &mut check);
        check.notes.append(&mut self.notes);
        check.at = at.to_owned();
        check.is_complete = seen.is_complete;
        check.look = seen.look;
        check.blind = seen.scene.blind;
        check.doubts.extend(seen.doubts);
        check.doubts.extend(missing(census, Some(lost)));
        if seen.scene.unread_threads > 0 {
            let many = seen.scene.unread_threads;
            check.doubts.push(format!("the vector registers of {many} threads could not be read"));
        }
        if check.look.unreadable_pages > 0 {
            let many = check.look.unreadable_pages;
            check.blind.push(format!("{many} pages could not be read"));
        }
        if let Some(wanted) = &self.args.retained_by {
            let names = (&mut *symbols, &hidden);
            check.retained =
                retained::of(&seen.checked.retained, wanted, census, &seen.holders, names);
        }
        tally.tell(&mut check);
        report.missing_symbols = symbols.missing();
        if report.target == "altered" {
            report.status = Exit::Left.code();
        }
        report.check = Some(check);
    }
}

/// What records are missing, in words.
pub(super) fn missing(census: &Census, lost: Option<Lost>) -> Vec<String> {
    let odd = census.oddities;
    let lost = lost.unwrap_or_default();
    let numbers = [
        (lost.blocks, "blocks were not recorded: their rings were full"),
        (lost.frees, "frees were not recorded: their rings were full"),
        (census.torn, "records were never finished"),
        (odd.missed_frees, "frees were missed"),
        (odd.blocks_beyond_limit, "blocks found no room"),
    ];
    let told = numbers.into_iter().filter(|(number, _)| *number > 0);
    told.map(|(number, what)| format!("{number} {what}")).collect()
}
