//! What is told of the runtimes of a session.

use heapattach_injector::watch::{Python, Session, Unreadable};
use heapattach_ledger::Runtime;
use heapattach_process::{addr::RemoteAddr, python_frame::Language};
use heapattach_profile::Flow;
use heapattach_symbols::Symbols;

use crate::{
    runtimes::{Found, Runtimes},
    watch::intake::Recorder,
};

/// The kinds whose functions are named by walking their frames.
const PYTHON: &str = "CPython";
const PHP: &str = "PHP";
const RUBY: &str = "Ruby";
const PERL: &str = "Perl";
const LUA: &str = "Lua";
const LUAJIT: &str = "LuaJIT";
/// Its functions are named by what it writes itself, too.
const JAVA: &str = "the Java virtual machine";
const NODE: &str = "Node.js";

/// All of them, at the end of a session.
pub fn runtime_reports(
    runtimes: &Runtimes,
    session: &Session<'_>,
    recorder: &Recorder,
    symbols: &Symbols,
    pid: i32,
) -> Vec<Runtime> {
    let pages = Pages::of(session, recorder);
    let reports = runtimes.found().iter().map(|found| {
        let mut report = base(runtimes, found, pid);
        [report.mapped, report.mapped_live] = pages.by(&found.module);
        match &session.python {
            _ if ![PYTHON, PHP, RUBY, PERL, LUA, LUAJIT, NODE, JAVA].contains(&found.kind.name) => {
                name_generated(found, symbols, pid, &mut report);
            }
            Some(python) if is_of(python, found) => {
                name_script(python, &mut report);
                if !report.is_named {
                    name_generated(found, symbols, pid, &mut report);
                }
            }
            _ if [NODE, JAVA].contains(&found.kind.name) => {
                name_generated(found, symbols, pid, &mut report);
            }
            Some(python) => {
                let read = kind_of(python);
                let why = format!("its functions are not named: those of {read} are");
                report.notes.push(why);
            }
            None => {
                let why = "its functions are not named: it was loaded after the attach, or they are not \
                           wanted (--scripts off)";
                report.notes.push(why.to_owned());
            }
        }
        report
    });
    reports.collect()
}

/// What is known of it before anything was recorded.
fn base(runtimes: &Runtimes, found: &Found, pid: i32) -> Runtime {
    let kind = found.kind;
    let setting = runtimes.setting(kind);
    let seen = match setting {
        Some(setting) => format!("each block is one of malloc's, and seen ({setting})"),
        None => kind.seen.to_owned(),
    };
    Runtime {
        name: kind.name.to_owned(),
        module: found.module.clone(),
        seen,
        is_whole: kind.is_whole || setting.is_some(),
        more: if setting.is_some() { String::new() } else { of_process(kind.more, pid) },
        ..Runtime::default()
    }
}

fn of_process(command: &str, pid: i32) -> String {
    command.replace("PID", &pid.to_string())
}

/// Whether an interpreter is the one that was found.
fn is_of(python: &Python, found: &Found) -> bool {
    let version = match python {
        Python::Readable(python) => &python.version,
        Python::Unreadable(python) => &python.version,
    };
    // LuaJIT is one of Lua's, and its version begins with its name.
    let is_luajit = kind_of(python) == LUA && version.starts_with(LUAJIT);
    found.kind.name == if is_luajit { LUAJIT } else { kind_of(python) }
}

/// The kind that an interpreter is of.
fn kind_of(python: &Python) -> &'static str {
    let language = match python {
        Python::Readable(found) => found.language(),
        Python::Unreadable(found) => found.language,
    };
    match language {
        Language::Python => PYTHON,
        Language::Php => PHP,
        Language::Ruby => RUBY,
        Language::Perl => PERL,
        Language::Lua => LUA,
        Language::Java => JAVA,
        Language::JavaScript => NODE,
    }
}

