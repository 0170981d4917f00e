//! Python that reads and writes JSON, XML, CSV and a database, and makes objects.

use super::{Subject, Work, stepped};
use crate::{
    compile::fixture,
    peers::{dress::Dress, kit},
    real,
};

/// A Python whose memory comes by malloc, so that all tools see the same.
#[derive(Debug)]
pub(in super::super) struct Python;

impl Work for Python {
    fn name(&self) -> String {
        "python3: json, objects".to_owned()
    }

    fn operations(&self) -> u64 {
        12
    }

    fn is_python(&self) -> bool {
        true
    }

    fn bears_slow_tools(&self) -> bool {
        true
    }

    fn start(&self, dress: &Dress) -> Result<Box<dyn Subject>, String> {
        // That of memray for all of them, if there is one.
        let own = kit::python_folder().join("bin/python");
        let python = if own.is_file() { own } else { real::python().ok_or("no python3 here")? };
        let launch = dress.launch(&python).env("PYTHONMALLOC", "malloc");
        let launch = dress.python.iter().fold(launch, crate::fixture::Launch::arg);
        Ok(stepped::Stepped::start(launch.arg(fixture("python_stacks.py"))))
    }
}
