//! Threads that allocate blocks of one size in a row and free them: too few in the caches of threads, or in a slab, or too
//! large for caches. Each time the program runs again with what was advised, as it was typed.

use heapattach_tests::command::Heapattach;
use serde_json::Value;

use crate::{allocating::Allocating, remedies::trim::preloaded};

const JEMALLOC: &str = "libjemalloc.so.2";

/// What was seen of a program.
struct Seen {
    advice: Vec<Value>,
    /// Of each look but the first, a second.
    rates: Vec<Value>,
}

impl Seen {
    /// Of a program with these threads, sizes and rows, and these settings.
    fn of(arguments: &[&str], settings: &str) -> Option<Self> {
        let library = preloaded(JEMALLOC)?;
        let environment = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", settings)];
        let mut program = Allocating::of("turnover.c", arguments, &environment)?;
        let pid = program.pid().to_string();
        let words = ["allocator", "-p", &pid, "--every", "1s", "--count", "4", "--json"];
        let told = Heapattach::new(words).run().expect(0).stdout;
        assert!(program.is_well());
        let mut documents = told.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        // What was before its threads had begun is not meant.
        let _: Option<Value> = documents.next();
        let (mut advice, mut rates) = (Vec::new(), Vec::new());
        for document in documents {
            let own = &document["allocators"][0];
            advice.extend(own["advice"].as_array().expect("advice").iter().cloned());
            rates.push(own["rates"]["per_second"].clone());
        }
        Some(Self { advice, rates })
    }

    fn rule(&self, rule: &str) -> Option<&Value> {
        self.advice.iter().find(|advice| advice["rule"] == rule)
    }

    /// The most of all looks.
    fn most(&self, name: &str) -> f64 {
        self.rates.iter().map(|rates| rates[name].as_f64().unwrap_or(0.0)).fold(0.0, f64::max)
    }

    /// Fills of caches for a request.
    fn fills(&self) -> f64 {
        let sum = |name| self.rates.iter().filter_map(|rates| rates[name].as_f64()).sum::<f64>();
        sum("nfills") / sum("nrequests")
    }
}

/// Before and after what a rule advises.
fn with_advice(rule: &str, arguments: &[&str], settings: &str, wanted: &str) -> Option<[Seen; 2]> {
    let before = Seen::of(arguments, settings)?;
    let told = before.rule(rule);
    let told = told.unwrap_or_else(|| panic!("no {rule}: {:#?}", before.advice));
    assert_eq!(told["setting"], format!("MALLOC_CONF={wanted}"), "{told:#}");
    // The last value of a name counts.
    let after = Seen::of(arguments, &format!("{settings},{wanted}"))?;
    assert!(after.rule(rule).is_none(), "{:#?}", after.advice);
    Some([before, after])
}

#[test]
fn slabs_of_few_blocks_are_told_and_larger_ones_are_filled_from_less_often() {
    let seen =
        with_advice("slab_sizes", &["2", "2048", "400"], "narenas:8", "slab_sizes:2048-2048:8");
    let Some([before, after]) = seen else { return };
    println!("{:.3} fills a request before, {:.3} after", before.fills(), after.fills());
    assert!(after.fills() < before.fills() * 0.75);
}

#[test]
fn caches_with_room_for_few_blocks_are_told_and_larger_ones_are_filled_less_often() {
    let seen = with_advice(
        "cache_classes",
        &["2", "64", "400"],
        "tcache_nslots_small_max:8",
        "tcache_nslots_small_max:200,lg_tcache_nslots_mul:1",
    );
    let Some([before, after]) = seen else { return };
    println!("{:.3} fills a request before, {:.3} after", before.fills(), after.fills());
    assert!(after.fills() < before.fills() * 0.75);
}

#[test]
fn waits_of_caches_that_are_too_small_are_told_and_end_with_larger_ones() {
    let seen = with_advice(
        "cache_small",
        &["3", "1024", "60"],
        "narenas:1",
        "tcache_nslots_small_max:200,lg_tcache_nslots_mul:5",
    );
    let Some([before, after]) = seen else { return };
    waits_end(&before, &after);
}

#[test]
fn waits_for_blocks_that_no_cache_takes_are_told_and_end_with_caches_that_do() {
    let seen = with_advice("cache_small", &["16", "65536", "16"], "narenas:1", "tcache_max:65536");
    let Some([before, after]) = seen else { return };
    waits_end(&before, &after);
}

#[test]
#[ignore = "256 threads that do not rest leave a machine of few processors to nothing else"]
fn many_threads_on_few_arenas_are_told_and_wait_no_more_on_many() {
    // Its 256 threads, and the first.
    let seen = with_advice("arenas_few", &["256", "1024", "60"], "narenas:8", "narenas:257");
    let Some([before, after]) = seen else { return };
    waits_end(&before, &after);
    for rule in ["arenas_many", "metadata"] {
        assert!(after.rule(rule).is_none(), "it would be told to go back: {:#?}", after.advice);
    }
}

fn waits_end(before: &Seen, after: &Seen) {
    let waits = [before, after].map(|seen| {
        let of = |lock: &str| seen.most(&format!("{lock}.total_wait_time")) / 1e9;
        of("bins") + of("extents_dirty")
    });
    println!("waited {:.3} s of each second before, {:.3} s after", waits[0], waits[1]);
    assert!(waits[1] * 5.0 < waits[0], "{waits:?}");
}
