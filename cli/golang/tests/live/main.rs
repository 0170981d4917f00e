//! Go programs that run, of every release whose compiler is here, beside what they tell of themselves.

mod compiler;
mod matrix;
mod moments;
mod sites;
mod stopped;
mod teller;
mod unknown;
mod votes;

/// The seed of this run: `HEAPATTACH_SEED`, or one that rotates with the time; printed, so that a run can be repeated.
fn seed() -> u64 {
    let own = std::env::var("HEAPATTACH_SEED").ok();
    let now = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |now| now.as_secs() / 60)
    };
    let seed = own.and_then(|text| text.parse().ok()).unwrap_or_else(now);
    println!("HEAPATTACH_SEED={seed}");
    seed
}
