//! Moments on their way to the user: shown, written as a file of a moment, or for another program.

mod around;
mod compare;
mod interrupted;
mod open;
mod show;

pub use around::{Around, CensusOfSession, Watched, kept, sites_of};
pub use compare::compare;
pub use interrupted::is_interrupted;
pub use open::open;
pub use show::{Show, written};
