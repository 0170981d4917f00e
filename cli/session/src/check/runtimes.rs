//! The runtimes of a target that do not free at exit what they allocated themselves.

use heapattach_injector::target::Target;
use heapattach_process::{proc::maps, told_loader};

use crate::runtimes::Signs;
use heapattach_report::suppression::runtime::{KINDS, Runtime};

/// All that it has loaded.
pub(super) fn of(target: &Target) -> Vec<Runtime> {
    let Some(program) = program(target) else { return Vec::new() };
    let mut known: Vec<Runtime> = Vec::new();
    for (number, module) in Signs::new(KINDS.iter().map(|kind| kind.sign)).look(target) {
        let kind = KINDS[number];
        if known.iter().any(|other| other.name == kind.name) {
            continue;
        }
        let folder = module.rsplit_once('/').map_or("", |(folder, _)| folder);
        let bundled = kind.bundled.map(|start| format!("{folder}/{start}"));
        let program = program.clone();
        known.push(Runtime { name: kind.name, own: module, bundled, program });
    }
    known
}

/// The file of the program.
fn program(target: &Target) -> Option<String> {
    let text = target.process.read("maps").ok()?;
    let maps = maps::parse(&text).ok()?;
    let headers = told_loader::auxv(&target.process).ok()?.phdr?;
    Some(maps::covering(&maps, headers)?.label().to_string_lossy().into_owned())
}
