//! Whether a check passes: what was known before it is read here, its result is compared with limits
//! and baseline, and written in every form that was asked for.

use std::{
    env,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    args::{CheckArgs, FileFormat, GithubArg, json},
    exit_status::Exit,
    next_command,
    output::{complain, print},
    terminal::Verbosity,
};
use heapattach_export::Format;
use heapattach_files::{
    input,
    output_file::{self, Readers},
};
use heapattach_report::{
    CheckMoment, Report, Status,
    findings::{self, Baseline, Findings, Wanted},
    suppression::Suppressions,
};
use heapattach_session::client::front;
use heapattach_view::{Colour, Page};

/// All files of rules together; those of browsers are half a megabyte.
const MOST_RULES: u64 = 16 << 20;
/// A file of known leaks: of some ten thousand.
const MOST_KNOWN: u64 = 16 << 20;

/// That of LeakSanitizer.
const USUAL_STATUS: u8 = 23;

/// What was known before the check.
#[derive(Debug)]
pub struct Gate<'a> {
    args: &'a CheckArgs,
    /// What is not to be told.
    pub rules: Suppressions,
    baseline: Option<Baseline>,
}

/// The result as JSON: what was seen, and what is made of it.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a Report,
    findings: &'a Findings,
}

impl<'a> Gate<'a> {
    /// Reads the files that were named.
    ///
    /// # Errors
    /// With the file, and what is wrong with it.
    pub fn open(args: &'a CheckArgs) -> Result<Self, String> {
        let quiet = &args.quiet;
        // The user's come first: what they name is theirs to count.
        let mut rules = Suppressions::default();
        let mut left = MOST_RULES;
        for path in &quiet.suppressions {
            let text = input::text(path, left)?;
            left -= text.len() as u64;
            rules.add_file(&path.display().to_string(), &text);
        }
        if let Some(complaint) = rules.complaints.first() {
            return Err(complaint.clone());
        }
        if !quiet.no_builtin_suppressions {
            rules.add_built_in();
        }
        let limits = &args.limits;
        let baseline = match &limits.baseline {
            Some(path) if !limits.update_baseline => {
                let text = input::text(path, MOST_KNOWN).map_err(|error| {
                    format!("{error}; make it with --update-baseline, from what leaks now")
                })?;
                let parsed = Baseline::parse(&text);
                Some(parsed.map_err(|error| format!("{}: {error}", path.display()))?)
            }
            _ => None,
        };
        Ok(Self { args, rules, baseline })
    }

    /// Why a file that was named can never be written.
    ///
    /// # Errors
    /// With its name.
    pub fn look_at_files(&self) -> Result<(), String> {
        let (outlet, limits) = (&self.args.outlet, &self.args.limits);
        let baseline = limits.baseline.as_ref().filter(|_| limits.update_baseline);
        let named = [&outlet.report, &outlet.junit, &outlet.sarif, &self.args.retained_pprof];
        let named = named.into_iter().flatten().chain(baseline).map(PathBuf::as_path);
        let json = json::file(outlet.json.as_ref());
        named.chain(json).try_for_each(output_file::look_at)
    }

    /// How much is said besides the result.
    pub fn verbosity(&self) -> Verbosity {
        self.args.verbosity()
    }

    /// Judges the result, writes it, and answers how to end.
    pub fn conclude(&self, mut report: Report) -> Exit {
        front::let_signals_end_us();
        if let Some(error) = report.error.as_ref().filter(|_| self.verbosity() != Verbosity::Silent)
        {
            complain(&format!("{error} (target: {})", report.target));
        }
        let mut found = Findings::of(&report);
        if self.args.outlet.full_stacks {
            found.unfold();
        }
        let is_checked = findings::checked(&report).next().is_some();
        let mut failures = Vec::new();
        if is_checked {
            failures.extend(self.judge(&mut found).err());
            report.status = self.status(&report, &found);
        } else if report.status == Status::Done && !found.unchecked.is_empty() {
            // What was not checked must not pass for clean.
            report.status = Status::Incomplete;
        }
        failures.extend(self.write(&report, &found, is_checked));
        failures.iter().for_each(|failure| complain(failure));
        let is_own = report.status == Status::Done || report.status == self.not_passed(&report);
        match self.args.pid {
            _ if failures.is_empty() || !is_own => report.status.into(),
            Some(_) => Exit::Failed,
            None => Exit::RunFailed,
        }
    }

