//! Whether a process grows, and whether it leaks: what can be said of that by looking at it for a
//! while, without knowing what it still needs.
//!
//! ```text
//! flow of a size (exact, older blocks too) -> trend -+
//! blocks of a stack: births, deaths -> cohort -------+-> rule -> finding -> words
//! ```
//!
//! What is held of blocks seen since the attach grows in every healthy process, until the oldest of
//! them have died. So growth is told by the flow of each size, in which blocks older than the attach
//! go, too. And it is called a leak only if blocks of the stack that have reached some age stop
//! dying, if the growth is as large as what they hold, and if neither the load nor the youth of the
//! process explains it.
//!
//! While a process is watched, [`Alarm`] asks of one value whether it grows by now.
//!
//! No I/O, no clock. What comes out of a file is hostile: numbers may mean nothing.

mod alarm;
mod cohort;
mod finding;
mod flow;
mod ladder;
mod moved;
mod rule;
mod sizes;
mod trend;
mod words;

#[cfg(test)]
mod alarm_simulation;
#[cfg(test)]
mod fresh;
#[cfg(test)]
mod simulation;

use cohort::{Cell, Cohort};
use finding::{Finding, StackFinding};
use ladder::Ladder;
use rule::{Case, Excuse, Judgement, LONG_ENOUGH, judge};
use trend::Trend;

pub use alarm::{Alarm, Pace, net};
pub use rule::Kind;
pub use words::Growth;
