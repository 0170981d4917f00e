//! How long a check, or a look at the heap, would stop the target, which way of keeping the moment to choose, and whether there
//! is memory for it.

use std::{fs, time::Duration};

use heapattach_injector::moment::Method;
use heapattach_process::proc::Process;

use crate::{check::options::Snapshot, watch::limits::cgroup_memory};
use heapattach_text::quantity::{bytes, time};

/// What a MiB of the target's memory costs, in microseconds.
const READ_AND_MARKED: u64 = 2500;
const COPIED: u64 = 1300;
/// What a page in use costs when the target is cloned, in nanoseconds: the kernel copies its entry
/// and counts one more user of it. A huge one has one entry.
const PAGE_CLONED: u64 = 250;
const HUGE_PAGE_CLONED: u64 = 10_000;
/// The same for a mapping, and for a page of page tables, however much of it is in use.
const MAPPING_CLONED: u64 = 3000;
const TABLE_CLONED: u64 = 1500;
/// What each way costs at least: to stop the threads and take in the last records; a clone has
/// to be waited for, too.
const STOPPED: Duration = Duration::from_millis(3);
const CLONED: Duration = Duration::from_millis(10);
/// A copy that was made early: two stops, and a millisecond of copying.
const FINISHED: Duration = Duration::from_millis(7);
/// What a page costs then, in nanoseconds: the kernel is asked whether it was written.
const PAGE_ASKED: u64 = 5;
/// To copy more takes longer than to clone it, though nothing has to be paid for afterwards.
const MOST_COPIED: u64 = 16 << 20;
const PAGE: u64 = 4096;
/// Of a process with fewer pages the rest of a fork says too little of them.
const FEWEST_PAGES: u64 = 1024;
const HUGE_PAGE: u64 = 2 << 20;
/// For every page in use a clone has an entry of its own.
const ENTRY: u64 = 8;

/// What keeping a moment of a process takes, and what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Memory of its own that it has written to, and what it shares.
    pub resident: u64,
    /// How much of it is in huge pages.
    pub huge: u64,
    /// What the target may still take: a clone makes it pay for every page that either writes to.
    pub room: u64,
    /// What may be taken by us.
    pub own_room: u64,
    /// Mappings, which are gone through when a clone is made.
    pub mappings: u64,
    /// Bytes of page tables, which are gone through as well.
    pub tables: u64,
    /// What a page in use costs when a process is cloned here, in nanoseconds.
    pub page_cost: u64,
}

/// The way to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which.
    pub method: Method,
    /// How long it is expected to stop the target.
    pub expected: Duration,
    /// Why not a better one.
    pub why: Option<String>,
}

impl Load {
    /// As it is now.
    pub fn of(process: &Process) -> Self {
        let status = process.read("status").unwrap_or_default();
        let names = ["RssAnon:", "RssShmem:", "VmSwap:"];
        let resident =
            names.iter().filter_map(|name| kib(&status, name)).fold(0, u64::saturating_add);
        let rollup = process.read("smaps_rollup").unwrap_or_default();
        let own_room = fs::read("/proc/meminfo").ok().and_then(|text| kib(&text, "MemAvailable:"));
        let own_room = own_room.unwrap_or(u64::MAX);
        let group = cgroup_memory(process).map(|(used, limit)| limit.saturating_sub(used));
        Self {
            resident,
            huge: kib(&rollup, "AnonHugePages:").unwrap_or(0).min(resident),
            room: group.unwrap_or(u64::MAX).min(own_room),
            // The rest is for others.
            own_room: own_room / 2,
            mappings: process.read("maps").map_or(0, |text| lines(&text)),
            tables: kib(&status, "VmPTE:").unwrap_or(0),
            page_cost: PAGE_CLONED,
        }
    }

    /// With what was measured on this machine, if that is more than what is usual: twice that, since
    /// the next fork need not be as fast.
    #[must_use]
    pub fn with_page_cost(self, measured: Option<u64>) -> Self {
        let measured = measured.map_or(0, |cost| cost.saturating_mul(2));
        Self { page_cost: self.page_cost.max(measured), ..self }
    }

    /// How much of our own memory may be taken.
    pub fn own_room(&self) -> u64 {
        self.own_room
    }

    /// What a way costs.
    pub fn estimate(&self, method: Method) -> Duration {
        let by_mib =
            |rate: u64| Duration::from_micros((self.resident >> 10).saturating_mul(rate) >> 10);
        match method {
            Method::Stop => STOPPED + by_mib(READ_AND_MARKED),
            Method::Copy => STOPPED + by_mib(COPIED),
            Method::Fork => {
                let small = (self.resident - self.huge) / PAGE;
                let huge = self.huge / HUGE_PAGE;
                let pages =
                    small.saturating_mul(self.page_cost) + huge.saturating_mul(HUGE_PAGE_CLONED);
                let rest = self.mappings.saturating_mul(MAPPING_CLONED)
                    + (self.tables / PAGE).saturating_mul(TABLE_CLONED);
                CLONED + Duration::from_nanos(pages.saturating_add(rest))
            }
            Method::Early => {
                let pages = (self.resident - self.huge) / PAGE;
                FINISHED + Duration::from_nanos(pages.saturating_mul(PAGE_ASKED))
            }
        }
    }

