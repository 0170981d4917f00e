//! Growth that is certain, while it goes on: of what is in use by the counts of each size, in which
//! blocks older than the session count when they are freed, of what the program mapped itself, and of
//! resident memory.

use std::time::{Duration, Instant};

use heapattach_injector::watch::Session;
use heapattach_ledger::Moment;
use heapattach_profile::Range;
use heapattach_report::{Measured, Trigger};
use heapattach_verdict::growth::{Alarm, Pace, net};

use crate::watch::{memory_course::resident, options::GrowthOptions, schedule::Schedule};

/// Of the blocks that were recorded so many must have been counted by size; else those of another
/// allocator would be missing.
const COUNTED: f64 = 0.9;

const MINUTE: f64 = 60.0;

/// Watches both.
#[derive(Debug)]
pub struct GrowthWatch {
    limit: u64,
    is_from_start: bool,
    began: Instant,
    next: Instant,
    period: Duration,
    heap: Alarm,
    mapped: Alarm,
    resident: Alarm,
}

impl GrowthWatch {
    /// Begins now.
    pub fn new(options: &GrowthOptions, is_from_start: bool) -> Self {
        #[allow(clippy::cast_precision_loss)]
        let alarm = Alarm::new(options.rate as f64 / MINUTE, options.window.as_secs_f64());
        let now = Instant::now();
        Self {
            limit: options.rate,
            is_from_start,
            began: now,
            next: now,
            period: Duration::from_secs_f64(alarm.period()),
            heap: alarm.clone(),
            mapped: alarm.clone(),
            resident: alarm,
        }
    }

    /// Looks, if it is time. What is in use goes first: it says where to look.
    pub fn look(&mut self, session: &Session<'_>, schedule: &Schedule<'_>) -> Option<Trigger> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + self.period;
        let at = (now - self.began).as_secs_f64();
        let in_use = self.in_use(session, schedule);
        let heap = in_use.and_then(|bytes| self.heap.take(at, bytes));
        #[allow(clippy::cast_precision_loss)]
        let own = schedule.shared_notes().pulse.own_mapped() as f64;
        let mapped = self.mapped.take(at, own);
        #[allow(clippy::cast_precision_loss)]
        let pages = resident(&session.target().process).1.map(|bytes| bytes as f64);
        let resident = pages.and_then(|bytes| self.resident.take(at, bytes));
        let told = |measure, pace: Option<Pace>| pace.map(|pace| (measure, pace));
        let (measure, Pace { rate, window }) = told(Measured::Heap, heap)
            .or_else(|| told(Measured::Mapped, mapped))
            .or_else(|| told(Measured::Resident, resident))?;
        let [value, low, high] = [rate.value, rate.low, rate.high].map(|end| end * MINUTE);
        Some(Trigger::Growth {
            at_ms: schedule.at_ms(),
            measure,
            bytes_per_minute: Range { value, low, high },
            limit: self.limit,
            window_ms: u64::try_from(Duration::from_secs_f64(window).as_millis())
                .unwrap_or(u64::MAX),
        })
    }

    /// Bytes in use more than when the session began; `None` if that is not known of older blocks.
    fn in_use(&self, session: &Session<'_>, schedule: &Schedule<'_>) -> Option<f64> {
        let at_ms = schedule.at_ms().max(1);
        let moment = Moment { at_ms, flow: schedule.flow(session), ..Moment::default() };
        let moment = schedule.shared_notes().pulse.complete(moment);
        let recorded = moment.ends.map_or(moment.blocks, |ends| ends.blocks[0]);
        let counted = net(&moment).filter(|(_, blocks)| *blocks >= COUNTED * recorded);
        match counted {
            Some((bytes, _)) => Some(bytes),
            None => self.is_from_start.then_some(moment.live),
        }
    }
}
