//! From what was seen to the report.

use heapattach_injector::{counts::Lost, session::Session};

use crate::{
    check_report::CheckReport, exit::Exit, hidden::Hidden, recorder::Recorder, report::Report,
    retained_report,
};

use super::{Inspection, end::End, sight::Seen};

impl Inspection<'_> {
    /// Writes down what was found.
    pub(super) fn conclude(
        &mut self,
        session: &Session<'_>,
        end: End,
        recorder: &Recorder,
        seen: Seen,
        lost: Lost,
        report: &mut Report,
    ) {
        let hidden = Hidden::new(&self.args.hooks.hide_frames);
        let mut check =
            CheckReport::of(&seen.checked, recorder, &mut self.symbols, &hidden, &self.args.told());
        seen.hush.tell(seen.checked.quiet, &mut check);
        check.notes.append(&mut self.notes);
        check.at = end.name().to_owned();
        check.is_complete = self.is_complete(session);
        check.look = seen.look;
        check.blind = seen.scene.blind;
        check.doubts.extend(seen.doubts);
        check.doubts.extend(missing(recorder, lost));
        if seen.scene.unread_threads > 0 {
            let many = seen.scene.unread_threads;
            check.doubts.push(format!("the vector registers of {many} threads could not be read"));
        }
        if check.look.unreadable_pages > 0 {
            let many = check.look.unreadable_pages;
            check.blind.push(format!("{many} pages could not be read"));
        }
        if let Some(wanted) = &self.args.retained_by {
            let names = (&mut self.symbols, &hidden);
            check.retained = retained_report::of(&seen.checked.retained, wanted, recorder, names);
        }
        report.missing_symbols = self.symbols.missing();
        if report.target == "altered" {
            report.status = Exit::Left.code();
        }
        report.check = Some(check);
    }
}

/// What records are missing, in words.
fn missing(recorder: &Recorder, lost: Lost) -> Vec<String> {
    let odd = recorder.profile().oddities();
    let numbers = [
        (lost.blocks, "blocks were not recorded: their rings were full"),
        (lost.frees, "frees were not recorded: their rings were full"),
        (recorder.records.torn(), "records were never finished"),
        (odd.missed_frees, "frees were missed"),
        (odd.blocks_beyond_limit, "blocks found no room"),
    ];
    let told = numbers.into_iter().filter(|(number, _)| *number > 0);
    told.map(|(number, what)| format!("{number} {what}")).collect()
}
