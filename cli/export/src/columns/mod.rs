//! A session as tables of Parquet, for engines that ask over many machines.
//!
//! ```text
//! FOLDER/TABLE/service=NAME/day=YYYY-MM-DD/SESSION.parquet
//! session <- sums -> stacks -> frames -> modules      marks -> session
//! ```
//!
//! Numbers of stacks, frames and modules are digests of what they are, so that those of two machines are
//! the same where the code is. Which stacks have rows of their own is decided once, for all of the session:
//! the sums of one stack can be followed from interval to interval.
//!
//! Sums come from the ledger of an interval, as a report of that time has them.

mod code;
mod identity;
mod interval;
mod place;
mod session;
mod sums;
#[cfg(test)]
mod tests;

use std::{io, io::Write, ops::Range, path::Path, time::Duration};

use heapattach_ledger::{Ledger, Mark, Metric};

use crate::parquet::{Schema, Table, Value};
use identity::Identity;
use interval::Interval;

/// Raised whenever a column changes its meaning or goes away; new columns and tables may come.
pub const SCHEMA: &str = "heapattach/columns/1";

/// What is written beside the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The machine; empty if that is not known: a recording does not tell it.
    pub host: &'a str,
    /// The service; without it the name of the program.
    pub service: Option<&'a str>,
    /// So many stacks have rows of their own, the largest by this metric.
    pub stacks: usize,
    /// See `stacks`.
    pub metric: Metric,
}

/// A session, all of it and parts of its time.
pub struct Session<'a> {
    /// All of it.
    pub whole: &'a Ledger,
    /// What happened in a time, as if blocks that came earlier were not there.
    pub part: &'a mut dyn FnMut(Range<Duration>) -> Ledger,
    /// Its marks.
    pub marks: &'a [Mark],
}

/// Writes the rows of a table.
pub type Fill<'a> = &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// Writes all tables. `save` makes a file of this name, below the folder of the tables.
///
/// # Errors
/// Those of `save`.
pub fn write<E>(
    session: Session<'_>,
    labels: &Labels<'_>,
    save: &mut dyn FnMut(&Path, Fill<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let Session { whole, part, marks } = session;
    let identity = Identity::of(whole, labels);
    let numbers: Vec<i64> = identity::stacks(whole).collect();
    let chosen = sums::chosen(whole, &numbers, labels);
    let places = sums::places(&numbers, &chosen.iter().copied().collect());
    drop(numbers);
    let place = |table: &str, day| place::of(table, &identity.service, day, identity.session);
    let began = identity.began_ms;
    let mut put =
        |table: &str, day, schema: &Schema, rows: &mut dyn FnMut(Put<'_>) -> io::Result<()>| {
            save(&place(table, day), &mut |out| {
                let mut file = Table::new(out, schema)?;
                rows(&mut |row| file.row(row))?;
                file.finish(&[("heapattach.schema", SCHEMA)])
            })
        };
    let intervals = interval::all(began, whole.about.lasted_ms);
    for of_day in intervals.chunk_by(|a, b| place::day(a.start_ms) == place::day(b.start_ms)) {
        let Some(Interval { start_ms: day, .. }) = of_day.first() else { continue };
        put("sums", *day, &sums::SCHEMA, &mut |row| {
            of_day.iter().try_for_each(|interval| {
                let window = interval.window(began);
                // All until the end of the interval has what is in use then; the interval has the rest.
                let until = part(Duration::ZERO..window.end);
                let within = match window.start.is_zero() {
                    true => None,
                    false => Some(part(window)),
                };
                let within = within.as_ref().unwrap_or(&until);
                sums::rows(&identity, interval, &until, within, &chosen, row)
            })
        })?;
    }
    put("stacks", began, &code::STACKS, &mut |row| code::stacks(whole, &places, row))?;
    put("frames", began, &code::FRAMES, &mut |row| code::frames(whole, &places, row))?;
    put("modules", began, &code::MODULES, &mut |row| code::modules(whole, row))?;
    put("marks", began, &session::MARKS, &mut |row| session::marks(&identity, marks, row))?;
    put("session", began, &session::SESSION, &mut |row| row(session::row(&identity, whole)))
}

/// Takes a row.
type Put<'a> = &'a mut dyn FnMut(Vec<Value>) -> io::Result<()>;
