//! Figures in the formats of Prometheus: the older one, and OpenMetrics for those who ask for it.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use heapattach_ledger::{Ledger, Metric};
use heapattach_verdict::{
    current::{self, growth_per_minute},
    subject::{Ask, Subject},
};

use crate::{
    answer::{Answer, kind},
    figures::{Figure, Figures},
    http::Request,
    target::Target,
};

/// Sites that have a line of their own.
const SITES: usize = 20;

/// A figure.
struct Metrics {
    name: &'static str,
    about: &'static str,
    is_counter: bool,
    /// Whether it tells what is in use, which is not known of a slot.
    is_use: bool,
    value: fn(&Ledger) -> Option<f64>,
}

const ALL: [Metrics; 9] = [
    Metrics {
        name: "heapattach_live_bytes",
        about: "Bytes of blocks that were allocated since the attach and are in use, estimated",
        is_counter: false,
        is_use: true,
        value: |ledger| Some(ledger.total.measure(Metric::Live).bytes.value),
    },
    Metrics {
        name: "heapattach_live_blocks",
        about: "The same, blocks",
        is_counter: false,
        is_use: true,
        value: |ledger| Some(ledger.total.measure(Metric::Live).count.value),
    },
    Metrics {
        name: "heapattach_allocated_bytes",
        about: "Bytes allocated since the attach",
        is_counter: true,
        is_use: false,
        value: |ledger| Some(ledger.total.measure(Metric::Allocated).bytes.value),
    },
    Metrics {
        name: "heapattach_allocated_blocks",
        about: "Blocks allocated since the attach",
        is_counter: true,
        is_use: false,
        value: |ledger| Some(ledger.total.measure(Metric::Allocated).count.value),
    },
    Metrics {
        name: "heapattach_mapped_bytes",
        about: "Bytes that were mapped since the attach and are still, those of allocators too",
        is_counter: false,
        is_use: true,
        value: |ledger| Some(whole(ledger.total.mapped_live)),
    },
    Metrics {
        name: "heapattach_growth_bytes_per_second",
        about: "By how much blocks in use and what the program mapped itself grew, over five minutes",
        is_counter: false,
        is_use: true,
        value: |ledger| {
            let growth = growth_per_minute(&ledger.moments, ledger.about.every)?;
            Some(growth.bytes.value / 60.0)
        },
    },
    Metrics {
        name: "heapattach_resident_bytes",
        about: "Resident memory of the process",
        is_counter: false,
        is_use: false,
        value: |ledger| current::resident(&ledger.moments).map(whole),
    },
    Metrics {
        name: "heapattach_unseen_bytes",
        about: "Anonymous resident memory that no block or mapping since the attach explains",
        is_counter: false,
        is_use: false,
        value: |ledger| {
            current::unseen(&ledger.moments, ledger.about.every).map(|unseen| unseen.value)
        },
    },
    Metrics {
        name: "heapattach_lost_records",
        about: "Records of blocks and of frees that found no room",
        is_counter: true,
        is_use: false,
        value: |ledger| Some(whole(current::dropped(ledger))),
    },
];

#[allow(clippy::cast_precision_loss)]
fn whole(number: u64) -> f64 {
    number as f64
}

/// Everything of these processes.
pub fn answer(targets: &[Arc<Target>], figures: Option<&Figures>, request: &Request) -> Answer {
    let is_open =
        request.header("accept").any(|types| types.contains("application/openmetrics-text"));
    let known: Vec<_> = targets
        .iter()
        .map(|target| {
            let labels = format!("pid=\"{}\",service=\"{}\"", target.pid, label(&target.name));
            Known { labels, ledger: target.ledger().ok(), is_slot: target.is_slot() }
        })
        .collect();
    let others = figures.map(Figures::now).unwrap_or_default();
    let body = text(&known, &others, is_open);
    Answer::ok(if is_open { kind::OPEN_METRICS } else { kind::PROMETHEUS }, body)
}

/// What is known of a process.
struct Known {
    labels: String,
    ledger: Option<Arc<Ledger>>,
    is_slot: bool,
}

