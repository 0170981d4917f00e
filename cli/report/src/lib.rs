//! The result of a session as data, and what is concluded from it for pipelines.
//!
//! ```text
//! a session, a check -> data: Report (JSON) -> findings: baseline, limits -> text, JUnit, SARIF, GitHub
//!                         suppression: rules -> which leaks are told
//! ```
//!
//! ```
//! use heapattach_report::{CheckReport, Report, findings::Findings};
//!
//! let mut report = Report::new(4711, "/usr/bin/app --port 80".to_owned());
//! let mut check = CheckReport::default();
//! check.sums.direct.add(24);
//! check.doubts.push("3 records were never finished".to_owned());
//! report.check = Some(check);
//! let found = Findings::of(&report);
//! assert_eq!((found.program.as_str(), found.sums.direct.bytes), ("app", 24));
//! // What is doubtful is told, and nothing is concluded from it.
//! assert_eq!(found.doubts.len(), 1);
//! ```
//!
//! Knows no process, no file, no clock, no exit status of the command but as [`Status`], and no command
//! line. What it is told has printable names; each form escapes what it must.

mod data;
pub mod findings;
pub mod suppression;

pub use heapattach_census::contents::ContentsRow;
pub use heapattach_census::counters;
pub use heapattach_census::not_written::{NotWritten, NotWrittenRow, NotWrittenSum};
pub use heapattach_census::pins::{PinRow, Pins};
pub use heapattach_census::stats::SizeRow;
pub use heapattach_census::waste::{Waste, WasteKind, WasteRow, WasteSum};
pub use heapattach_reach::{Amount, RootKind};

pub use data::{
    AbsentFileReport, AllocatorReport, AppliedReport, ArenaDetail, ArenaReport, ArenasReport,
    AskedReport, CENSUS_SCHEMA, CHECK_SCHEMA, COUNTERS_SCHEMA, CallerReport, CensusReport,
    CheckMoment, CheckReport, CheckedReport, ChildReport, ColdReport, ColdRow, ColdSum,
    ContentsReport, CoreReport, CountedReport, CountersReport, CutReport, DoubtReport,
    FindingReport, FunctionReport, GoAsked, GoExcess, GoExcessKind, GoHeapReport, GoHolder, GoLeak,
    GoPath, GoProfiled, GoSampled, Heap, HeapReport, Holder, HolderRow, HoldersReport, HookedBy,
    LikelyGroup, LikelyReport, LikelySite, LikelySites, LookMethod, LookReport, MappingReport,
    Measured, MemoryReport, MergedSite, MomentReport, NotHooked, NotLookedAt, OlderGroup,
    OlderReport, Origin, Outcome, OwnCost, PathReport, PathStep, PlaceRow, PlacedSite, PlacedSites,
    Quiet, RatesReport, RecordingReport, Report, RetainedReport, RoundReport, SCHEMA, SiteReport,
    SiteRow, SiteSums, SitesReport, StacksReport, Status, StepReport, StopReport, StoppedFor, Sums,
    SuspectReport, TargetState, TogetherReport, Trigger, TypedReport, UnreachableGroup,
    UnreachableReport, WayReport, micros, together,
};
