//! A fixture that works by steps.

use std::time::Instant;

use super::{Subject, Turn};
use crate::{
    compile::Source,
    fixture::{Fixture, Launch},
    peers::clock::processor_time,
};

/// The step that works.
const WORK: u64 = 1;

/// A fixture, started.
pub(super) struct Stepped(Fixture);

impl Stepped {
    pub(super) fn start(launch: Launch) -> Box<dyn Subject> {
        Box::new(Self(launch.start()))
    }
}

/// The program made of a fixture.
pub(in super::super) fn built(file: &str) -> Result<std::path::PathBuf, String> {
    Source::new(file).build().ok_or_else(|| format!("no compiler for {file}"))
}

impl Subject for Stepped {
    fn pid(&mut self) -> Result<i32, String> {
        Ok(self.0.pid())
    }

    fn work(&mut self, operations: u64) -> Result<Turn, String> {
        let pid = self.0.pid();
        measured(
            operations,
            || processor_time(pid),
            || {
                self.0.step(WORK, operations);
                Ok(())
            },
        )
    }
}

/// Processor and wall-clock time of operations that `work` does.
pub(super) fn measured(
    operations: u64,
    clock: impl Fn() -> Result<std::time::Duration, String>,
    work: impl FnOnce() -> Result<(), String>,
) -> Result<Turn, String> {
    let (before, began) = (clock()?, Instant::now());
    work()?;
    let (wall, cpu) = (began.elapsed(), clock()?.saturating_sub(before));
    #[expect(clippy::cast_precision_loss, reason = "some millions")]
    let number = operations as f64;
    let rate = Some(number / wall.as_secs_f64());
    Ok(Turn { cpu_ns: cpu.as_secs_f64() * 1e9 / number, rate, ..Turn::default() })
}
