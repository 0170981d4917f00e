//! Findings to try the forms on.

use super::{Findings, Frame, Leak};
use crate::{Quiet, Sums};
use heapattach_reach::{Amount, Kind};

fn amount(bytes: u64, blocks: u64) -> Amount {
    Amount { bytes, blocks }
}

fn frames(names: [&str; 3]) -> Vec<Frame> {
    let frame = |(number, name): (u32, &str)| Frame {
        function: name.to_owned(),
        file: if number == 1 { "src/cache file.c".to_owned() } else { String::new() },
        line: (number == 1).then_some(42),
        module: "/opt/app <1>".to_owned(),
        offset: 0x1000 * u64::from(number + 1),
    };
    (0..).zip(names).map(frame).collect()
}

/// A direct leak that leads to others, an indirect one elsewhere, a possible and a reachable one.
pub fn findings() -> Findings {
    let none = Amount::default();
    let leak = |kind, own, held, names| Leak::new(kind, own, held, frames(names), 1);
    Findings {
        program: "app".to_owned(),
        pid: 4711,
        sums: Sums {
            direct: amount(1000, 10),
            indirect: amount(524, 6),
            possible: amount(64, 1),
            reachable: amount(4096, 1),
        },
        leaks: vec![
            leak(Kind::Direct, amount(1000, 10), amount(500, 5), ["malloc", "insert", "main"]),
            leak(Kind::Indirect, amount(24, 1), none, ["malloc", "share", "main"]),
            leak(Kind::Possible, amount(64, 1), none, ["malloc", "array", "main"]),
            leak(Kind::Reachable, amount(4096, 1), none, ["malloc", "cache", "main"]),
        ],
        used: vec![Quiet {
            rule: "leak:known".to_owned(),
            source: "x.supp:1".to_owned(),
            amount: amount(30, 3),
            is_users: true,
        }],
        unused: vec![Quiet {
            rule: "leak:nothing".to_owned(),
            source: "x.supp:2".to_owned(),
            amount: none,
            is_users: true,
        }],
        ..Findings::default()
    }
}
