//! A file for each thing that a report tells of; the names of fields are those of the JSON.

mod census;
mod check;
mod core_file;
mod counters;
mod go_heap;
mod heap;
mod holder;
mod holders;
mod hooked;
mod likely;
mod look_method;
mod older;
mod own_cost;
mod recording;
mod retained;
mod round;
mod session;
mod sites;
mod stacks;
mod status;
mod target;
mod together;
mod told;
mod trigger;
mod typed;

pub use census::{
    AllocatorReport, ArenaDetail, ArenaReport, ArenasReport, AskedReport, CENSUS_SCHEMA,
    CensusReport, CheckedReport, ColdReport, ColdRow, ColdSum, ContentsReport, DoubtReport,
    MappingReport, MomentReport, UnreachableGroup, UnreachableReport,
};
pub use check::{
    CHECK_SCHEMA, CheckMoment, CheckReport, FindingReport, Heap, LookReport, Quiet, Sums, micros,
};
pub use core_file::{AbsentFileReport, CoreReport};
pub use counters::{
    AppliedReport, COUNTERS_SCHEMA, CountedReport, CountersReport, Origin, RatesReport,
};
pub use go_heap::{
    GoAsked, GoExcess, GoExcessKind, GoHeapReport, GoHolder, GoLeak, GoPath, GoProfiled, GoSampled,
};
pub use heap::{HeapReport, SiteReport};
pub use heapattach_ledger::Outcome;
pub use holder::Holder;
pub use holders::{HolderRow, HoldersReport, PathReport, PathStep, SuspectReport};
pub use hooked::{CallerReport, FunctionReport, HookedBy, NotHooked};
pub use likely::{LikelyGroup, LikelyReport, LikelySite, LikelySites};
pub use look_method::LookMethod;
pub use older::{OlderGroup, OlderReport};
pub use own_cost::OwnCost;
pub use recording::{CutReport, RecordingReport};
pub use retained::{RetainedReport, StepReport, WayReport};
pub use round::RoundReport;
pub use session::{NotLookedAt, Report, SCHEMA};
pub use sites::{MergedSite, PlacedSite, PlacedSites, SiteRow, SiteSums, SitesReport};
pub use stacks::StacksReport;
pub use status::Status;
pub use target::{ChildReport, MemoryReport, StopReport, StoppedFor, TargetState};
pub use together::{TogetherReport, together};
pub use trigger::{Measured, Trigger};
pub use typed::{PlaceRow, TypedReport};
