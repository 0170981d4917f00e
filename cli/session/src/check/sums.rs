//! The sums of a check: what the heap holds, and whether it grows, from one ledger of what is in memory.

use std::time::Duration;

use heapattach_injector::watch::{Lost, Session};

use crate::watch::{
    intake::{Left, Recorder},
    names,
};
use heapattach_ledger::Ledger;
use heapattach_recording::names::Code;
use heapattach_recording::{Context, Heading, Replay, SessionWriter, Store};
use heapattach_report::{HeapReport, Report};
use heapattach_verdict::{growth::Growth, summary::MappedGrowth};

use super::{
    Inspection,
    growth_watch::{self, GrowthMeasure},
    looked::lock,
    patience::Patience,
};

impl Inspection<'_> {
    /// Writes down what is to be said of them, once nothing else needs the records.
    pub(super) fn tell_sums(
        &self,
        session: &Session<'_>,
        mut recorder: Recorder,
        (growth_measure, counted): (Option<GrowthMeasure<'_>>, Duration),
        lost: Lost,
        patience: &mut Patience<'_>,
        report: &mut Report,
    ) {
        let is_told = self.options.functions;
        let has_growth_measure = growth_measure.is_some();
        if growth_measure.is_none() && !is_told {
            return;
        }
        let measured = growth_measure
            .map(|growth_measure| growth_measure.conclude(&mut recorder, counted))
            .transpose();
        let (measured, why_none) = match measured {
            Ok(measured) => (measured, None),
            Err(why) => (None, Some(why)),
        };
        let (mut heading, store): (Heading, Option<Store>) = match measured {
            Some((heading, store)) => (heading, Some(store)),
            None => (Heading::default(), None),
        };
        heading.about.every = session.stream.interval;
        heading.about.loss = recorder.loss(lost);
        heading.hide_frames.clone_from(&self.options.hooks.hide_frames);
        let Left { ended, births, page_births, kernel, until, session_writer, threads, moments } =
            recorder.leave();
        (heading.births, heading.page_births, heading.kernel) = (births, page_births, kernel);
        let symbols = &mut *lock(&self.symbols);
        let (known, addresses) = (symbols.known(), ended.addresses().to_vec());
        let code =
            names::look_up(symbols, addresses, |far| patience.goes_on_with(&far.to_string()));
        let code = code.unwrap_or_else(|| {
            report.blind.push(names::NOT_AWAITED.to_owned());
            Code::without_names(&known)
        });
        // No other process reads this file: names are known here.
        let written = store.map(|store| written(session_writer, &heading).map(|()| store));
        let (mut ledger, replay) = ended.ledger(Context { heading, code, threads, moments }, until);
        let growth = written.map(|store| growth(&mut ledger, store?, replay));
        if let Some(check) = &mut report.check {
            check.mapped_growth = has_growth_measure.then(|| MappedGrowth::of(&ledger)).flatten();
            let (found, why) =
                growth.transpose().map_or_else(|why| (None, Some(why)), |f| (f, None));
            check.growth = found.or(check.growth.take());
            check.why_no_growth = why.or(why_none).or(check.why_no_growth.take());
        }
        if is_told {
            report.missing_symbols = symbols.missing();
            report.heap = HeapReport::of(&ledger);
        }
    }
}

/// Writes what happened to its end.
fn written(session_writer: Option<SessionWriter>, heading: &Heading) -> Result<(), String> {
    let session_writer = session_writer.ok_or("nothing was recorded")?;
    let written = session_writer.finish(heading, None);
    let told = |error| format!("events could not be recorded: {error}");
    written.map(|_| ()).map_err(told)
}

/// Whether the heap grows, by what is written down in memory of ours.
fn growth(ledger: &mut Ledger, store: Store, replay: Option<Replay>) -> Result<Growth, String> {
    let course = replay.map(|replay| replay.course(store, || true)).transpose()?;
    ledger.course = course.unwrap_or_default();
    growth_watch::growth(ledger)
}
