//! What is said of memory that no sample tells of: calls too few to be sampled, pages, a runtime with a heap
//! of its own, and resident memory that came by no hooked function.

use crate::current::dropped;
use crate::figure::{clock, whole};
use heapattach_ledger::{About, Ledger, Metric, Moment, Unhooked};
use heapattach_profile::Estimate;
use heapattach_text::quantity;

/// Less than this, and than this part of the growth, is not worth a word.
const LEAST: f64 = 1_048_576.0;
const PART: f64 = 0.25;
/// And freed memory that stays resident is, if it is this part of the growth.
const RETAINED: f64 = 0.5;
/// What was in use in this part of the time, the last, may be so again.
const LATE: u64 = 3;
/// Of so many records one may be missing; with more of them missing it is not known what was in use.
const TOLERATED: u64 = 100;
/// What a heap takes in pages, by what is allocated: at most, in words of this kind.
const OVERHEAD: f64 = 1.25;

/// Of a session in which no block was recorded.
pub fn idle(ledger: &Ledger, when: &str) -> Vec<String> {
    let About { every, asked, runtimes, .. } = &ledger.about;
    let (mapped, live) = (ledger.total.mapped, ledger.total.mapped_live);
    let mut told = Vec::new();
    match *asked {
        Some([calls, bytes]) if calls > 0 => {
            let (calls, bytes) = (quantity::count(calls), quantity::bytes(bytes));
            let why = match *every {
                0 | 1 => "but no record of a block arrived".to_owned(),
                every => format!(
                    "fewer than can be sampled once in {}: which code made them is not known \
                     (--every, --all)",
                    quantity::bytes(every)
                ),
            };
            told.push(format!("{calls} calls allocated {bytes} {when} (exact), {why}."));
        }
        Some(_) if mapped == 0 => told.push(format!("No hooked function was called {when}.")),
        None if mapped == 0 => told.push(format!("No allocation was recorded {when}.")),
        Some(_) => told.push(format!("No block was allocated {when}.")),
        None => told.push(format!("No block was recorded {when}.")),
    }
    if mapped > 0 {
        let [mapped, live] = [mapped, live].map(quantity::bytes);
        told.push(format!("{mapped} of pages were mapped, {live} of them still."));
    }
    told.extend(runtimes.iter().filter_map(|runtime| Some(sentence(&runtime.unseen()?))));
    told
}

/// Of memory that the process has in pages and nothing accounts for.
pub fn unaccounted(ledger: &Ledger) -> Option<String> {
    let missing = missing(ledger)?;
    let time = clock(std::time::Duration::from_millis(ledger.about.lasted_ms));
    let grown = ledger.about.grown.iter().max_by_key(|(_, bytes)| **bytes);
    let kind = match grown.filter(|(_, bytes)| **bytes as f64 >= PART * missing) {
        Some((kind, bytes)) => format!("{kind} grew by {}", quantity::bytes(*bytes)),
        None => "pages that were mapped before were touched".to_owned(),
    };
    let missing = quantity::bytes(whole(missing));
    let largest = largest(&ledger.about);
    Some(format!("In these {time} {missing} came by no hooked function: {kind}{largest}."))
}

/// Which mapping is the largest that came so, if that is known.
fn largest(about: &About) -> String {
    let Some(Unhooked { kind, start, bytes }) = about.unhooked.first() else {
        return String::new();
    };
    let (all, bytes) = (quantity::bytes(about.unhooked_bytes), quantity::bytes(*bytes));
    let when = at_last_look(about);
    format!("; of {all} of mappings{when} the largest is {bytes} at {start:#x} ({kind})")
}

/// When that was seen, if not at the end.
fn at_last_look(about: &About) -> String {
    let at = about.compared_ms.map(std::time::Duration::from_millis);
    at.map_or(String::new(), |at| format!(" at {} (the last look before its end)", clock(at)))
}

/// Mappings that were recorded, and that the program unmapped by system calls of its own.
pub fn vanished(ledger: &Ledger) -> Option<String> {
    let bytes = Some(ledger.about.vanished).filter(|&bytes| bytes as f64 >= LEAST)?;
    Some(format!(
        "{} of recorded mappings were unmapped by no hooked function{}, and do not count.",
        quantity::bytes(bytes),
        ledger.about.compared_ms.map_or(String::new(), |at| {
            format!(" by {}", clock(std::time::Duration::from_millis(at)))
        })
    ))
}