    /// Nothing was done at all, for this reason.
    pub fn refuse(&self, pid: i32, why: &str, exit: Exit) -> Exit {
        if self.verbosity() != Verbosity::Silent {
            complain(why);
        }
        let error = Some(why.to_owned());
        let report = Report { error, ..Report::new(pid, String::new()) };
        let found = Findings::of(&report);
        if json::is_instead(self.args.outlet.json.as_ref()) {
            self.write(&report, &found, false).iter().for_each(|failure| complain(failure));
            return exit;
        }
        self.write_files(&report, &found).iter().for_each(|failure| complain(failure));
        exit
    }

    /// Leaves out what is known, and notes which limits are passed.
    fn judge(&self, found: &mut Findings) -> Result<(), String> {
        let limits = &self.args.limits;
        let mut result = Ok(());
        match (&limits.baseline, &self.baseline) {
            (Some(path), None) if found.doubts.is_empty() => {
                let baseline = Baseline::of(found);
                result = output_file::write(path, baseline.text(), Readers::Usual);
                baseline.apply(found);
            }
            (_, Some(baseline)) => baseline.apply(found),
            (_, None) => {}
        }
        let limits = limits.limits(self.args.quiet.fail_on_unused_suppressions);
        found.breaches = limits.judge(found);
        if self.args.limits.ask_for_growth() {
            let line = |why: &String| format!("whether the heap grows cannot be judged: {why}");
            found.unjudged.extend(found.why_no_growth.iter().map(line));
            if found.measured.growth.is_none() && found.why_no_growth.is_empty() {
                found.unjudged.push(line(&"no process was watched for it".to_owned()));
            }
        }
        result
    }

    fn status(&self, report: &Report, found: &Findings) -> Status {
        // What came after the last of several checks is not known; what they found, is.
        let is_cut = report.check.as_ref().is_some_and(|check| check.at == CheckMoment::Round);
        if report.status != Status::Done && !is_cut {
            report.status
        } else if !found.doubts.is_empty() {
            Status::Incomplete
        } else if !found.breaches.is_empty() {
            self.not_passed(report)
        } else if report.status != Status::Done {
            report.status
        } else if is_cut || !found.unjudged.is_empty() || !found.unchecked.is_empty() {
            Status::Incomplete
        } else {
            Status::Done
        }
    }

    /// How a check ends that does not pass: as the user wants it, or as the program does.
    fn not_passed(&self, report: &Report) -> Status {
        let checks = findings::checked(report).filter_map(|report| report.check.as_ref());
        let of_program = || checks.filter_map(|check| check.exit_code).next();
        Status::from(self.args.error_exitcode.or_else(of_program).unwrap_or(USUAL_STATUS))
    }

    /// Writes every form; answers what could not be written.
    fn write(&self, report: &Report, found: &Findings, is_checked: bool) -> Vec<String> {
        let outlet = &self.args.outlet;
        let mut failures = Vec::new();
        if let Some(text) = self.text(report, found, is_checked) {
            match (&outlet.report, self.args.pid) {
                // A report may name paths and arguments: it is for its owner.
                (Some(path), _) => {
                    failures.extend(output_file::write(path, &text, Readers::Owner).err());
                }
                _ if text.is_empty() => {}
                (None, Some(_)) => {
                    let text = self.for_stream(text, &std::io::stdout());
                    if print(text.trim_end(), Exit::Done) != Exit::Done {
                        failures.push("the result is not complete".to_owned());
                    }
                }
                // Standard output is the program's.
                (None, None) => {
                    let text = self.for_stream(text, &std::io::stderr());
                    let _ = std::io::stderr().write_all(text.as_bytes());
                }
            }
        }
        failures.extend(self.write_files(report, found));
        failures
    }

