//! What attach would do, found out by the same code, with the target untouched.

use std::time::{Duration, Instant};

use heapattach_abi::region::tables_at;

use crate::{home::Home, options::Options, unwind::Tables};
use crate::{
    home::payload_image::PayloadImage,
    hook::{
        plan::{PlannedHook, Way, plan, settle},
        slots::{self, Sorted},
        survey::{Survey, Surveyor},
    },
    session::{
        failure::AttachError,
        prepare::{nothing_to_hook, reachable_code},
    },
    trace::target::Target,
};
use heapattach_process::proc::maps;

/// The forecast.
#[derive(Debug)]
pub struct Forecast {
    /// Every function, and how it would be hooked.
    pub hooks: Vec<PlannedHook>,
    /// The slots that would be changed or left alone.
    pub sorted: Sorted,
    /// Modules loaded.
    pub modules: usize,
    /// Modules that cannot be read yet.
    pub unreadable: usize,
    /// Threads that would be stopped.
    pub threads: usize,
    /// Address space that would be reserved.
    pub reserved: u64,
    /// How long finding all this out took; the target runs meanwhile.
    pub took: Duration,
}

/// Looks.
///
/// # Errors
/// As attach would fail before its first stop.
pub fn forecast(
    target: &Target,
    image: &PayloadImage,
    options: &Options,
) -> Result<Forecast, AttachError> {
    let began = Instant::now();
    let mut surveyor = Surveyor::new(target, options.asked)?;
    let survey: Survey = surveyor.look(target)?;
    let text = target.process.read("maps").map_err(|_| AttachError::Maps)?;
    let maps = maps::parse(&text).map_err(|_| AttachError::Maps)?;
    let wishes = options.wishes(&survey, target, &maps);
    let mut hooks = plan(target, &survey, &maps, wishes, |_| false);
    let _ = reachable_code(&mut hooks, options.mode);
    settle(&mut hooks);
    if hooks.is_empty() {
        return Err(nothing_to_hook(target, &surveyor, &hooks).into());
    }
    let by_slots = |at| hooks.iter().any(|h| h.at == at && matches!(h.way, Way::Slots { .. }));
    let sorted = slots::sort(target, &survey, &maps, None, by_slots);
    let (modules, changes) = crate::session::prepare::journal_room(&survey);
    let tables = Tables::new(&target.process, &target.memory, &maps);
    Ok(Forecast {
        sorted,
        modules: survey.loaded.len(),
        unreadable: survey.unreadable,
        threads: target.process.threads().unwrap_or_default().len(),
        reserved: Home::length_for(
            image.text().len() as u64,
            modules,
            changes,
            (tables_at(options.ring_bits) + tables.room()) as u64,
        ),
        took: began.elapsed(),
        hooks,
    })
}
