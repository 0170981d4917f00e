//! What is known of an interpreter in the target, and which switch would tell more.

use heapattach_injector::watch::{Python, Session, Unreadable};
use heapattach_process::{addr::RemoteAddr, proc::Process};
use heapattach_report::InterpreterReport;

use crate::watch::intake::Recorder;
use heapattach_profile::Flow;
use heapattach_symbols::Symbols;
use heapattach_text::quantity::bytes;

/// The environment variable by which Python does without arenas, and its values that say so.
const ALLOCATOR: &str = "PYTHONMALLOC=";
const WITHOUT_ARENAS: [&str; 2] = ["malloc", "malloc_debug"];

/// What is asked of a process while it lives.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// The name of its file.
    program: String,
    /// Whether it was told to have all Python objects from malloc.
    has_no_arenas: bool,
}

impl Circumstances {
    /// As they are now.
    pub fn of(process: &Process) -> Self {
        let path = std::fs::read_link(format!("/proc/{}/exe", process.pid())).unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let program = name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned();
        Self { program, has_no_arenas: has_no_arenas(process) }
    }
}

/// The interpreter of a session, if there is one.
pub fn interpreter_report(
    session: &Session<'_>,
    recorder: &Recorder,
    symbols: &Symbols,
    circumstances: &Circumstances,
) -> Option<InterpreterReport> {
    match &session.python {
        Some(python) => Some(of_python(python, session, recorder, circumstances.has_no_arenas)),
        None => generated(&circumstances.program, symbols),
    }
}

fn of_python(
    python: &Python,
    session: &Session<'_>,
    recorder: &Recorder,
    has_no_arenas: bool,
) -> InterpreterReport {
    let (version, why) = match python {
        Python::Readable(found) => (&found.version, None),
        Python::Unreadable(Unreadable { version, why, .. }) => {
            (version, Some(format!("its functions are not named: {why}")))
        }
    };
    let mut report = InterpreterReport {
        name: format!("CPython {version}"),
        is_named: why.is_none(),
        notes: why.into_iter().collect(),
        ..InterpreterReport::default()
    };
    let of_its_own = |module: &str| {
        let file = module.rsplit('/').next().unwrap_or_default();
        file.starts_with("python") || file.starts_with("libpython")
    };
    for site in recorder.profile().sites_by(Flow::Live) {
        let caller = recorder.native_stack(site.stack).and_then(|stack| stack.frames.first());
        let before = |at: &RemoteAddr| RemoteAddr::new(at.get().saturating_sub(1));
        if caller.is_some_and(|at| of_its_own(session.places.name(before(at)))) {
            report.arenas = report.arenas.saturating_add(site.pages.mapped);
            report.arenas_live = report.arenas_live.saturating_add(site.pages.live);
        }
    }
    if !has_no_arenas {
        report.notes.push(format!(
            "objects of up to 512 bytes are not seen one by one: they lie in arenas, of which {} \
             were mapped meanwhile, {} of them still; for which code allocates them: \
             PYTHONMALLOC=malloc heapattach run -- python3 ...",
            bytes(report.arenas),
            bytes(report.arenas_live)
        ));
    }
    report
}

/// Whether the process was told to have all its objects from malloc.
fn has_no_arenas(process: &Process) -> bool {
    let environment = process.read("environ").unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|variable| {
        let value = variable.strip_prefix(ALLOCATOR.as_bytes());
        value.is_some_and(|value| WITHOUT_ARENAS.iter().any(|known| known.as_bytes() == value))
    })
}

/// Programs that run generated code, how they are known, and which switch has names of it written.
const GENERATORS: [(&str, &str, &str); 3] = [
    ("node", "Node.js", "node --perf-basic-prof --interpreted-frames-native-stack ..."),
    (
        "java",
        "the Java virtual machine",
        "java -XX:+PreserveFramePointer ..., and then: jcmd PID Compiler.perfmap",
    ),
    ("dotnet", ".NET", "DOTNET_PerfMapEnabled=1 dotnet ..."),
];

/// A program that runs generated code; with a note if nothing tells its names.
fn generated(program: &str, symbols: &Symbols) -> Option<InterpreterReport> {
    let (_, name, switch) = GENERATORS.iter().find(|known| known.0 == program)?;
    let is_named = symbols.has_generated();
    let note = format!("its generated code has no names, unless it is started so: {switch}");
    let notes = if is_named { Vec::new() } else { vec![note] };
    Some(InterpreterReport {
        name: (*name).to_owned(),
        is_named,
        notes,
        ..InterpreterReport::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_whose_generated_code_has_no_names_is_told_its_switch() {
        let symbols = Symbols::new();
        let node = generated("node", &symbols).unwrap();
        assert!(node.notes[0].contains("--perf-basic-prof"), "{node:?}");
        let own = Process::open(std::process::id().cast_signed()).unwrap();
        let own = Circumstances::of(&own);
        assert_eq!((generated(&own.program, &symbols), own.has_no_arenas), (None, false));
    }
}
