//! All that is measured, and in what it is told.

/// What is measured, and in what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
}

impl Figure {
    const fn new(name: &'static str, unit: &'static str) -> Self {
        Self { name, unit }
    }

    /// Processor time of one operation of the program.
    pub(super) const CPU: Self = Self::new("processor time", "ns");
    /// That, over that of the plain program in the same round.
    pub(super) const TIMES: Self = Self::new("slow-down", "times");
    /// That, over that of the same allocator that does not profile.
    pub(super) const OWN_TIMES: Self = Self::new("slow-down over its own allocator", "times");
    /// Operations answered.
    pub(super) const RATE: Self = Self::new("throughput", "1/s");
    /// That, over that of the plain program in the same round.
    pub(super) const RATE_TIMES: Self = Self::new("throughput kept", "times");
    /// One in a hundred answers took longer than so many times that of the plain program.
    pub(super) const P99_TIMES: Self = Self::new("p99 over plain", "times");
    /// Half of the answers took longer.
    pub(super) const P50: Self = Self::new("p50", "us");
    /// One in a hundred answers took longer.
    pub(super) const P99: Self = Self::new("p99", "us");
    /// Memory of the target in use, over that of the plain one.
    pub(super) const MEMORY: Self = Self::new("memory added", "MiB");
    /// Records that did not get through.
    pub(super) const LOST: Self = Self::new("records lost", "");
    /// How long no thread of the target ran, as heapattach tells.
    pub(super) const STOP_AT_ATTACH: Self = Self::new("stopped at attach", "ms");
    /// The same.
    pub(super) const STOP_AT_DETACH: Self = Self::new("stopped at detach", "ms");
    /// The longest wait of a client for an answer.
    pub(super) const SILENCE_AT_ATTACH: Self = Self::new("no answer at attach", "ms");
    /// The same.
    pub(super) const SILENCE_AT_DETACH: Self = Self::new("no answer at detach", "ms");
    /// From the start of the command until it counts.
    pub(super) const ATTACH: Self = Self::new("whole attach", "ms");
    /// From the wish to detach to the end of the command.
    pub(super) const DETACH: Self = Self::new("whole detach", "ms");
    /// What a detach left in the target.
    pub(super) const LEFT: Self = Self::new("left behind", "differences");
    /// How long a check stopped a program that goes on.
    pub(super) const PAUSE: Self = Self::new("pause", "ms");
    /// How long the program itself takes to fork.
    pub(super) const FORK: Self = Self::new("fork", "ms");
    /// From the moment that is looked at to the result.
    pub(super) const CHECK: Self = Self::new("whole check", "s");
    /// Memory of the tool itself.
    pub(super) const TOOL_MEMORY: Self = Self::new("memory of the tool", "MiB");
    /// Processor time of the tool itself.
    pub(super) const TOOL_CPU: Self = Self::new("processor time of the tool", "ns an event");
    /// The recording.
    pub(super) const DISK: Self = Self::new("recording", "bytes an event");
    /// From the end of the session until there is something to read.
    pub(super) const FIRST_REPORT: Self = Self::new("first report", "ms");
    /// Of what the places that hold most hold, the mean error of each.
    pub(super) const ERROR: Self = Self::new("error", "%");
    /// From start to end.
    pub(super) const WALL: Self = Self::new("whole run", "s");
    /// That, over that of the plain program.
    pub(super) const WALL_TIMES: Self = Self::new("whole run over plain", "times");
    /// From the end of the program's work to its end.
    pub(super) const END: Self = Self::new("time to end", "ms");
    /// The part of the leaked bytes that was found.
    pub(super) const FOUND: Self = Self::new("lost bytes found", "%");
    /// Processor time of the program, over that of the plain one.
    pub(super) const ADDED: Self = Self::new("processor time added", "% of one");
    /// Processor time of the tool.
    pub(super) const TOOL_SHARE: Self = Self::new("processor time of the tool", "% of one");
    /// The recording as a whole.
    pub(super) const FILE: Self = Self::new("recording", "MiB");
    /// Events taken in.
    pub(super) const EVENTS: Self = Self::new("events recorded", "million/s");
}
