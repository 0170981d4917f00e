//! A fleet that never was: tables of a day of many machines, made from recordings with variation.
//!
//! ```text
//! recording -> pattern of a day -> process: times 1/4 to 4 a stack, its 20 largest, estimates that differ
//! ```
//!
//! A machine has the same number of processes, two of each service. Each tenth machine has a new build of all
//! services, which has other numbers of code, and in whose processes the largest stack has half as much again.

mod draw;
mod pattern;
mod process;

use std::{io, path::Path};

use super::{ENDS, FRAMES, Fill, Kept, MARKS, MODULES, SCHEMA, SESSION, STACKS, SUMS, place};
use crate::parquet::Value;
pub use pattern::Pattern;
use pattern::{Series, number};
use process::Process;

/// Processes of a service on a machine.
const OF_A_SERVICE: u32 = 2;

/// How the tables lie in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One of each table for each session, as `report` writes them.
    Sessions,
    /// One of each table for a service and a day, as they are when they were merged.
    Merged,
}

/// How large it is.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// Machines.
    pub machines: u32,
    /// Processes of each.
    pub processes: u32,
    /// The day, in milliseconds since 1970.
    pub day_ms: i64,
    /// See there.
    pub layout: Layout,
}

/// Makes a file of this name.
pub type Save<'a> = &'a mut dyn FnMut(&Path, Fill<'_>) -> io::Result<()>;

impl Fleet {
    /// How many services it has.
    pub fn services(&self) -> u32 {
        self.processes.div_ceil(OF_A_SERVICE)
    }

    /// Writes all tables of a service, whose processes do what the pattern does.
    ///
    /// # Errors
    /// Those of `save`.
    pub fn write(&self, service: u32, pattern: &Pattern, save: Save<'_>) -> io::Result<()> {
        let first = service * OF_A_SERVICE;
        let pids = first..(first + OF_A_SERVICE).min(self.processes);
        let all = || {
            let of = |machine: u32| {
                let is_new = machine % 10 == 9;
                let day_ms = self.day_ms;
                let process = move |pid| Process { pattern, service, machine, pid, is_new, day_ms };
                pids.clone().map(process)
            };
            (0..self.machines).flat_map(of)
        };
        let name = format!("service-{service:03}");
        let path = |table: Kept, session| place::of(table.name, &name, self.day_ms, session);
        if self.layout == Layout::Sessions {
            return all().try_for_each(|process| {
                ALL.into_iter().try_for_each(|table| {
                    let at = path(table, process.session());
                    save(&at, &mut |out| file(table, &mut [&process].into_iter(), out))
                })
            });
        }
        let mut builds: Vec<Process<'_>> = all().collect();
        builds.sort_by_key(|process| process.is_new);
        builds.dedup_by_key(|process| process.is_new);
        for table in ALL {
            let is_code = [STACKS.name, FRAMES.name, MODULES.name].contains(&table.name);
            let processes: Vec<_> = if is_code { Vec::new() } else { all().collect() };
            let chosen = if is_code { &builds } else { &processes };
            save(&path(table, 1), &mut |out| file(table, &mut chosen.iter(), out))?;
        }
        Ok(())
    }
}

const ALL: [Kept; 7] = [SUMS, ENDS, STACKS, FRAMES, MODULES, MARKS, SESSION];

/// A file with the rows of these processes.
fn file<'a>(
    table: Kept,
    processes: &mut dyn Iterator<Item = &'a Process<'a>>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut file = table.begin(out)?;
    for process in processes {
        match table.name {
            "sums" => process.sums(&mut |row| file.row(row))?,
            "ends" => process.ends(&mut |row| file.row(row))?,
            "session" => file.row(session(process))?,
            _ => {
                let kept = process.pattern.tables.get(table.name);
                for row in kept.into_iter().flatten() {
                    file.row(code(table, process, row))?;
                }
            }
        }
    }
    file.finish(&[("heapattach.schema", SCHEMA)])
}

/// The row of the session, of another process.
fn session(process: &Process<'_>) -> Vec<Value> {
    let kept = process.pattern.tables.get(SESSION.name).and_then(|rows| rows.first());
    let of_column = |(value, (name, _)): (&Value, &(&str, _))| match *name {
        "session" => process.session().into(),
        "host" => process.host().as_str().into(),
        "pid" => i64::from(process.pid).into(),
        "build" => process.build().as_str().into(),
        "start" => process.day_ms.into(),
        "first_start" | "last_start" => (process.day_ms + number(value)).into(),
        _ => value.clone(),
    };
    kept.into_iter().flatten().zip(SESSION.schema).map(of_column).collect()
}

/// A row of a table of code, of another build.
fn code(table: Kept, process: &Process<'_>, row: &[Value]) -> Vec<Value> {
    let of_column = |(value, (name, _)): (&Value, &(&str, _))| match *name {
        "stack" | "frame" | "module" => process.of_build(number(value)).into(),
        "build" => process.build().as_str().into(),
        _ => value.clone(),
    };
    row.iter().zip(table.schema).map(of_column).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use heapattach_ledger::sample;

    use super::*;
    use crate::parquet::decoded::read;

    /// The rows of each table, by the number of its files.
    fn rows(layout: Layout) -> BTreeMap<String, (usize, Vec<Vec<Value>>)> {
        let ledger = sample::ledger();
        let pattern = Pattern::of(&ledger, |_| ledger.clone());
        let fleet = Fleet { machines: 10, processes: 3, day_ms: 86_400_000, layout };
        let mut tables: BTreeMap<String, (usize, Vec<Vec<Value>>)> = BTreeMap::new();
        for service in 0..fleet.services() {
            let mut save = |path: &Path, fill: Fill<'_>| {
                let mut file = Vec::new();
                fill(&mut file)?;
                let table = path.iter().next().unwrap().to_str().unwrap().to_owned();
                let kept = tables.entry(table).or_default();
                kept.0 += 1;
                kept.1.extend(read(&file).1);
                Ok(())
            };
            fleet.write(service, &pattern, &mut save).unwrap();
        }
        tables
    }

    #[test]
    fn a_day_of_a_machine_has_all_intervals_of_all_stacks_however_it_lies_in_files() {
        let (own, merged) = (rows(Layout::Sessions), rows(Layout::Merged));
        assert_eq!(own["sums"].0, 30);
        assert_eq!(merged["sums"].0, 2);
        // The sample has three stacks, and there are the others.
        assert_eq!(own["sums"].1.len(), 30 * 288 * 4);
        let sorted = |tables: &BTreeMap<_, (usize, Vec<Vec<Value>>)>, table: &str| {
            let mut rows: Vec<_> = tables[table].1.iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            rows
        };
        for table in ["sums", "ends", "session", "marks"] {
            assert!(sorted(&own, table) == sorted(&merged, table), "{table}");
        }
        for table in ["stacks", "frames", "modules"] {
            let (own, merged) = (sorted(&own, table), sorted(&merged, table));
            let distinct: HashSet<_> = own.iter().collect();
            assert!(distinct.len() == merged.len(), "{table}");
            assert!(distinct == merged.iter().collect());
        }
    }
}