    /// The most memory a way takes, of the target or of ours.
    fn takes(&self, method: Method) -> u64 {
        match method {
            Method::Stop => 0,
            Method::Copy | Method::Early => self.resident,
            Method::Fork => self.resident.saturating_add(self.resident / PAGE * ENTRY),
        }
    }

    /// Why there is no memory for a way, if there is none.
    fn objection(&self, method: Method) -> Option<String> {
        let takes = self.takes(method);
        let (what, room) = match method {
            Method::Stop => return None,
            Method::Copy | Method::Early => ("a copy takes", self.own_room),
            Method::Fork => ("a clone may take", self.room),
        };
        (takes > room)
            .then(|| format!("{what} {}, and there is room for {}", bytes(takes), bytes(room)))
    }
}

/// What can be done besides copying in the stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Means {
    /// Whether the caller could make a clone.
    pub clone: bool,
    /// Why memory cannot be copied early, if it cannot.
    pub not_early: Option<String>,
}

/// The kind of snapshot, and what it is expected to cost.
///
/// # Errors
/// With value, need and cure, when it would take longer or more memory than it may.
pub fn choose(
    wanted: Snapshot,
    load: &Load,
    limit: Duration,
    means: &Means,
) -> Result<Choice, String> {
    let can_clone = means.clone;
    let (method, why) = match wanted {
        Snapshot::Stop => (Method::Stop, None),
        Snapshot::Copy => (Method::Copy, None),
        Snapshot::Fork => (Method::Fork, None),
        Snapshot::Early => match &means.not_early {
            Some(why) => {
                return Err(format!("memory cannot be copied early: {why}; use --snapshot fork"));
            }
            None => (Method::Early, None),
        },
        Snapshot::Auto if !can_clone => (Method::Copy, None),
        Snapshot::Auto => best(load, limit, means),
    };
    if let Some(objection) = load.objection(method) {
        return Err(format!("{objection}: free some, or use --snapshot stop"));
    }
    let expected = load.estimate(method);
    if expected <= limit {
        return Ok(Choice { method, expected, why });
    }
    let cure = match (method, &why) {
        (Method::Fork, _) | (_, Some(_)) => "",
        _ if !can_clone => "",
        _ => ", or use --snapshot fork",
    };
    let why = why.map_or(String::new(), |why| format!(" ({why})"));
    Err(format!(
        "it would stop the process for about {}, since it has {} in use{why}; it may for {}: \
         raise --max-pause{cure}",
        time(expected),
        bytes(load.resident),
        time(limit),
    ))
}

/// What is small is copied, what is large is cloned, what is too large for that is copied early; without room for
/// either it has to wait.
fn best(load: &Load, limit: Duration, means: &Means) -> (Method, Option<String>) {
    let copies = load.objection(Method::Copy).is_none() && load.estimate(Method::Copy) <= limit;
    if copies && load.resident <= MOST_COPIED {
        return (Method::Copy, None);
    }
    match (load.objection(Method::Fork), early_instead(load, limit, means)) {
        (Some(why), _) if copies => (Method::Copy, Some(why)),
        (_, Some(why)) => (Method::Early, Some(why)),
        (None, None) => (Method::Fork, None),
        (Some(why), None) => (Method::Stop, Some(why)),
    }
}

/// Why memory is copied early and not cloned, where that is to be.
pub fn early_instead(load: &Load, limit: Duration, means: &Means) -> Option<String> {
    let early = Method::Early;
    if means.not_early.is_some() || load.objection(early).is_some() || load.estimate(early) > limit
    {
        return None;
    }
    let cloned = load.estimate(Method::Fork);
    let slow =
        (cloned > limit).then(|| format!("a clone would stop it for about {}", time(cloned)));
    load.objection(Method::Fork).or(slow)
}

