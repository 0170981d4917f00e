//! A finished profile with its names: what every view, export and comparison is made of, whether it
//! comes from a session that just ended or out of a recording.
//!
//! ```text
//! about      whose memory, when, how it was looked at, and what is missing
//! modules <- functions <- locations <- stacks <- rows -> sums (live, allocated, freed, ...)
//!                                      threads <-'
//! moments    the same in time
//! ```
//!
//! ```
//! use heapattach_ledger::{EndReason, Function, Ledger, Line, Location, Module};
//!
//! let mut ledger = Ledger { modules: vec![Module::default()], ..Ledger::default() };
//! for (at, name) in (0..).zip(["malloc", "make_node", "main"]) {
//!     ledger.functions.push(Function { name: name.to_owned(), ..Function::default() });
//!     let lines = vec![Line { function: at, line: Some(7) }];
//!     ledger.locations.push(Location { lines, ..Location::default() });
//! }
//! // The innermost call first; the second one is the cause, since malloc is an allocator's.
//! ledger.stacks.push(&[0, 1, 2], EndReason::Outermost, 1);
//! assert!(ledger.is_sound() && ledger.calls(0).count() == 3);
//! assert_eq!(ledger.cause(0).map(|call| &call.function.name[..]), Some("make_node"));
//! ```
//!
//! Tables refer to one another by index. No I/O, no process, no clock. What is in it may come out of
//! a hostile file: names are printable by then, indices are valid ([`Ledger::is_sound`]), numbers
//! mean nothing.

mod about;
pub mod blind_spots;
mod classes;
mod code;
mod course;
mod end_reason;
mod exit;
mod filter;
mod frame;

pub mod hidden;
mod mark;
mod memory;
mod moment;
mod outcome;
mod page_kinds;
mod recorded_outcome;
mod row;
mod runtime;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod stack_trie;
mod stacks;

pub use about::{About, Loss, TypeSum, Unhooked};
pub use classes::{lifetimes, sizes};
pub use code::{Call, Function, Line, Location, Module};
pub use course::{Cell, Course, Fate};
pub use end_reason::EndReason;
pub use exit::{ExitReport, signal_name};
pub use filter::Filter;
pub use frame::FrameReport;
pub use mark::Mark;
pub use memory::{MODULE as MAPPED_MODULE, Mapper, Memory};
pub use moment::{Ends, Moment};
pub use outcome::Outcome;
pub use page_kinds::{ANONYMOUS, PageKinds, Pages, STACK_OF};
pub use recorded_outcome::RecordedOutcome;
pub use row::{Metric, Row, Thread};
pub use runtime::Runtime;
pub use stacks::{Stack, Stacks};

pub use heapattach_profile::{Births, Calls, KernelCalls};
use std::borrow::Cow;

use heapattach_profile::Estimate;
pub use heapattach_profile::Histogram;
use heapattach_text::{module_name::is_script, short_name::short_name};

/// A finished profile.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Which process was recorded, when, and how.
    pub about: About,
    /// Files and other places of code.
    pub modules: Vec<Module>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Addresses of code, each with the calls that were inlined there.
    pub locations: Vec<Location>,
    /// Call stacks.
    pub stacks: Stacks,
    /// Threads; the first stands for those that are not told apart.
    pub threads: Vec<Thread>,
    /// What each stack allocated, by thread. No two have the same stack and thread.
    pub rows: Vec<Row>,
    /// What all of them allocated together; not more exact than the sum of the rows, but it also has
    /// what found no place among them.
    pub total: Row,
    /// The most that was live at once. `peak` of the rows is what it was made of.
    pub peak: Estimate,
    /// In the order of time.
    pub moments: Vec<Moment>,
    /// When the blocks in use were allocated, by stack: of the stacks that have most in use. Nothing
    /// is known of parts of a session.
    pub births: Vec<(u32, Births)>,
    /// The same of pages that are still mapped: when they were.
    pub page_births: Vec<(u32, Births)>,
    /// What stacks asked the kernel for, of those that asked for most. Nothing is known of parts of a session.
    pub kernel: Vec<(u32, KernelCalls)>,
    /// How the sums came about, if that was asked for.
    pub course: Course,
}