    /// On a terminal, as wide as it is.
    fn for_stream(&self, text: String, stream: &impl IsTerminal) -> String {
        if json::is_instead(self.args.outlet.json.as_ref()) {
            return text;
        }
        let mut page = Page::for_stream(Colour::Never, stream);
        page.lines(&text);
        page.finish()
    }

    /// The forms for machines, which want one in any case.
    fn write_files(&self, report: &Report, found: &Findings) -> Vec<String> {
        let outlet = &self.args.outlet;
        let mut failures = Vec::new();
        if let Some(path) = json::file(outlet.json.as_ref()) {
            failures
                .extend(output_file::write(path, document(report, found), Readers::Owner).err());
        }
        let near = found.relative_to(&root());
        for (path, text) in
            [(&outlet.junit, findings::junit(found)), (&outlet.sarif, findings::sarif(&near))]
        {
            let written = path.as_ref().map(|path| output_file::write(path, &text, Readers::Usual));
            failures.extend(written.and_then(Result::err));
        }
        if let Some(path) = &self.args.retained_pprof {
            let checks = findings::checked(report).filter_map(|report| report.check.as_ref());
            let sites = checks.flat_map(|check| &check.retained);
            let written = heapattach_export::write_retained(sites)
                .map_err(|error| error.to_string())
                .and_then(|profile| output_file::write(path, profile, Readers::Owner));
            match written {
                Ok(()) if self.verbosity() == Verbosity::Usual => {
                    complain(&next_command::written(path, FileFormat::Export(Format::Pprof)));
                }
                Ok(()) => {}
                Err(error) => failures.push(error),
            }
        }
        if is_on_github(outlet.github) {
            // The program's output is read for them as well as its errors.
            let text = findings::annotations(&near);
            let _ = match self.verbosity() {
                Verbosity::Usual | Verbosity::Errors => {
                    std::io::stderr().write_all(text.as_bytes())
                }
                Verbosity::Silent => std::io::stdout().write_all(text.as_bytes()),
            };
            if let Some(path) = env::var_os("GITHUB_STEP_SUMMARY") {
                let page = findings::step_summary(&near);
                failures.extend(output_file::append(Path::new(&path), &page).err());
            }
        }
        failures
    }

    fn text(&self, report: &Report, found: &Findings, is_checked: bool) -> Option<String> {
        if json::is_instead(self.args.outlet.json.as_ref()) {
            return Some(document(report, found));
        }
        if !is_checked {
            let why = report.why.as_ref()?;
            let mut text = format!("heapattach: not checked: {why}\n");
            for one in &found.killed {
                text += &format!("heapattach: {} ({}) was {}\n", one.pid, one.program, one.words());
            }
            return Some(text);
        }
        let quiet = &self.args.quiet;
        let wanted = Wanted {
            rules: quiet.print_suppressions,
            new_rules: quiet.gen_suppressions,
            only_findings: self.args.outlet.quiet,
        };
        Some(findings::text(found, report, wanted))
    }
}

fn document(report: &Report, findings: &Findings) -> String {
    let document = Document { report, findings };
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// Where the sources are, as those see it who show them.
fn root() -> PathBuf {
    let workspace = env::var_os("GITHUB_WORKSPACE").map(PathBuf::from);
    workspace.or_else(|| env::current_dir().ok()).unwrap_or_default()
}

fn is_on_github(wanted: GithubArg) -> bool {
    match wanted {
        GithubArg::On => true,
        GithubArg::Off => false,
        GithubArg::Auto => env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true"),
    }
}
