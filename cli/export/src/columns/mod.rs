//! A session as tables of Parquet, for engines that ask over many machines.
//!
//! ```text
//! FOLDER/TABLE/service=NAME/day=YYYY-MM-DD/SESSION.parquet
//! session <- sums -> stacks -> frames -> modules      marks -> session
//! session <- ends -> stacks
//! ```
//!
//! Numbers of stacks, frames and modules are digests of what they are, so that those of two machines are
//! the same where the code is. Which stacks have rows of their own is decided once, for all of the session:
//! the sums of one stack can be followed from interval to interval.
//!
//! Sums come from the ledger of an interval, as a report of that time has them.

mod code;
mod ends;
#[cfg(any(test, feature = "simulation"))]
pub mod fleet;
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
use ends::Ends;
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
    /// Whether it is a slot of an agent that goes from process to process: what is in use at its end is what survived
    /// the slot, and nothing is told of its ends.
    pub is_slot: bool,
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
    each_table(session, labels, &mut |identity, table, day, rows| {
        let path = place::of(table.name, &identity.service, day, identity.session);
        save(&path, &mut |out| {
            let mut file = table.begin(out)?;
            rows(&mut |row| file.row(row))?;
            file.finish(&[("heapattach.schema", SCHEMA)])
        })
    })
}

/// A table of those that a session has.
#[derive(Clone, Copy, Debug)]
struct Kept {
    name: &'static str,
    schema: &'static Schema,
    /// By these columns the rows of a file are sorted.
    sorted_by: &'static [usize],
}

impl Kept {
    const fn new(name: &'static str, schema: &'static Schema) -> Self {
        Self { name, schema, sorted_by: &[] }
    }

    fn begin<W: Write>(&self, out: W) -> io::Result<Table<'static, W>> {
        Ok(Table::new(out, self.schema)?.sorted_by(self.sorted_by))
    }
}

const ENDS: Kept = Kept::new("ends", &ends::SCHEMA);
const SUMS: Kept = Kept { sorted_by: &sums::ORDER, ..Kept::new("sums", &sums::SCHEMA) };
const STACKS: Kept = Kept::new("stacks", &code::STACKS);
const FRAMES: Kept = Kept::new("frames", &code::FRAMES);
const MODULES: Kept = Kept::new("modules", &code::MODULES);
const MARKS: Kept = Kept::new("marks", &session::MARKS);
const SESSION: Kept = Kept::new("session", &session::SESSION);

/// Takes a table of a day, in milliseconds since 1970, and what puts its rows.
type Take<'a, E> = &'a mut dyn FnMut(&Identity, Kept, i64, Rows<'_>) -> Result<(), E>;

/// Puts all rows of a table.
type Rows<'a> = &'a mut dyn FnMut(Put<'_>) -> io::Result<()>;

/// All tables of a session.
fn each_table<E>(session: Session<'_>, labels: &Labels<'_>, take: Take<'_, E>) -> Result<(), E> {
    let Session { whole, part, marks } = session;
    let identity = Identity::of(whole, labels);
    let numbers: Vec<i64> = identity::stacks(whole).collect();
    let chosen = sums::chosen(whole, &numbers, labels);
    let places = sums::places(&numbers, &chosen.iter().copied().collect());
    drop(numbers);
    let began = identity.began_ms;
    let mut put = |table, day, rows: Rows<'_>| take(&identity, table, day, rows);
    let intervals = interval::all(began, whole.about.lasted_ms);
    let mut ends = Ends::new(&identity, &chosen, &intervals);
    for of_day in intervals.chunk_by(|a, b| place::day(a.start_ms) == place::day(b.start_ms)) {
        let Some(Interval { start_ms: day, .. }) = of_day.first() else { continue };
        put(SUMS, *day, &mut |row| {
            of_day.iter().try_for_each(|interval| {
                let window = interval.window(began);
                // All until the end of the interval has what is in use then; the interval has the rest.
                let until = part(Duration::ZERO..window.end);
                let within = match window.start.is_zero() {
                    true => None,
                    false => Some(part(window)),
                };
                let within = within.as_ref().unwrap_or(&until);
                let live = sums::rows(&identity, interval, &until, within, &chosen, row)?;
                ends.note(interval, live);
                Ok(())
            })
        })?;
    }
    put(ENDS, began, &mut |row| if labels.is_slot { Ok(()) } else { ends.rows(row) })?;
    put(STACKS, began, &mut |row| code::stacks(whole, &places, row))?;
    put(FRAMES, began, &mut |row| code::frames(whole, &places, row))?;
    put(MODULES, began, &mut |row| code::modules(whole, row))?;
    put(MARKS, began, &mut |row| session::marks(&identity, marks, row))?;
    put(SESSION, began, &mut |row| row(session::row(&identity, whole, &intervals, labels)))
}

/// Takes a row.
type Put<'a> = &'a mut dyn FnMut(Vec<Value>) -> io::Result<()>;
