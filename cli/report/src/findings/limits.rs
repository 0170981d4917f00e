//! How much may be leaked or in use, and what passed the limit.

use std::fmt::{self, Display, Formatter};

use serde::{Serialize, Serializer};

use super::Findings;
use heapattach_reach::Kind;

/// What the user allows. What is not named is not limited, except for leaks: they may not be at all.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes leaked in all, of the kinds that count; `None`: none, unless stacks have a limit.
    pub leak: Option<u64>,
    /// Bytes leaked by one stack.
    pub leak_per_stack: Option<u64>,
    /// Bytes a minute by which the heap may grow.
    pub growth: Option<u64>,
    /// Whether no stack may make it grow as a leak does.
    pub no_growing: bool,
    /// Bytes in use at once.
    pub peak: Option<u64>,
    /// Bytes in use at the end.
    pub live: Option<u64>,
    /// Calls that allocate memory.
    pub allocations: Option<u64>,
    /// The kinds that count.
    pub kinds: Vec<Kind>,
    /// Whether blocks that were leaked or allocated before the attach are a failure.
    pub older: bool,
    /// Whether rules that suppress nothing are a failure.
    pub unused_rules: bool,
}

/// What is compared with limits that are not about leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Bytes a minute by which the heap is certain to grow, where that could be judged.
    pub growth: Option<f64>,
    /// The same of the stacks that make it grow as a leak does.
    pub growing: Option<f64>,
    /// Bytes in use at once at most.
    pub peak: u64,
    /// Bytes in use at the end.
    pub live: u64,
    /// Calls that allocated memory.
    pub allocations: u64,
}

/// What a limit is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes leaked by all of the program.
    Leak,
    /// Bytes leaked by one stack.
    LeakPerStack,
    /// Bytes a minute by which the heap grows.
    Growth,
    /// Code whose memory grows.
    Growing,
    /// Blocks that were leaked or allocated before the attach.
    Older,
    /// Bytes in use at once.
    Peak,
    /// Bytes in use at the end.
    Live,
    /// Calls that allocated memory.
    Allocations,
    /// Suppressions that nothing matched.
    UnusedRules,
}

impl Limit {
    /// Whether it is of what grows.
    pub fn is_growth(self) -> bool {
        matches!(self, Self::Growth | Self::Growing)
    }

    /// The option that sets it.
    pub fn option(self) -> &'static str {
        match self {
            Self::Leak => "--max-leak",
            Self::LeakPerStack => "--max-leak-per-stack",
            Self::Growth => "--max-growth",
            Self::Growing => "--fail-on growing",
            Self::Older => "--fail-on older",
            Self::Peak => "--max-peak",
            Self::Live => "--max-live",
            Self::Allocations => "--max-allocs",
            Self::UnusedRules => "--fail-on-unused-suppressions",
        }
    }
}

impl Display for Limit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.option())
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.option())
    }
}

/// A limit that was passed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Breach {
    /// The option that set it.
    pub limit: Limit,
    /// What it allows.
    pub allowed: f64,
    /// What there was.
    pub found: f64,
    /// The leak that passed it, if it was one.
    pub leak: Option<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            leak: None,
            leak_per_stack: None,
            growth: None,
            no_growing: false,
            peak: None,
            live: None,
            allocations: None,
            kinds: vec![Kind::Direct, Kind::Indirect],
            older: false,
            unused_rules: false,
        }
    }
}

impl Limits {
    /// Every limit that was passed.
    pub fn judge(&self, findings: &Findings) -> Vec<Breach> {
        let measured = &findings.measured;
        let mut breaches = self.leaks(findings);
        let mut hold = |limit, allowed: Option<f64>, found: f64| {
            if let Some(allowed) = allowed.filter(|&allowed| found > allowed) {
                breaches.push(Breach { limit, allowed, found, leak: None });
            }
        };
        hold(Limit::Growth, self.growth.map(real), measured.growth.unwrap_or(0.0));
        let none = self.no_growing.then_some(0.0);
        hold(Limit::Growing, none, measured.growing.unwrap_or(0.0));
        let none = self.older.then_some(0.0);
        hold(Limit::Older, none, real(findings.older.blocks));
        hold(Limit::Peak, self.peak.map(real), real(measured.peak));
        hold(Limit::Live, self.live.map(real), real(measured.live));
        hold(Limit::Allocations, self.allocations.map(real), real(measured.allocations));
        let unused = self.unused_rules.then_some(0.0);
        hold(Limit::UnusedRules, unused, real(findings.unused.len() as u64));
        breaches
    }

