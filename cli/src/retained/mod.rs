//! Who holds what is reachable and large: the way from a root to the blocks of a site.
//!
//! ```text
//! check::Way (addresses) -> holder: what lies where a way begins -> report: with names -> pprof
//! ```

mod holder;
mod pprof;
mod report;

pub use holder::{Holder, Holders};
pub use pprof::pprof;
pub use report::{RetainedReport, of};
