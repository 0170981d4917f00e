//! LeakSanitizer's language: its options, and what a program says by functions that it defines for it.

mod options;
mod program_settings;

pub use options::LsanOptions;
pub(crate) use program_settings::ProgramSettings;