fn lines(text: &[u8]) -> u64 {
    text.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// What a page in use costs when a process is cloned here, by what this one was cloned in `took`; `None` if
/// it is too small to tell.
pub fn page_cost(took: Duration) -> Option<u64> {
    let status = fs::read("/proc/self/status").ok()?;
    let pages = kib(&status, "RssAnon:")? / PAGE;
    let nanos = u64::try_from(took.as_nanos()).ok()?;
    (pages >= FEWEST_PAGES).then(|| nanos / pages)
}

/// The bytes of a line that states KiB.
fn kib(text: &[u8], name: &str) -> Option<u64> {
    let text = str::from_utf8(text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(250);

    fn load(resident: u64) -> Load {
        let page_cost = PAGE_CLONED;
        Load { resident, room: u64::MAX, own_room: u64::MAX, page_cost, ..Load::default() }
    }

    fn means(clone: bool) -> Means {
        Means { clone, not_early: Some("it has an io_uring".to_owned()) }
    }

    fn method(load: &Load) -> Result<Method, String> {
        choose(Snapshot::Auto, load, LIMIT, &means(true)).map(|choice| choice.method)
    }

    #[test]
    fn what_takes_too_long_to_be_cloned_is_copied_early() {
        let all = Means { not_early: None, ..means(true) };
        let large = load(8 << 30);
        let choice = choose(Snapshot::Auto, &large, LIMIT, &all).unwrap();
        assert_eq!(choice.method, Method::Early);
        assert!(choice.expected < LIMIT / 10, "{choice:?}");
        assert!(choice.why.unwrap().contains("a clone would stop it for about 534.29 ms"));
        let small = choose(Snapshot::Auto, &load(800 << 20), LIMIT, &all).unwrap();
        assert_eq!(small.method, Method::Fork);
        // Without room for its copy it is not.
        let tight = Load { own_room: 1 << 30, ..large };
        assert!(choose(Snapshot::Auto, &tight, LIMIT, &all).is_err());
        let refusal = choose(Snapshot::Early, &tight, LIMIT, &all).unwrap_err();
        assert!(refusal.contains("a copy takes 8.0 GiB"), "{refusal}");
        let refusal = choose(Snapshot::Early, &large, LIMIT, &means(true)).unwrap_err();
        assert!(refusal.contains("it has an io_uring; use --snapshot fork"), "{refusal}");
    }

    #[test]
    fn what_is_small_is_copied_and_what_is_large_is_cloned() {
        assert_eq!(method(&load(10 << 20)), Ok(Method::Copy));
        assert_eq!(method(&load(800 << 20)), Ok(Method::Fork));
        assert!(method(&load(8 << 30)).is_err());
        // Huge pages have few entries.
        let huge = Load { huge: 8 << 30, ..load(8 << 30) };
        assert_eq!(method(&huge), Ok(Method::Fork));
    }

    #[test]
    fn without_room_for_a_clone_it_is_copied_or_waits_and_that_is_said() {
        let tight = Load { room: 1 << 20, ..load(100 << 20) };
        assert_eq!(method(&tight), Ok(Method::Copy));
        let slow = Duration::from_secs(10);
        for (own_room, expected) in [(u64::MAX, Method::Copy), (1 << 20, Method::Stop)] {
            let tight = Load { room: 1 << 20, own_room, ..load(800 << 20) };
            let choice = choose(Snapshot::Auto, &tight, slow, &means(true)).unwrap();
            assert_eq!(choice.method, expected);
            assert!(choice.why.unwrap().contains("room for 1.0 MiB"));
        }
        let refusal = choose(Snapshot::Fork, &tight, slow, &means(true)).unwrap_err();
        for part in ["a clone may take 100.2 MiB", "room for 1.0 MiB", "--snapshot stop"] {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
    }

    #[test]
    fn what_a_clone_costs_here_is_measured_and_never_taken_for_less_than_usual() {
        let usual = load(800 << 20).estimate(Method::Fork);
        let slow = load(800 << 20).with_page_cost(Some(2000));
        assert!(slow.estimate(Method::Fork) > 10 * usual, "{:?}", slow.estimate(Method::Fork));
        assert!(choose(Snapshot::Fork, &slow, LIMIT, &means(true)).is_err());
        assert_eq!(load(800 << 20).with_page_cost(Some(1)).estimate(Method::Fork), usual);
        // A reserve of address space has tables, and a program with many libraries mappings.
        let wide = Load { mappings: 20_000, tables: 64 << 20, ..load(1 << 20) };
        assert!(wide.estimate(Method::Fork) > Duration::from_millis(80));
    }

    #[test]
    fn a_refusal_names_value_need_and_cure() {
        let refusal = choose(Snapshot::Copy, &load(1 << 30), LIMIT, &means(true)).unwrap_err();
        for part in ["about 1.3 s", "1.0 GiB in use", "250.00 ms", "--max-pause", "fork"] {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
        let refusal = choose(Snapshot::Auto, &load(1 << 30), LIMIT, &means(false)).unwrap_err();
        assert!(refusal.contains("--max-pause") && !refusal.contains("fork"), "{refusal}");
    }

    #[test]
    fn the_load_of_this_process_is_read() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let load = Load::of(&process);
        assert!(load.resident > 0 && load.own_room > 0, "{load:?}");
        assert_eq!(kib(b"VmRSS:\t 3 kB\nRssAnon:\t      12 kB\n", "RssAnon:"), Some(12 << 10));
    }
}
