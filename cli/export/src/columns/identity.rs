//! Numbers that are the same on every machine: the first 64 bits of a SHA-256 of what is numbered.

use heapattach_ledger::{Ledger, Module};
use sha2::{Digest, Sha256};

use super::Labels;
use crate::harmless;

/// Which session it is.
pub struct Identity {
    /// Its number.
    pub session: i64,
    /// See [`Labels`].
    pub host: String,
    /// See [`Labels`].
    pub service: String,
    /// The process.
    pub pid: i64,
    /// The build id of its program; empty if that is not known.
    pub build: String,
    /// When counting began, in milliseconds since 1970.
    pub began_ms: i64,
}

impl Identity {
    /// That of a session.
    pub fn of(ledger: &Ledger, labels: &Labels<'_>) -> Self {
        let about = &ledger.about;
        let path = about.command.split(' ').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let program = program(ledger, name);
        let build = program.map_or("", |module| &module.build_id);
        let service = labels.service.unwrap_or(if name.is_empty() { "unknown" } else { name });
        let mut digest = Digested::default();
        digest.text(labels.host).text(service).text(&about.command).text(build);
        digest.number(about.began).number(u64::from(about.pid.unsigned_abs()));
        // Of a process there may be several in a second.
        digest.number(about.up_ms);
        Self {
            session: digest.finish(),
            host: harmless::line_or_none(labels.host),
            service: harmless::line(service),
            pid: about.pid.into(),
            build: harmless::line_or_none(build),
            began_ms: i64::try_from(about.began.saturating_mul(1000)).unwrap_or(i64::MAX),
        }
    }
}

/// The module that the command line names; else the first that looks like a program.
fn program<'a>(ledger: &'a Ledger, name: &str) -> Option<&'a Module> {
    let mut modules = ledger.modules.iter();
    let is_named = |module: &&Module| module.path.rsplit('/').next() == Some(name);
    modules.find(is_named).or_else(|| {
        let is_program = |module: &&Module| crate::pprof::is_program(&module.path);
        ledger.modules.iter().find(is_program)
    })
}

/// The number of a module: by its build, or by its path if it has none.
pub fn module(module: &Module) -> i64 {
    let mut digest = Digested::default();
    match module.build_id.is_empty() {
        true => digest.text("path").text(&module.path),
        false => digest.text("build").text(&module.build_id),
    };
    digest.finish()
}

/// The numbers of the calls at each location, the innermost first: by module, place in its file, function
/// and line.
pub fn frames(ledger: &Ledger) -> Vec<Vec<i64>> {
    let modules: Vec<i64> = ledger.modules.iter().map(module).collect();
    let of_location = |location: &heapattach_ledger::Location| {
        let lines = location.lines.iter().enumerate();
        lines
            .map(|(depth, line)| {
                let function = &ledger.functions[line.function as usize];
                let mut digest = Digested::default();
                digest.number(modules[location.module as usize].cast_unsigned());
                digest.number(location.offset).number(depth as u64);
                digest.text(&function.name).text(&function.file);
                digest.number(line.line.map_or(0, |line| u64::from(line) + 1));
                digest.finish()
            })
            .collect()
    };
    ledger.locations.iter().map(of_location).collect()
}

/// The numbers of all stacks, by their place in the ledger. 0 is that of none.
pub fn stacks(ledger: &Ledger) -> impl Iterator<Item = i64> {
    let frames = frames(ledger);
    let of_stack = move |stack: heapattach_ledger::Stack<'_>| {
        let mut digest = Digested::default();
        digest.text(stack.end.word());
        let calls = stack.locations.iter().filter_map(|&at| frames.get(at as usize)).flatten();
        calls.for_each(|frame| {
            digest.number(frame.cast_unsigned());
        });
        digest.finish()
    };
    ledger.stacks.iter().map(of_stack)
}

/// A digest, while it is fed.
#[derive(Default)]
struct Digested(Sha256);

impl Digested {
    /// With its length before it, so that no two lists of texts are the same.
    fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.0.update(number.to_le_bytes());
        self
    }

    fn finish(self) -> i64 {
        let digest = self.0.finalize();
        let first = digest.first_chunk().map_or(0, |first| i64::from_le_bytes(*first));
        // 0 means none.
        if first == 0 { 1 } else { first }
    }
}
