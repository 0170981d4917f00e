//! How far what a tool says of the places that hold most is from what the program itself knows.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::peers::{
    attempt::attempt,
    book::Place,
    dress::Folder,
    figure::Figure,
    kit::{program, run as run_to_end},
    part::Run,
    tool::{ALL, JEMALLOC_SAMPLED, SAMPLED},
    work::built,
};
use crate::truth;

const PART: &str = "truth";
const WORK: &str = "ten places of twenty that hold most";
/// So many of the places are looked at.
const TOP: usize = 10;
/// All places are called so, and a number.
const NAME: &str = "known_site_";
/// Samples differ from run to run: what all has no chance is the same each time.
const ROUNDS_OF_EXACT: u32 = 1;

/// What a tool says each place holds.
type Held = BTreeMap<String, f64>;
type Ask = fn(&Run<'_>, &Path, &Path) -> Result<(Held, String), String>;
const TOOLS: [(&str, Ask, bool); 6] = [
    (SAMPLED, |_, program, _| by_heapattach(program, &[]), true),
    (ALL, |_, program, _| by_heapattach(program, &["--all", "--on-full=wait"]), false),
    (JEMALLOC_SAMPLED, |run, program, folder| by_jemalloc(run, program, folder, 19), true),
    ("jemalloc, every block", |run, program, folder| by_jemalloc(run, program, folder, 0), false),
    ("gperftools heap profiler", by_gperftools, false),
    ("heaptrack", by_heaptrack, false),
];

pub(super) fn measure(run: &mut Run<'_>) {
    eprintln!("truth: {WORK}");
    let program = match attempt(|| built("known_sites.c")) {
        Ok(program) => program,
        Err(why) => return run.book.fail(Place { part: PART, work: WORK, tool: "all" }, &why),
    };
    for (tool, ask, is_sampled) in TOOLS {
        let place = Place { part: PART, work: WORK, tool };
        let rounds = if is_sampled { run.options.rounds } else { ROUNDS_OF_EXACT };
        for round in 0..rounds {
            let asked = attempt(|| {
                let folder = Folder::new("truth")?;
                let (held, output) = ask(run, &program, &folder.path)?;
                error_of(&held, &output)
            });
            match asked {
                Ok(error) => run.book.note(place, Figure::ERROR, round, error),
                Err(why) => {
                    run.book.fail(place, &why);
                    break;
                }
            }
        }
    }
}

/// The mean error of the places that hold most, in percent of what each holds.
fn error_of(held: &Held, output: &str) -> Result<f64, String> {
    let accounts = truth::accounts(output);
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let mut places: Vec<(&String, f64)> =
        accounts.iter().map(|(name, account)| (name, account.live_bytes as f64)).collect();
    places.sort_by(|a, b| b.1.total_cmp(&a.1));
    places.truncate(TOP);
    if held.is_empty() {
        return Err("it tells of none of the places".to_owned());
    }
    let error = |(name, live): &(&String, f64)| {
        (held.get(*name).copied().unwrap_or(0.0) - live).abs() / live * 100.0
    };
    #[expect(clippy::cast_precision_loss, reason = "ten")]
    let number = places.len() as f64;
    Ok(places.iter().map(error).sum::<f64>() / number)
}

fn by_heapattach(program: &Path, options: &[&str]) -> Result<(Held, String), String> {
    let options = [options, &["--hide-frames=none", "--no-record"]].concat();
    let (outcome, report) = truth::run(&options, program, &[]);
    let mut held = Held::new();
    for name in truth::accounts(&outcome.stdout).into_keys() {
        let sites = report.heap.sites.iter().filter(|site| site.is_in(&name));
        let bytes = sites.map(|site| site.live.bytes.value).sum();
        held.insert(name, bytes);
    }
    Ok((held, outcome.stdout))
}

fn by_jemalloc(
    run: &Run<'_>,
    program_path: &Path,
    folder: &Path,
    every: u32,
) -> Result<(Held, String), String> {
    let settings = format!(
        "prof:true,prof_final:true,lg_prof_sample:{every},prof_prefix:{}",
        folder.join("profile").display()
    );
    let mut command = Command::new(program_path);
    command.env("LD_PRELOAD", run.kit.jemalloc.as_ref()?).env("MALLOC_CONF", settings);
    let output = run_to_end(&mut command)?;
    collapsed("jeprof", program_path, folder).map(|held| (held, output))
}

fn by_gperftools(run: &Run<'_>, path: &Path, folder: &Path) -> Result<(Held, String), String> {
    let mut command = Command::new(path);
    command.env("LD_PRELOAD", run.kit.tcmalloc.as_ref()?);
    let output = run_to_end(command.env("HEAPPROFILE", folder.join("profile")))?;
    collapsed("google-pprof", path, folder).map(|held| (held, output))
}

/// What a reader makes of the last profile in a folder.
fn collapsed(reader: &str, program_path: &Path, folder: &Path) -> Result<Held, String> {
    let mut profiles: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(|error| error.to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "heap"))
        .collect();
    profiles.sort();
    let profile = profiles.pop().ok_or("no profile was written")?;
    let mut command = Command::new(program(reader)?);
    command.args(["--collapsed", "--inuse_space"]).arg(program_path).arg(profile);
    run_to_end(&mut command).map(|text| sums(&text))
}

fn by_heaptrack(run: &Run<'_>, path: &Path, folder: &Path) -> Result<(Held, String), String> {
    let mut command = Command::new(run.kit.heaptrack.as_ref()?);
    let output = run_to_end(command.arg("-o").arg(folder.join("recording")).arg(path))?;
    let stacks = folder.join("stacks");
    let mut command = Command::new(program("heaptrack_print")?);
    let recording = ["zst", "gz"].map(|end| folder.join("recording").with_extension(end));
    let recording = recording.into_iter().find(|path| path.is_file()).ok_or("no recording")?;
    command.arg("-f").arg(recording).args(["--flamegraph-cost-type", "leaked", "-F"]);
    run_to_end(command.arg(&stacks))?;
    let text = fs::read(&stacks).map_err(|error| error.to_string())?;
    Ok((sums(&String::from_utf8_lossy(&text)), output))
}

/// The bytes of all stacks that go through a place.
fn sums(stacks: &str) -> Held {
    let mut held = Held::new();
    for line in stacks.lines() {
        let Some((stack, bytes)) = line.rsplit_once(' ') else { continue };
        let Some(at) = stack.find(NAME) else { continue };
        let name = stack[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_');
        *held.entry(name.collect()).or_default() += bytes.parse::<f64>().unwrap_or(0.0);
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_the_places_that_hold_most() {
        let stacks = "main;known_site_01<00a>;malloc 50\nmain;known_site_01;x 60\nother 7\n\
            main (a.c);known_site_02 (a.c); 200";
        let held = sums(stacks);
        assert_eq!(held["known_site_01"], 110.0);
        let output = "site 1 1 1 100 known_site_01\nsite 1 1 1 200 known_site_02\nend 0\n";
        let error = error_of(&held, output).unwrap();
        assert!((error - 5.0).abs() < 1e-9, "{error}");
        assert!(error_of(&Held::new(), output).is_err());
    }
}
