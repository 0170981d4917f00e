//! A Go program's runtime, as one that counts.

use heapattach_census::{
    Moment,
    counters::{AllocatorKind, Statistics},
};
use heapattach_golang::{self as golang, dwarf, figures::Figures, find::FindError};
use heapattach_process::proc::Process;

use crate::runtimes::go_program;

/// The runtime, or why it is not known.
#[derive(Debug)]
pub struct Go {
    version: String,
    module: String,
    is_alone: bool,
    figures: Result<Figures, FindError>,
}

impl Go {
    /// Looks for it. Debug data is read only where code does not tell where variables are.
    pub fn find(moment: &Moment<'_>, process: &Process) -> Option<Self> {
        if !go_program::may_be(process, moment.regions()) {
            return None;
        }
        let go = match golang::Go::find(moment)? {
            Ok(go) => go,
            Err(error) => {
                let (version, module) = (String::new(), String::new());
                return Some(Self { version, module, is_alone: false, figures: Err(error) });
            }
        };
        let (version, module) = (go.release.text.clone(), go.image.path.clone());
        let is_program = moment.images().first() == Some(&go.image);
        let is_alone = is_program && moment.images().iter().all(|image| *image == go.image);
        let figures = go.figures(moment, &|_| None).or_else(|error| {
            let file = is_program.then(|| process.open_program().ok()).flatten();
            let variables = file.and_then(dwarf::Variables::read);
            let again = golang::Go::find(moment).and_then(Result::ok);
            let (Some(variables), Some(go)) = (variables, again) else { return Err(error) };
            let bias = go.bias;
            go.figures(moment, &|name| Some(variables.named(name)?.wrapping_add(bias)))
        });
        Some(Self { version, module, is_alone, figures })
    }

    /// Whether nothing else is in the process, not even a C library.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// What is counted now.
    pub fn read(&self, moment: &Moment<'_>) -> Option<Statistics> {
        let error = match &self.figures {
            Ok(figures) => return figures.read(moment),
            Err(error) => error.to_string(),
        };
        let (version, module) = (self.version.clone(), self.module.clone());
        let own =
            Statistics { allocator: AllocatorKind::Go, version, module, ..Statistics::default() };
        Some(Statistics { unknown: vec![error], ..own })
    }
}
