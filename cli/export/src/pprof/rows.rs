//! A profile of rows that were made elsewhere: for what happened in a window, say, or with small stacks together.
//!
//! Only code that a row leads to is written, and no labels: each of them becomes a series, or a column, with those
//! who collect profiles.

use std::io::{self, BufWriter, Write};

use flate2::{Compression, write::GzEncoder};

use super::{Writer, field, id, protobuf::Message};
use crate::sample::{Amount, REST, by_stack};
use heapattach_ledger::{Ledger, Metric, Module};

/// Stands for the stacks that are together.
const OTHER: &str = "other";

/// Which stack a row is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// One of the ledger's.
    Stack(u32),
    /// What found no place among the rows of the ledger.
    NotKept,
    /// Several that are together.
    Other,
}

/// What is told of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRow {
    /// The stack.
    pub place: Place,
    /// As many as there are types.
    pub values: Vec<u64>,
}

/// Who names code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// We do: names are sent.
    #[default]
    Ours,
    /// Who is sent to: of files with a build id only that and addresses are sent. Other code, of scripts, say, has our
    /// names all the same.
    ByServer,
}

impl Names {
    /// Whether code of this module is sent without a name.
    pub fn leaves_out(self, module: &Module) -> bool {
        self == Self::ByServer && !module.build_id.is_empty()
    }
}

/// A profile, but for the names of its code.
#[derive(Clone, Debug)]
pub struct RowProfile<'a> {
    /// What values are, each with its unit.
    pub types: &'a [(&'a str, &'a str)],
    /// The type that is shown first.
    pub default: &'a str,
    /// What is told.
    pub rows: &'a [StackRow],
    /// When it was, since 1970.
    pub time_nanos: u64,
    /// How long it lasted; 0 of what is so at one moment.
    pub duration_nanos: u64,
    /// Sentences for who reads it.
    pub notes: &'a [String],
    /// Who names code. An address that has no name here is one of its file, not of the process: who names it has no more
    /// than the file.
    pub names: Names,
}

/// The types of [`rows`], in their order.
pub const TYPES: [(&str, &str); 6] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
    ("mapped_space", "bytes"),
    ("mapped_live_space", "bytes"),
];

/// What each stack has, all threads together: values of [`TYPES`]. The stacks of mapped pages are only in a ledger with
/// its mapped pages ([`Ledger::with_all_mapped`]).
pub fn rows(ledger: &Ledger) -> Vec<StackRow> {
    let row = |sample: crate::sample::Sample| {
        let is_pages = sample.stack.is_some_and(|stack| ledger.is_mapping(stack));
        let (alloc, live) = (sample.amount(Metric::Allocated), sample.amount(Metric::Live));
        let none = Amount::default();
        let [blocks, pages] =
            if is_pages { [(none, none), (alloc, live)] } else { [(alloc, live), (none, none)] };
        let values = vec![
            blocks.0.blocks,
            blocks.0.bytes,
            blocks.1.blocks,
            blocks.1.bytes,
            pages.0.bytes,
            pages.1.bytes,
        ];
        StackRow { place: sample.stack.map_or(Place::NotKept, Place::Stack), values }
    };
    by_stack(ledger).map(row).collect()
}

/// What is to be said beside the numbers of a ledger.
pub fn row_notes(ledger: &Ledger) -> Vec<String> {
    crate::notes::all(&ledger.about)
}

/// Writes a profile; answers its size before it was compressed.
///
/// # Errors
/// Those of `out`.
pub fn write_rows(
    ledger: &Ledger,
    profile: &RowProfile<'_>,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let out = BufWriter::new(GzEncoder::new(out, Compression::fast()));
    let mut writer = Writer { names: profile.names, ..Writer::new(ledger, u32::MAX, out) };
    writer.row_header(profile)?;
    let used = Used::of(ledger, profile);
    writer.mappings(|module| used.modules[module])?;
    for (index, function) in ledger.functions.iter().enumerate() {
        if used.functions[index] {
            writer.function(id(index), &function.name, &function.file)?;
        }
    }
    let rest = ledger.functions.len();
    writer.function(id(rest), REST, "")?;
    writer.function(id(rest + 1), OTHER, "")?;
    let mut locations = Vec::new();
    for row in profile.rows.iter().filter(|row| row.values.iter().any(|value| *value != 0)) {
        match row.place {
            Place::Stack(stack) => writer.stack(Some(stack), &mut locations)?,
            Place::NotKept => writer.stack(None, &mut locations)?,
            Place::Other => {
                let (key, at) =
                    ((u32::MAX, 1), id(ledger.locations.len() + writer.locations.len() + 1));
                locations.clear();
                locations.push(writer.location(key, at, None, &[(id(rest + 1), 0)])?);
            }
        }
        let mut message = Message::default();
        message.numbers(1, locations.iter().copied());
        message.numbers(2, row.values.iter().copied());
        writer.put(|profile| profile.message(field::SAMPLE, &message))?;
    }
    writer.finish()
}