/// Resident memory that blocks had which were freed, by what blocks have that are in use, or had a moment ago: a
/// program that works in bursts uses again what its allocator keeps, and what is resident at one of its moments
/// alone does not stay. And by how much all of it grew.
pub fn retained(ledger: &Ledger) -> Option<[u64; 2]> {
    let live = ledger.total.measure(Metric::Live).bytes.high;
    let records = ledger.total.sum(Metric::Allocated).records();
    if dropped(ledger) > records / TOLERATED {
        return None;
    }
    let first = || ledger.moments.iter().find_map(|moment| moment.anonymous);
    let then = ledger.about.before.map(|before| before[1]).or_else(first)?;
    let end = ledger.moments.last()?.at_ms;
    let of_late = || ledger.moments.iter().filter(|moment| moment.at_ms >= end - end / LATE);
    let stays = of_late().filter_map(|moment| moment.anonymous).min()?;
    let growth = stays.checked_sub(then)? as f64;
    let live = of_late().fold(live, |most, moment| most.max(moment.live));
    let free = growth - live * OVERHEAD - ledger.total.mapped_live as f64;
    // It was in use at one time, and it is not there for another reason.
    let is_it = free >= LEAST && free >= RETAINED * growth && ledger.peak.low >= free / 2.0;
    (is_it && missing(ledger).is_none()).then(|| [free, growth].map(whole))
}

