//! A run: its parts one after the other, and what is written down.

mod checks;
mod curves;
mod pauses;
mod race;
mod records;
mod stops;
mod truth;
mod uprobes;

use std::{fs, path::Path, time::Instant};

use super::{
    Comparison, Options, Outcome,
    attempt::attempt,
    book::{Book, Place},
    chart, goals, install,
    kit::Kit,
    machine, table, work,
};

/// What the parts of a run share.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) kit: Kit,
    pub(super) book: Book,
}

type Part = (&'static str, fn(&mut Run<'_>));
const PARTS: [Part; 8] = [
    ("race", |run| {
        race::measure(run.options, &run.kit, &work::all(run.options.quick), &mut run.book);
    }),
    ("records", records::measure),
    ("stops", stops::measure),
    ("truth", truth::measure),
    ("curves", |run| {
        if !run.options.quick {
            curves::measure(run);
        }
    }),
    ("pauses", pauses::measure),
    ("checks", checks::measure),
    ("uprobes", |run| {
        if !run.options.quick {
            uprobes::measure(run);
        }
    }),
];

/// Measures, or reads a run; writes it, and compares it if that is wanted. False: two runs disagree.
///
/// # Errors
/// If a file cannot be read or written.
pub fn measure(options: &Options) -> Result<bool, String> {
    let outcome = match &options.read {
        Some(path) => read(path, &options.out)?,
        None => run(options)?,
    };
    let Some(old) = &options.compare else { return Ok(true) };
    let comparison = Comparison::of(&Outcome::read(old)?, &outcome);
    print!("{comparison}");
    Ok(comparison.agrees())
}

fn run(options: &Options) -> Result<Outcome, String> {
    let began = Instant::now();
    fs::create_dir_all(&options.out).map_err(|e| format!("{}: {e}", options.out.display()))?;
    if options.may_install && !options.quick {
        install::missing();
    }
    let kit = Kit::find(options.quick);
    let machine = machine::describe(&kit);
    machine.iter().for_each(|(name, value)| println!("{name}: {value}"));
    let mut run = Run { options, kit, book: Book::default() };
    for (name, part) in PARTS.iter().filter(|(name, _)| options.wants(name)) {
        let result = attempt(|| {
            part(&mut run);
            Ok(())
        });
        if let Err(why) = result {
            run.book.fail(Place { part: name, work: "all", tool: "all" }, &why);
        }
        // What was measured is not lost if a later part does not come to its end.
        let seconds = began.elapsed().as_secs_f64();
        let settings = (options.rounds, options.seed);
        let outcome = Outcome::new(&run.book, machine.clone(), settings, seconds);
        write_samples(&options.out, &run.book)?;
        write(&options.out, &outcome)?;
        eprintln!("{name} done after {seconds:.0} s");
    }
    Outcome::read(&options.out.join("peers.json"))
}

/// A run that was made; if it has a place to go to, its tables and pictures are made anew.
fn read(path: &Path, out: &Path) -> Result<Outcome, String> {
    let mut outcome = Outcome::read(path)?;
    outcome.goals = goals::judge(&outcome.rows);
    if !out.as_os_str().is_empty() {
        fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
        write(out, &outcome)?;
    }
    Ok(outcome)
}

fn write_samples(folder: &Path, book: &Book) -> Result<(), String> {
    let mut samples = String::new();
    for sample in book.samples() {
        samples += &serde_json::to_string(sample).map_err(|error| error.to_string())?;
        samples.push('\n');
    }
    let path = folder.join("samples.jsonl");
    fs::write(&path, samples).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(folder: &Path, outcome: &Outcome) -> Result<(), String> {
    let json = serde_json::to_string(outcome).map_err(|error| error.to_string())?;
    let mut files = vec![
        ("peers.json".to_owned(), json + "\n"),
        ("peers.md".to_owned(), table::Markdown(outcome).to_string()),
    ];
    files.extend(chart::all(outcome));
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
