//! The measurements as a reader wants them.

use std::fmt::{self, Display, Formatter};

use super::{Results, Spread};

/// The median, and in brackets between what half of the measurements lay.
struct Told(Spread);

impl Display for Told {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Spread { low, median, high, number, .. } = self.0;
        if number == 0 {
            return f.write_str("-");
        }
        write!(f, "{median:.2} ({low:.2} to {high:.2})")
    }
}

fn ms(us: Spread) -> Told {
    let Spread { low, median, high, max, number } = us;
    let [low, median, high, max] = [low, median, high, max].map(|us| us / 1e3);
    Told(Spread { low, median, high, max, number })
}

impl Display for Results {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "Medians, and in brackets the middle half of the measurements.\n")?;
        self.write_stops(f)?;
        self.write_pairs(f)?;
        self.write_recording(f)?;
        self.write_depth(f)
    }
}

impl Results {
    fn write_stops(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "| threads | hooks | stopped at attach, ms | at detach, ms | window, us |")?;
        writeln!(f, "|---:|---|---:|---:|---:|")?;
        for stop in &self.stops {
            let (attach, detach) = (ms(stop.attach_us), ms(stop.detach_us));
            let (threads, hooks, window) = (stop.threads, stop.hooks, Told(stop.window_us));
            writeln!(f, "| {threads} | {hooks} | {attach} | {detach} | {window} |")?;
        }
        writeln!(f)
    }

    fn write_pairs(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "| malloc and free | pairs | ns | over the wrapper, ns |")?;
        writeln!(f, "|---|---|---:|---:|")?;
        for cost in &self.pairs {
            let (ns, over) = (Told(cost.ns), Told(cost.over_wrapper_ns));
            writeln!(f, "| {} | {} | {ns} | {over} |", cost.way, cost.workload)?;
        }
        writeln!(f, "\n| malloc and free | instructions of a pair | over the wrapper |")?;
        writeln!(f, "|---|---:|---:|")?;
        for cost in &self.instructions {
            let (way, all, over) = (cost.way, cost.per_pair, cost.over_wrapper);
            writeln!(f, "| {way} | {all:.1} | {over:+.1} |")?;
        }
        writeln!(f)
    }

    fn write_recording(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| session | malloc and free, ns more | million events/s | lost | target's memory, KiB \
             | its address space, KiB | our memory, KiB |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|")?;
        for cost in &self.recording {
            let (pair, events) = (Told(cost.pair_ns), Told(cost.million_events));
            let (used, mapped) = (Told(cost.target_kib), Told(cost.target_mapped_kib));
            let (session, lost, ours) = (cost.session, cost.lost, Told(cost.command_kib));
            writeln!(f, "| {session} | {pair} | {events} | {lost} | {used} | {mapped} | {ours} |")?;
        }
        writeln!(f)
    }

    fn write_depth(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| frames, of which change | malloc and free, ns | --all adds, ns | heaptrack adds, ns \
             | that is, times |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|")?;
        for cost in &self.depth {
            let (plain, added) = (Told(cost.plain_ns), Told(cost.added_ns));
            let (peer, ratio) = (Told(cost.peer_added_ns), Told(cost.peer_ratio));
            let (frames, changing) = (cost.frames, cost.changing);
            writeln!(f, "| {frames}, {changing} | {plain} | {added} | {peer} | {ratio} |")?;
        }
        writeln!(f, "\n| work | processor time, ms | --all, times that | heaptrack, times that |")?;
        writeln!(f, "|---|---:|---:|---:|")?;
        for cost in &self.work {
            let (plain, times, peer) =
                (Told(cost.plain_ms), Told(cost.times), Told(cost.peer_times));
            writeln!(f, "| {} | {plain} | {times} | {peer} |", cost.program)?;
        }
        writeln!(
            f,
            "\n| two busy threads, frames | rings full | events, millions a second | recorded \
             | lost of 1000 |"
        )?;
        writeln!(f, "|---|---|---:|---:|---:|")?;
        for rate in &self.two_threads {
            let (plain, recorded) = (Told(rate.plain), Told(rate.recorded));
            let (lost, frames) = (Told(rate.lost_of_thousand), rate.frames);
            writeln!(f, "| {frames} | {} | {plain} | {recorded} | {lost} |", rate.on_full)?;
        }
        writeln!(f)
    }
}
