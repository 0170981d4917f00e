//! One file a command.

pub mod attach;
pub mod detach;
pub mod doctor;
pub mod run;
pub mod status;