impl Ledger {
    /// The calls of a stack, the innermost first, inlined ones on their own.
    pub fn calls(&self, stack: u32) -> impl DoubleEndedIterator<Item = Call<'_>> {
        let locations = self.stacks.get(stack).map_or(&[][..], |stack| stack.locations);
        let known = locations.iter().filter_map(|&at| self.locations.get(at as usize));
        known.flat_map(|location| self.calls_at(location))
    }

    /// The calls at a location, the innermost first.
    pub fn calls_at<'a>(
        &'a self,
        location: &'a Location,
    ) -> impl DoubleEndedIterator<Item = Call<'a>> {
        let module = &self.modules[location.module as usize];
        location.lines.iter().enumerate().map(move |(number, line)| Call {
            location,
            module,
            function: &self.functions[line.function as usize],
            line: line.line,
            is_inlined: number + 1 < location.lines.len(),
        })
    }

    /// The functions of these calls, by their numbers.
    pub fn functions_of(&self, stack: u32) -> impl DoubleEndedIterator<Item = u32> {
        let locations = self.stacks.get(stack).map_or(&[][..], |stack| stack.locations);
        let known = locations.iter().filter_map(|&at| self.locations.get(at as usize));
        known.flat_map(|location| location.lines.iter().map(|line| line.function))
    }

    /// The call that caused the allocations of a stack: the first that is not an allocator's.
    pub fn cause(&self, stack: u32) -> Option<Call<'_>> {
        let cause = self.stacks.get(stack)?.cause as usize;
        self.calls(stack).nth(cause)
    }

    /// Has readers see names as people write them (`short_name`); what names are compared and
    /// exported by stays whole.
    pub fn shorten_names(&mut self) {
        for function in self.functions.iter_mut().filter(|function| function.is_named) {
            let module = self.modules.get(function.module as usize);
            if module.is_none_or(|module| !is_script(&module.path))
                && let Cow::Owned(short) = short_name(&function.name)
            {
                function.short = short;
            }
        }
    }

    /// Whether every index is within its table.
    pub fn is_sound(&self) -> bool {
        let within = |index: u32, len: usize| (index as usize) < len;
        let modules = self.modules.len();
        self.functions.iter().all(|function| within(function.module, modules))
            && self.locations.iter().all(|location| {
                let lines = &location.lines;
                within(location.module, modules)
                    && !lines.is_empty()
                    && lines.iter().all(|line| within(line.function, self.functions.len()))
            })
            && self.stacks.iter().all(|stack| {
                stack.locations.iter().all(|&location| within(location, self.locations.len()))
            })
            && self.rows.iter().all(|row| {
                within(row.stack, self.stacks.count()) && within(row.thread, self.threads.len())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_told_with_its_inlined_calls() {
        let ledger = sample::ledger();
        assert!(ledger.is_sound());
        let names: Vec<_> = ledger.calls(0).map(|call| call.function.name.as_str()).collect();
        assert_eq!(names, ["malloc", "make_node", "grow_list", "main"]);
        assert_eq!(ledger.cause(0).map(|call| call.function.name.as_str()), Some("make_node"));
        let inlined: Vec<_> = ledger.calls(0).map(|call| call.is_inlined).collect();
        assert_eq!(inlined, [false, true, false, false]);
    }

    #[test]
    fn names_are_shown_short_and_stay_whole() {
        let mut ledger = sample::ledger();
        ledger.functions[4].name = "void work<int>(std::string const&)".to_owned();
        ledger.shorten_names();
        let function = &ledger.functions[4];
        assert_eq!(function.shown(), "work<int>");
        assert_eq!(function.name, "void work<int>(std::string const&)");
        assert_eq!(ledger.functions[1].shown(), "make_node");
    }

    #[test]
    fn an_index_that_leads_nowhere_is_noticed() {
        let mut ledger = sample::ledger();
        ledger.rows[0].stack = 99;
        assert!(!ledger.is_sound());
    }
}
