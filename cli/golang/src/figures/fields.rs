//! The fields that figures are read from.

use crate::graph::layout::{Field, Missing, fields};

fields! {
    /// `runtime.gcControllerState`, `runtime.mstats` and what belongs to them.
    FigureFields {
        percent: "runtime.gcControllerState.gcPercent",
        limit: "runtime.gcControllerState.memoryLimit",
        percent_goal: "runtime.gcControllerState.gcPercentHeapGoal",
        sweep_trigger: "runtime.gcControllerState.sweepDistMinTrigger",
        triggered: "runtime.gcControllerState.triggered",
        live: "runtime.gcControllerState.heapLive",
        marked: "runtime.gcControllerState.heapMarked",
        in_use: "runtime.gcControllerState.heapInUse",
        released: "runtime.gcControllerState.heapReleased",
        free: "runtime.gcControllerState.heapFree",
        total_alloc: "runtime.gcControllerState.totalAlloc",
        total_free: "runtime.gcControllerState.totalFree",
        ready: "runtime.gcControllerState.mappedReady",
        heap_stats: "runtime.mstats.heapStats",
        stacks_sys: "runtime.mstats.stacks_sys",
        mspan_sys: "runtime.mstats.mspan_sys",
        mcache_sys: "runtime.mstats.mcache_sys",
        buckhash_sys: "runtime.mstats.buckhash_sys",
        gc_misc_sys: "runtime.mstats.gcMiscSys",
        other_sys: "runtime.mstats.other_sys",
        last_gc: "runtime.mstats.last_gc_unix",
        pause_total: "runtime.mstats.pause_total_ns",
        pauses: "runtime.mstats.pause_ns",
        collections: "runtime.mstats.numgc",
        forced: "runtime.mstats.numforcedgc",
        cpu_fraction: "runtime.mstats.gc_cpu_fraction",
        deltas: "runtime.consistentHeapStats.stats",
        in_stacks: "runtime.heapStatsDelta.inStacks",
        in_work_buffers: "runtime.heapStatsDelta.inWorkBufs",
        tiny_count: "runtime.heapStatsDelta.tinyAllocCount",
        large_alloc: "runtime.heapStatsDelta.largeAlloc",
        large_alloc_count: "runtime.heapStatsDelta.largeAllocCount",
        small_alloc_count: "runtime.heapStatsDelta.smallAllocCount",
        large_free: "runtime.heapStatsDelta.largeFree",
        large_free_count: "runtime.heapStatsDelta.largeFreeCount",
        small_free_count: "runtime.heapStatsDelta.smallFreeCount",
        spans_in_use: "runtime.mheap.spanalloc.inuse",
        caches_in_use: "runtime.mheap.cachealloc.inuse",
    } optional {
        gc_time: "runtime.workType.cpuStats.GCTotalTime",
        gc_idle_time: "runtime.workType.cpuStats.GCIdleTime",
        all_time: "runtime.workType.cpuStats.TotalTime",
    }
}

impl FigureFields {
    /// By a table.
    ///
    /// # Errors
    /// When a field is not in it.
    pub fn by(minor: u32, find: &dyn Fn(&str) -> Option<Field>) -> Result<Self, Missing> {
        // It was exported in go1.24.
        let lower = |name: &str| {
            let (structure, field) = name.rsplit_once('.')?;
            let cut = field.find(|letter: char| letter.is_lowercase())?;
            let first = if cut > 1 { cut.min(2) } else { 1 };
            let (head, tail) = field.split_at(first);
            find(&format!("{structure}.{}{tail}", head.to_lowercase()))
        };
        Self::of(minor, &|name| find(name).or_else(|| lower(name)))
    }
}
