//! The size of the heap at which the next collection ends, as the pacer of the runtime reckons it.

use super::words::Words;

/// What is left between the goal and the limit of memory at least, and by how much of the goal since go1.21.
const LEAST_ROOM: u64 = 1 << 20;
const ROOM_PERCENT: u64 = 3;
/// So far behind its trigger a collection ends at least.
const LEAST_RUN: u64 = 64 << 10;

/// `NextGC` of `runtime.MemStats`.
pub fn goal(words: &Words, minor: u32) -> u64 {
    let limited = by_limit(words, minor);
    if limited < words.percent_goal {
        return limited;
    }
    let goal = words.percent_goal.max(words.sweep_trigger);
    match words.triggered {
        u64::MAX => goal,
        triggered => goal.max(triggered.saturating_add(LEAST_RUN)),
    }
}

fn by_limit(words: &Words, minor: u32) -> u64 {
    let limit = u64::try_from(words.limit).unwrap_or(0);
    let objects = words.total_alloc.saturating_sub(words.total_free);
    let other = words.ready.saturating_sub(words.free).saturating_sub(objects);
    let over = words.ready.saturating_sub(limit);
    let Some(room) = limit.checked_sub(other.saturating_add(over)).filter(|room| *room > 0) else {
        return words.marked;
    };
    let spare = match minor {
        ..=20 => LEAST_ROOM,
        _ => (room / 100 * ROOM_PERCENT).max(LEAST_ROOM),
    };
    let goal = match room.checked_sub(spare) {
        Some(rest) if rest >= spare => rest,
        Some(_) | None => spare,
    };
    goal.max(words.marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn words(limit: i64) -> Words {
        Words {
            limit,
            percent_goal: 200 * MIB,
            triggered: u64::MAX,
            total_alloc: 150 * MIB,
            total_free: 50 * MIB,
            ready: 130 * MIB,
            free: 10 * MIB,
            marked: 80 * MIB,
            ..Words::default()
        }
    }

    #[test]
    fn without_a_limit_it_is_what_gogc_says_and_a_little_behind_the_trigger() {
        assert_eq!(goal(&words(i64::MAX), 27), 200 * MIB);
        let late = Words { triggered: 200 * MIB, ..words(i64::MAX) };
        assert_eq!(goal(&late, 27), 200 * MIB + LEAST_RUN);
    }

    #[test]
    fn a_limit_lowers_it_by_what_is_no_heap_and_by_some_room() {
        // 20 MiB are neither objects nor free.
        let near = words(140 << 20);
        assert_eq!(goal(&near, 19), 119 * MIB);
        assert_eq!(goal(&near, 27), 120 * MIB - 120 * MIB / 100 * 3);
        assert_eq!(goal(&words(10 << 20), 27), 80 * MIB, "beyond the limit");
    }
}
