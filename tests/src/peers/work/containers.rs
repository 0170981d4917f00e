//! C++ that fills and empties the containers of its library.

use super::{Subject, Work, stepped};
use crate::peers::dress::Dress;

/// Containers and strings of C++.
#[derive(Debug)]
pub(in super::super) struct Containers;

impl Work for Containers {
    fn name(&self) -> String {
        "C++ containers and strings".to_owned()
    }

    fn operations(&self) -> u64 {
        150
    }

    fn start(&self, dress: &Dress) -> Result<Box<dyn Subject>, String> {
        Ok(stepped::Stepped::start(dress.launch(&stepped::built("containers.cpp")?)))
    }
}