/// Bytes by which resident memory grew beyond what blocks and pages can have taken.
fn missing(ledger: &Ledger) -> Option<f64> {
    let pages = |moment: &Moment| Some([moment.rss?, moment.anonymous?]);
    let mut known = ledger.moments.iter().filter_map(pages);
    let then = ledger.about.before.or_else(|| known.next())?;
    let now = known.next_back()?;
    let [all, anonymous] = [0, 1].map(|at| now[at] as f64 - then[at] as f64);
    // Shared pages are ours, too, unless mappings of them grew.
    let shared = all - anonymous;
    let mapped = ["shared memory and shared files", "huge pages"];
    let mapped: u64 = mapped.iter().filter_map(|kind| ledger.about.grown.get(*kind)).sum();
    let growth = anonymous.max(0.0) + shared.clamp(0.0, mapped as f64);
    let Estimate { high, .. } = ledger.peak;
    let high = high.max(ledger.total.measure(Metric::Live).bytes.high);
    let missing = growth - high * OVERHEAD - ledger.total.mapped_live as f64;
    (missing >= LEAST && missing >= PART * growth).then_some(missing)
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::{Row, Runtime};

    fn moments(rss: [u64; 2]) -> Vec<Moment> {
        let moment = |(at_ms, bytes): (u64, u64)| Moment {
            at_ms,
            rss: Some(bytes),
            anonymous: Some(bytes / 2),
            ..Moment::default()
        };
        (0..).zip(rss).map(moment).collect()
    }

    #[test]
    fn calls_that_are_too_few_to_be_sampled_are_told() {
        let mut ledger = Ledger::default();
        ledger.about.every = 524_288;
        ledger.about.asked = Some([270, 12_000]);
        let told = idle(&ledger, "in 5.0 s").join(" ");
        assert!(told.starts_with("270 calls allocated 11.7 KiB in 5.0 s (exact), fewer"), "{told}");
        ledger.about.asked = Some([0, 0]);
        assert_eq!(idle(&ledger, "in 5.0 s"), ["No hooked function was called in 5.0 s."]);
        ledger.total = Row { mapped: 45 << 20, mapped_live: 5 << 20, ..Row::default() };
        let told = idle(&ledger, "in 5.0 s").join(" ");
        assert!(told.ends_with("45.0 MiB of pages were mapped, 5.0 MiB of them still."), "{told}");
        let (name, seen) = ("the virtual machine".to_owned(), "its heap is not seen".to_owned());
        ledger.about.runtimes = vec![Runtime { name, seen, ..Runtime::default() }];
        let told = idle(&ledger, "").join(" ");
        assert!(told.ends_with("The virtual machine: its heap is not seen."), "{told}");
    }

    #[test]
    fn freed_memory_that_stays_resident_is_told() {
        let mut ledger = Ledger { moments: moments([4 << 20, 104 << 20]), ..Ledger::default() };
        let [live, peak] = [4.0, 50.0].map(|mebi| mebi * f64::from(1 << 20));
        ledger.peak = Estimate { value: peak, low: peak, high: peak };
        assert_eq!(retained(&ledger), Some([50 << 20, 50 << 20]));
        ledger.total.set(Metric::Live, &heapattach_profile::Sum::exact(4 << 20, 1));
        assert_eq!(retained(&ledger).map(|[free, _]| free), Some(whole(peak - live * OVERHEAD)));
        ledger.total.set(Metric::Live, &heapattach_profile::Sum::exact(30 << 20, 1));
        assert_eq!(retained(&ledger), None, "most of it is in use");
        ledger.total.set(Metric::Live, &heapattach_profile::Sum::exact(4 << 20, 1));
        assert!(retained(&ledger).is_some());
        let in_bursts = [(2500, 5.0), (2600, 45.0), (3000, 4.0)].map(|(at_ms, mebi)| Moment {
            at_ms,
            live: mebi * f64::from(1 << 20),
            ..ledger.moments[1].clone()
        });
        ledger.moments.extend(in_bursts);
        assert_eq!(retained(&ledger), None, "it was in use a moment ago");
        ledger.moments[3].at_ms = 1000;
        ledger.moments[2].at_ms = 900;
        assert!(retained(&ledger).is_some(), "that was long ago");
        let trimmed = Moment { at_ms: 2900, anonymous: Some(2 << 20), ..ledger.moments[1].clone() };
        ledger.moments.insert(4, trimmed);
        assert_eq!(retained(&ledger), None, "it did not stay a moment ago");
        ledger.moments.remove(4);
        ledger.about.loss.frees = 10;
        assert_eq!(retained(&ledger), None, "what was in use is not known");
    }

    #[test]
    fn memory_that_came_by_no_hooked_function_is_told_with_its_kind() {
        let mut ledger = Ledger { moments: moments([20 << 20, 184 << 20]), ..Ledger::default() };
        ledger.about.lasted_ms = 5000;
        let told = unaccounted(&ledger).unwrap();
        assert_eq!(
            told,
            "In these 5.0 s 82.0 MiB came by no hooked function: pages that were mapped before \
             were touched."
        );
        ledger.about.grown = [("anonymous mappings".to_owned(), 90 << 20)].into();
        let told = unaccounted(&ledger).unwrap();
        assert!(told.ends_with("function: anonymous mappings grew by 90.0 MiB."), "{told}");
        let (kind, start) = ("anonymous mappings".to_owned(), 0x7f00_0000_0000);
        ledger.about.unhooked = vec![Unhooked { kind, start, bytes: 64 << 20 }];
        ledger.about.unhooked_bytes = 88 << 20;
        let told = unaccounted(&ledger).unwrap();
        let largest = "; of 88.0 MiB of mappings the largest is 64.0 MiB at 0x7f0000000000 (anonymous \
                       mappings).";
        assert!(told.ends_with(largest), "{told}");
        assert_eq!(vanished(&ledger), None);
        ledger.about.vanished = 2 << 20;
        assert!(vanished(&ledger).unwrap().starts_with("2.0 MiB of recorded mappings"));
        ledger.total.mapped_live = 82 << 20;
        assert_eq!(unaccounted(&ledger), None);
        ledger.total.mapped_live = 0;
        ledger.peak.high = f64::from(80 << 20);
        assert_eq!(unaccounted(&ledger), None);
        ledger.peak.high = 0.0;
        ledger.about.before = Some([184 << 20, 92 << 20]);
        assert_eq!(unaccounted(&ledger), None);
        let shrunk = Ledger { moments: moments([184 << 20, 20 << 20]), ..Ledger::default() };
        assert_eq!(unaccounted(&shrunk), None);
    }
}