    fn leaks(&self, findings: &Findings) -> Vec<Breach> {
        let mut breaches = Vec::new();
        // A leak of a list is one leak, with what only it leads to: those blocks count as indirect.
        let counted = |kind: Kind, bytes: u64| if self.kinds.contains(&kind) { bytes } else { 0 };
        let size = |leak: &super::Leak| {
            let held = if leak.kind == Kind::Direct { Kind::Indirect } else { leak.kind };
            counted(leak.kind, leak.own.bytes).saturating_add(counted(held, leak.held.bytes))
        };
        // Told leaks are what the baseline and the rules have left.
        let total = findings.leaks.iter().map(size).fold(findings.more.bytes, u64::saturating_add);
        // A leaked block of no bytes is a leak too.
        let is_any = findings.leaks.iter().any(|leak| self.kinds.contains(&leak.kind));
        let limit = match (self.leak, self.leak_per_stack) {
            (None, Some(_)) => None,
            (leak, _) => Some(leak.unwrap_or(0)),
        };
        if let Some(limit) = limit.filter(|&limit| total > limit || limit == 0 && is_any) {
            let (allowed, found) = (real(limit), real(total));
            breaches.push(Breach { limit: Limit::Leak, allowed, found, leak: None });
        }
        if let Some(allowed) = self.leak_per_stack {
            let over = findings.leaks.iter().filter(|leak| size(leak) > allowed);
            breaches.extend(over.map(|leak| Breach {
                limit: Limit::LeakPerStack,
                allowed: real(allowed),
                found: real(size(leak)),
                leak: Some(leak.key.clone()),
            }));
        }
        breaches
    }
}

#[allow(clippy::cast_precision_loss, reason = "limits are not that exact")]
fn real(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::{super::sample::findings, *};

    fn passed(limits: &Limits, measured: Measured) -> Vec<&'static str> {
        let found = Findings { measured, ..findings() };
        limits.judge(&found).into_iter().map(|breach| breach.limit.option()).collect()
    }

    #[test]
    fn any_leak_passes_the_usual_limit_and_none_does_not() {
        assert_eq!(passed(&Limits::default(), Measured::default()), ["--max-leak"]);
        let mut none = findings();
        none.leaks.retain(|leak| leak.kind == Kind::Reachable);
        assert!(Limits::default().judge(&none).is_empty());
    }

    #[test]
    fn a_limit_is_what_may_be() {
        // Direct 1000, which leads to 500; indirect elsewhere 24; possible 64.
        let at = |leak| Limits { leak: Some(leak), ..Limits::default() };
        assert!(passed(&at(1524), Measured::default()).is_empty());
        assert_eq!(passed(&at(1523), Measured::default()), ["--max-leak"]);
        let all = Limits { kinds: Kind::ALL[..3].to_vec(), ..at(1524) };
        assert_eq!(passed(&all, Measured::default()), ["--max-leak"]);
        let direct = Limits { kinds: vec![Kind::Direct], ..at(1000) };
        assert!(passed(&direct, Measured::default()).is_empty());
    }

    #[test]
    fn stacks_have_limits_of_their_own() {
        let at = |bytes| Limits { leak_per_stack: Some(bytes), ..Limits::default() };
        assert!(passed(&at(1500), Measured::default()).is_empty());
        assert_eq!(passed(&at(1499), Measured::default()), ["--max-leak-per-stack"]);
    }

    #[test]
    fn the_heap_has_limits_that_are_not_about_leaks() {
        let limits = Limits {
            leak: Some(u64::MAX),
            growth: Some(10),
            peak: Some(100),
            live: Some(100),
            allocations: Some(100),
            ..Limits::default()
        };
        let growing = None;
        let below =
            Measured { growth: Some(10.0), growing, peak: 100, live: 100, allocations: 100 };
        assert!(passed(&limits, below).is_empty());
        let above =
            Measured { growth: Some(10.1), growing, peak: 101, live: 101, allocations: 101 };
        let all = ["--max-growth", "--max-peak", "--max-live", "--max-allocs"];
        assert_eq!(passed(&limits, above), all);
        assert!(passed(&limits, Measured { growth: None, ..below }).is_empty());
    }

    #[test]
    fn a_stack_that_grows_fails_where_none_may() {
        let limits = Limits { leak: Some(u64::MAX), no_growing: true, ..Limits::default() };
        let grows = |growing| Measured { growth: Some(9e9), growing, ..Measured::default() };
        assert_eq!(passed(&limits, grows(Some(1.0))), ["--fail-on growing"]);
        assert!(passed(&limits, grows(Some(0.0))).is_empty());
    }

    #[test]
    fn unused_rules_fail_where_that_is_asked() {
        let limits = Limits { leak: Some(u64::MAX), unused_rules: true, ..Limits::default() };
        assert_eq!(passed(&limits, Measured::default()), ["--fail-on-unused-suppressions"]);
    }
}