fn text(known: &[Known], others: &[Figure], is_open: bool) -> String {
    let mut out = String::new();
    head(&mut out, "heapattach_up", "Whether its session is written down", false, is_open);
    for Known { labels, ledger, .. } in known {
        let _ = writeln!(out, "heapattach_up{{{labels}}} {}", u8::from(ledger.is_some()));
    }
    let ledgers = |is_use: bool| {
        let told = known.iter().filter(move |one| !(is_use && one.is_slot));
        told.filter_map(|one| Some((&one.labels, one.ledger.as_deref()?)))
    };
    for metric in &ALL {
        head(&mut out, metric.name, metric.about, metric.is_counter, is_open);
        let end = if metric.is_counter { "_total" } else { "" };
        for (labels, ledger) in ledgers(metric.is_use) {
            if let Some(value) = (metric.value)(ledger) {
                let _ = writeln!(out, "{}{end}{{{labels}}} {value}", metric.name);
            }
        }
    }
    let about = "Bytes in use by site, the twenty that hold most; `other`: all others";
    head(&mut out, "heapattach_site_live_bytes", about, false, is_open);
    for (labels, ledger) in ledgers(true) {
        for (site, bytes) in sites(ledger) {
            let site = label(&site);
            let _ = writeln!(out, "heapattach_site_live_bytes{{{labels},site=\"{site}\"}} {bytes}");
        }
    }
    others.iter().for_each(|figure| tell(&mut out, figure, is_open));
    if is_open {
        out += "# EOF\n";
    }
    out
}

fn tell(out: &mut String, figure: &Figure, is_open: bool) {
    head(out, figure.name, figure.about, figure.is_counter, is_open);
    let end = if figure.is_counter { "_total" } else { "" };
    for (labels, value) in &figure.rows {
        let labels: Vec<_> =
            labels.iter().map(|(name, text)| format!("{name}=\"{}\"", label(text))).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(out, "{}{end}{labels} {value}", figure.name);
    }
}

/// What a metric is. The older format has counters by the name of their samples.
fn head(out: &mut String, name: &str, about: &str, is_counter: bool, is_open: bool) {
    let end = if is_counter && !is_open { "_total" } else { "" };
    let kind = if is_counter { "counter" } else { "gauge" };
    let _ = writeln!(out, "# HELP {name}{end} {about}\n# TYPE {name}{end} {kind}");
}

fn sites(ledger: &Ledger) -> BTreeMap<String, f64> {
    let ask = Ask { limit: SITES, ..Ask::default() };
    let sites = Subject::of(ledger).sites(&ask);
    let mut told = BTreeMap::new();
    for site in sites.iter().take(SITES) {
        let bytes = site.weights[Metric::Live as usize].now.measure().bytes.value;
        *told.entry(site.place.words()).or_insert(0.0) += bytes;
    }
    let named: f64 = told.values().sum();
    let all = ledger.total.measure(Metric::Live).bytes.value;
    told.insert("other".to_owned(), (all - named).max(0.0));
    told
}

/// Text as the value of a label.
fn label(text: &str) -> String {
    let plain = |sign: char| match sign {
        '\\' => "\\\\".to_owned(),
        '"' => "\\\"".to_owned(),
        '\n' => "\\n".to_owned(),
        sign if sign.is_control() => " ".to_owned(),
        sign => sign.to_string(),
    };
    text.chars().take(300).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn known(pid: i32, is_slot: bool) -> Known {
        let labels = format!("pid=\"{pid}\"");
        Known { labels, ledger: Some(Arc::new(sample::ledger())), is_slot }
    }

    #[test]
    fn of_a_slot_nothing_is_told_to_be_in_use() {
        let told = text(&[known(7, false), known(8, true)], &[], false);
        let has = |name: &str| told.contains(&format!("\n{name}{{pid=\"8\""));
        for name in ["live_bytes", "live_blocks", "mapped_bytes", "site_live_bytes"] {
            assert!(!has(&format!("heapattach_{name}")), "{name}: {told}");
        }
        assert!(has("heapattach_up") && has("heapattach_allocated_bytes_total"), "{told}");
    }

    #[test]
    fn both_formats_tell_the_sums_of_the_ledger() {
        let known = [known(7, false)];
        let others = [Figure {
            name: "heapattach_push_made",
            about: "Requests",
            is_counter: true,
            rows: vec![(vec![("to", "a\"b".to_owned())], 3.0), (Vec::new(), 4.0)],
        }];
        let old = text(&known, &others, false);
        assert!(old.contains("heapattach_live_bytes{pid=\"7\"} 104960\n"), "{old}");
        assert!(old.contains("# TYPE heapattach_allocated_bytes_total counter\n"), "{old}");
        assert!(old.contains("site=\"other\"} 0\n") && !old.contains("# EOF"), "{old}");
        assert!(old.contains("\nheapattach_push_made_total 4\n"), "{old}");
        assert!(old.contains("\nheapattach_push_made_total{to=\"a\\\"b\"} 3\n"), "{old}");
        let open = text(&known, &others, true);
        assert!(open.contains("# TYPE heapattach_push_made counter\n"), "{open}");
        assert!(open.contains("# TYPE heapattach_allocated_bytes counter\n"), "{open}");
        assert!(open.contains("\nheapattach_allocated_bytes_total{") && open.ends_with("# EOF\n"));
    }

    #[test]
    fn labels_are_one_line() {
        assert_eq!(label("a\"b\\c\nd\u{1b}"), "a\\\"b\\\\c\\nd ");
    }
}