impl Writer<'_, '_> {
    fn row_header(&mut self, profile: &RowProfile<'_>) -> io::Result<()> {
        for (name, unit) in profile.types {
            self.value_type(field::SAMPLE_TYPE, name, unit)?;
        }
        self.value_type(field::PERIOD_TYPE, "space", "bytes")?;
        let default = self.string(profile.default);
        let notes = profile.notes.iter().map(|note| self.string(&crate::harmless::line(note)));
        let notes: Vec<_> = notes.collect();
        let every = self.ledger.about.every.max(1);
        self.put(|message| {
            message.number(field::PERIOD, every);
            message.number(field::TIME_NANOS, profile.time_nanos);
            message.number(field::DURATION_NANOS, profile.duration_nanos);
            message.numbers(field::COMMENT, notes);
            message.number(field::DEFAULT_SAMPLE_TYPE, default);
        })
    }
}

/// The code that rows lead to.
struct Used {
    functions: Vec<bool>,
    modules: Vec<bool>,
}

impl Used {
    fn of(ledger: &Ledger, profile: &RowProfile<'_>) -> Self {
        let (functions, modules) = (ledger.functions.len(), ledger.modules.len());
        let mut used = Self { functions: vec![false; functions], modules: vec![false; modules] };
        let stacks = profile.rows.iter().filter_map(|row| match row.place {
            Place::Stack(stack) => ledger.stacks.get(stack),
            Place::NotKept | Place::Other => None,
        });
        let mut seen = vec![false; ledger.locations.len()];
        for &location in stacks.flat_map(|stack| stack.locations) {
            if std::mem::replace(&mut seen[location as usize], true) {
                continue;
            }
            let location = &ledger.locations[location as usize];
            used.modules[location.module as usize] = true;
            if profile.names.leaves_out(&ledger.modules[location.module as usize]) {
                continue;
            }
            location.lines.iter().for_each(|line| used.functions[line.function as usize] = true);
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::{super::decoded, *};
    use heapattach_ledger::sample;

    fn told(rows: &[StackRow], names: Names) -> (Vec<u8>, usize) {
        let mut file = Vec::new();
        let profile = RowProfile {
            types: &TYPES,
            default: "inuse_space",
            rows,
            time_nanos: 7,
            duration_nanos: 9,
            notes: &[],
            names,
        };
        let size = write_rows(&sample::ledger(), &profile, &mut file).unwrap();
        let mut message = Vec::new();
        GzDecoder::new(&file[..]).read_to_end(&mut message).unwrap();
        (message, size)
    }

    #[test]
    fn rows_are_what_the_ledger_says_and_have_no_labels() {
        let all = rows(&sample::ledger());
        assert_eq!(all[0].values[2..4], [1000, 64_000]);
        let (message, size) = told(&all, Names::Ours);
        assert_eq!(message.len(), size);
        let samples = decoded::all(&message, field::SAMPLE);
        assert_eq!(samples.len(), all.len());
        assert!(samples.iter().all(|sample| decoded::all(sample, 3).is_empty()), "labels");
        assert_eq!(decoded::number(&message, field::DURATION_NANOS), 9);
        assert_eq!(decoded::number(&message, field::TIME_NANOS), 7);
    }

    #[test]
    fn what_a_server_names_has_its_address_in_the_file_and_no_name() {
        let ledger = sample::ledger();
        let (message, size) = told(&rows(&ledger), Names::ByServer);
        assert_eq!(message.len(), size);
        let strings = decoded::all(&message, field::STRING);
        let has = |text: &str| strings.contains(&text.as_bytes().to_vec());
        let mut of_files = 0;
        for location in decoded::all(&message, field::LOCATION) {
            let module = decoded::number(&location, 2).checked_sub(1);
            let module = module.and_then(|at| ledger.modules.get(usize::try_from(at).ok()?));
            let Some(module) = module else {
                continue;
            };
            assert_eq!(decoded::all(&location, 4).is_empty(), !module.build_id.is_empty());
            if !module.build_id.is_empty() {
                of_files += 1;
                let address = decoded::number(&location, 3);
                let known = ledger.locations.iter();
                let mut known = known.map(|one| one.address - 1 - module.bias);
                assert!(known.any(|known| known == address), "{address:#x}");
                assert!(has(&module.build_id));
            }
        }
        assert!(of_files > 0);
        for location in &ledger.locations {
            if ledger.modules[location.module as usize].build_id.is_empty() {
                continue;
            }
            for line in &location.lines {
                let name = &ledger.functions[line.function as usize].name;
                assert!(!has(name), "{name} in {strings:?}");
            }
        }
    }

    #[test]
    fn code_that_no_row_leads_to_is_not_written() {
        let rows = [StackRow { place: Place::Other, values: vec![1; 6] }];
        let (message, _) = told(&rows, Names::Ours);
        assert_eq!(decoded::all(&message, field::FUNCTION).len(), 2);
        assert_eq!(decoded::all(&message, field::MAPPING).len(), 0);
        let strings = decoded::all(&message, field::STRING);
        assert!(strings.contains(&b"other".to_vec()));
    }
}
