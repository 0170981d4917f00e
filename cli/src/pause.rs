//! How long a check would stop the target, and which way of keeping the moment to choose.

use std::time::Duration;

use heapattach_injector::{proc::Process, snapshot::Method};

use crate::{
    args::SnapshotArg,
    quantity::{bytes, time},
};

/// What a MiB of the target's memory costs, in microseconds.
const READ_AND_MARKED: u64 = 2500;
const COPIED: u64 = 1300;
const CLONED: u64 = 300;
/// What each way costs at least.
const STOPPED: Duration = Duration::from_millis(3);
/// A copy of more is more than we want to hold, if there is a choice.
const MOST_COPIED: u64 = 256 << 20;

/// Memory of its own that a process has written to, and what it shares.
pub fn resident(process: &Process) -> u64 {
    let text = String::from_utf8(process.read("status").unwrap_or_default()).unwrap_or_default();
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let names = ["RssAnon:", "RssShmem:", "VmSwap:"];
    names.into_iter().filter_map(kib).fold(0, u64::saturating_add).saturating_mul(1024)
}

/// What a way costs where so much is in use.
pub fn estimate(method: Method, resident: u64) -> Duration {
    let rate = match method {
        Method::Stop => READ_AND_MARKED,
        Method::Copy => COPIED,
        Method::Fork => CLONED,
    };
    STOPPED + Duration::from_micros((resident >> 10).saturating_mul(rate) >> 10)
}

/// The way to go, and what it is expected to cost.
///
/// # Errors
/// With value, need and cure, when it would take longer than it may.
pub fn choose(
    wanted: SnapshotArg,
    resident: u64,
    limit: Duration,
) -> Result<(Method, Duration), String> {
    let method = match wanted {
        SnapshotArg::Stop => Method::Stop,
        SnapshotArg::Copy => Method::Copy,
        SnapshotArg::Fork => Method::Fork,
        SnapshotArg::Auto => {
            let copies = resident <= MOST_COPIED && estimate(Method::Copy, resident) <= limit;
            if copies { Method::Copy } else { Method::Fork }
        }
    };
    let expected = estimate(method, resident);
    if expected <= limit {
        return Ok((method, expected));
    }
    let cure = match method {
        Method::Fork => String::new(),
        _ => ", or have it cloned with --snapshot fork".to_owned(),
    };
    Err(format!(
        "the check would stop the process for about {}, since it has {} in use; it may for {}: \
         raise --max-pause{cure}",
        time(expected),
        bytes(resident),
        time(limit),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(250);

    #[test]
    fn what_is_small_is_copied_and_what_is_large_is_cloned() {
        let method =
            |resident| choose(SnapshotArg::Auto, resident, LIMIT).map(|(method, _)| method);
        assert_eq!(method(10 << 20), Ok(Method::Copy));
        assert_eq!(method(800 << 20), Ok(Method::Fork));
        assert!(method(8 << 30).is_err());
    }

    #[test]
    fn a_refusal_names_value_need_and_cure() {
        let refusal = choose(SnapshotArg::Copy, 1 << 30, LIMIT).unwrap_err();
        for part in ["about 1.3 s", "1.0 GiB in use", "250.00 ms", "--max-pause", "fork"] {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
    }
}