fn name_script(python: &Python, report: &mut Runtime) {
    let version = match python {
        Python::Readable(found) => {
            report.is_named = true;
            &found.version
        }
        Python::Unreadable(Unreadable { version, why, .. }) => {
            report.notes.push(format!("its functions are not named: {why}"));
            version
        }
    };
    report.name = match kind_of(python) {
        // It names itself.
        LUA if version.starts_with(LUAJIT) => version.clone(),
        kind => format!("{kind} {version}"),
    };
}

/// Of a program that runs generated code: whether anything tells its names.
fn name_generated(found: &Found, symbols: &Symbols, pid: i32, report: &mut Runtime) {
    let Some(switch) = found.kind.names else { return };
    report.is_named = symbols.has_generated();
    if !report.is_named {
        let switch = of_process(switch, pid);
        let note = format!("its generated code has no names, unless it is started so: {switch}");
        report.notes.push(note);
    }
}

/// Pages that were mapped in the session, and those that still are, by the module that called mmap.
struct Pages(Vec<(String, [u64; 2])>);

impl Pages {
    fn of(session: &Session<'_>, recorder: &Recorder) -> Self {
        let mut pages = Self(Vec::new());
        let sites = recorder.profile().sites_by(Flow::Live);
        for site in sites.iter().filter(|site| site.pages.mapped > 0) {
            let caller = recorder.native_stack(site.stack).and_then(|stack| stack.frames.first());
            let Some(caller) = caller else { continue };
            let call = RemoteAddr::new(caller.get().saturating_sub(1));
            pages.add(session.places.name(call), [site.pages.mapped, site.pages.live]);
        }
        pages
    }

    fn add(&mut self, module: &str, more: [u64; 2]) {
        let known = self.0.iter_mut().find(|(known, _)| known == module);
        match known {
            Some((_, sums)) => {
                sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
            }
            None => self.0.push((module.to_owned(), more)),
        }
    }

    fn by(&self, module: &str) -> [u64; 2] {
        self.0.iter().find(|(known, _)| known == module).map_or([0; 2], |(_, sums)| *sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::KINDS;

    fn found(name: &str) -> Found {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        Found { kind, module: "/usr/bin/it".to_owned() }
    }

    #[test]
    fn a_program_whose_generated_code_has_no_names_is_told_its_switch() {
        let (node, symbols) = (found("Node.js"), Symbols::new());
        let mut report = base(&Runtimes::without(b""), &node, 4711);
        name_generated(&node, &symbols, 4711, &mut report);
        assert!(report.notes[0].contains("node --perf-basic-prof"), "{report:?}");
        let java = found("the Java virtual machine");
        let report = base(&Runtimes::without(b""), &java, 4711);
        assert_eq!(report.more, "jcmd 4711 GC.class_histogram");
    }

    #[test]
    fn one_that_was_told_to_use_malloc_is_seen_whole() {
        let report = base(&Runtimes::without(b"USE_ZEND_ALLOC=0\0"), &found("PHP"), 1);
        assert!(report.is_whole && report.blind().is_none() && report.more.is_empty());
        assert!(report.title().ends_with("(USE_ZEND_ALLOC=0)"), "{}", report.title());
        let report = base(&Runtimes::without(b"PYTHONMALLOC=pymalloc\0"), &found("CPython"), 1);
        assert!(report.blind().unwrap().contains("arenas"), "{report:?}");
    }

    #[test]
    fn pages_belong_to_the_module_that_mapped_them() {
        let mut pages = Pages(Vec::new());
        pages.add("/usr/bin/php", [4096, 0]);
        pages.add("/usr/lib/libc.so.6", [1, 1]);
        pages.add("/usr/bin/php", [8192, u64::MAX]);
        assert_eq!(pages.by("/usr/bin/php"), [12288, u64::MAX]);
        assert_eq!(pages.by("/usr/bin/node"), [0, 0]);
    }
}
