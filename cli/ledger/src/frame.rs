//! A call of a stack with its names, as it is told.

use heapattach_text::module_name::is_generated;
use serde::{Deserialize, Serialize};

/// One frame.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FrameReport {
    /// The module.
    pub module: String,
    /// The address in the module's own numbers.
    pub offset: u64,
    /// The function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// It was inlined into the next.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
}

impl FrameReport {
    /// As a person would call it.
    pub fn place(&self) -> String {
        let module = self.module.rsplit('/').next().unwrap_or(&self.module);
        match (&self.function, &self.file, self.line) {
            (Some(function), Some(file), Some(line)) => format!("{function} ({file}:{line})"),
            (Some(function), ..) if is_generated(&self.module) => function.clone(),
            (Some(function), ..) => format!("{function} in {module}"),
            _ => format!("{module}+{:#x}", self.offset),
        }
    }
}
