//! A number that an allocator counts, in its unit: its name tells which.

use std::time::Duration;

use heapattach_text::quantity::{bytes, count, time};

/// Names of numbers that are no bytes.
const COUNTS: [&str; 26] = [
    "metadata_thp",
    "narenas",
    "nthreads",
    "n_mmaps",
    "max_n_mmaps",
    "spans",
    "thread_heaps",
    "free_chunks",
    "fast_chunks",
    "groups",
    "heaps",
    "areas",
    "slots",
    "blocks",
    "page_count",
    "NumGC",
    "NumForcedGC",
    "Mallocs",
    "Frees",
    "HeapObjects",
    "NumGoroutine",
    "goroutines.runnable",
    "goroutines.running",
    "goroutines.syscall",
    "goroutines.waiting",
    "goroutines.system",
];

/// With its unit.
pub(super) fn told(name: &str, number: u64) -> String {
    if name.starts_with("Pause") || name.starts_with("cpu.") {
        return time(Duration::from_nanos(number));
    }
    if name == "LastGC" {
        // Since 1970: of use in the JSON only.
        return if number == 0 {
            "never".to_owned()
        } else {
            format!("{} s", number / 1_000_000_000)
        };
    }
    if name.ends_with(".ppm") {
        return format!("{:.2} %", number as f64 / 1e4);
    }
    match COUNTS.contains(&name) || name.ends_with("_count") || name.ends_with(".count") {
        true => count(number),
        false => bytes(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_units() {
        let told = [
            told("HeapInuse", 3 << 20),
            told("NumGC", 7),
            told("PauseTotalNs", 1_500_000),
            told("PauseNs.last", 80_000),
            told("GCCPUFraction.ppm", 12_300),
            told("LastGC", 0),
        ];
        assert_eq!(told, ["3.0 MiB", "7", "1.50 ms", "80 us", "1.23 %", "never"]);
    }
}
