//! sqlite3 that makes tables and an index in memory.

use super::{Subject, Turn, Work, stepped::measured};
use crate::{
    peers::{clock::processor_time, dress::Dress},
    real::sqlite::{Shell, program},
};

/// Rows, strings and an index, made and dropped; an operation is a row.
#[derive(Debug)]
pub(in super::super) struct Sqlite;

impl Work for Sqlite {
    fn name(&self) -> String {
        "sqlite3: table and index".to_owned()
    }

    fn operations(&self) -> u64 {
        120_000
    }

    fn bears_slow_tools(&self) -> bool {
        true
    }

    fn start(&self, dress: &Dress) -> Result<Box<dyn Subject>, String> {
        let program = program().map_err(|error| error.to_string())?;
        let shell = Shell::start(dress.command(&program)).map_err(|error| error.to_string())?;
        Ok(Box::new(shell))
    }
}

impl Subject for Shell {
    fn pid(&mut self) -> Result<i32, String> {
        Ok(Self::pid(self))
    }

    fn work(&mut self, operations: u64) -> Result<Turn, String> {
        let pid = Self::pid(self);
        let clock = || processor_time(pid);
        measured(operations, clock, || {
            Self::work(self, operations);
            Ok(())
        })
    }
}
