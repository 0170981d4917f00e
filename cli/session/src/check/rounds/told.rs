//! What each check of a process found, so that what grows from check to check is seen.

use std::collections::HashMap;

use heapattach_reach::{Amount, Findings, Kind};
use heapattach_report::{CheckReport, RoundReport};

/// Checks that are kept: of more, every other one is forgotten, again and again, but none that the program itself
/// wanted, while these are few.
const MOST_ROUNDS: usize = 64;
const MOST_NAMED: usize = MOST_ROUNDS / 2;
/// Stacks whose losses are kept.
const MOST_STACKS: usize = 2000;

/// All checks so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    rounds: Vec<RoundReport>,
    /// By stack: what it leaked, in the order of the rounds.
    lost: HashMap<u32, Vec<Amount>>,
    /// By stack: what it leaked in the last check that had a result.
    last: HashMap<u32, Amount>,
    last_lost: Amount,
    count: u64,
}

impl Tally {
    /// How many checks there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Adds what a check found; answers it with its number and what is new in it.
    pub(crate) fn add(&mut self, findings: &Findings, round: RoundReport) -> RoundReport {
        let now = by_stack(findings);
        let lost = findings.sum(Kind::Direct).and(findings.sum(Kind::Indirect));
        let known = |stack: &u32| self.last.get(stack).copied();
        let more = |(stack, amount): &(&u32, &Amount)| {
            known(stack).is_some_and(|before| amount.bytes > before.bytes)
        };
        let new = now.keys().filter(|stack| known(stack).is_none()).count();
        let grown = now.iter().filter(more).count();
        let signed = |amount: Amount| i64::try_from(amount.bytes).unwrap_or(i64::MAX);
        let round = RoundReport {
            lost,
            possible: findings.sum(Kind::Possible),
            new_stacks: new as u64,
            grown_stacks: grown as u64,
            more_bytes: signed(lost).saturating_sub(signed(self.last_lost)),
            ..round
        };
        let before = self.rounds.len();
        for (stack, amount) in &now {
            if self.lost.len() < MOST_STACKS || self.lost.contains_key(stack) {
                let course = self.lost.entry(*stack).or_default();
                course.resize(before, Amount::default());
                course.push(*amount);
            }
        }
        (self.last, self.last_lost) = (now, lost);
        self.push(round)
    }

    /// Adds one without a result.
    pub(crate) fn push(&mut self, mut round: RoundReport) -> RoundReport {
        self.count += 1;
        round.number = self.count;
        self.rounds.push(round.clone());
        for course in self.lost.values_mut() {
            course.resize(self.rounds.len(), Amount::default());
        }
        if self.rounds.len() > MOST_ROUNDS {
            let stays = stays(&self.rounds);
            thin(&mut self.rounds, &stays);
            self.lost.values_mut().for_each(|course| thin(course, &stays));
        }
        round
    }

    /// Writes down all of them; nothing if there was only one.
    pub(crate) fn tell(self, check: &mut CheckReport) {
        if self.count < 2 {
            return;
        }
        let with_result: Vec<bool> = self.rounds.iter().map(|r| r.error.is_none()).collect();
        let mut lost = self.lost;
        for finding in &mut check.findings {
            if matches!(finding.kind, Kind::Direct | Kind::Indirect)
                && let Some(course) = lost.remove(&finding.stack)
            {
                let told = course.into_iter().zip(&with_result).filter(|(_, is)| **is);
                finding.course = told.map(|(amount, _)| amount).collect();
            }
        }
        check.rounds = self.rounds;
    }
}

/// What each stack leaked, with what that alone led to.
fn by_stack(findings: &Findings) -> HashMap<u32, Amount> {
    let mut all: HashMap<u32, Amount> = HashMap::new();
    let lost = findings.all.iter().filter(|f| matches!(f.kind, Kind::Direct | Kind::Indirect));
    lost.for_each(|finding| all.entry(finding.stack).or_default().merge(finding.total()));
    all
}

/// Which are kept: every other one, the last among them, and those with a name.
fn stays(rounds: &[RoundReport]) -> Vec<bool> {
    let has_name = |round: &&RoundReport| round.name.is_some();
    let spares_named = rounds.iter().filter(has_name).count() <= MOST_NAMED;
    let mut stays_next = false;
    let stays = rounds.iter().rev().map(|round| {
        if spares_named && has_name(&round) {
            return true;
        }
        stays_next = !stays_next;
        stays_next
    });
    let mut stays: Vec<bool> = stays.collect();
    stays.reverse();
    stays
}

fn thin<T>(all: &mut Vec<T>, stays: &[bool]) {
    let mut stays = stays.iter();
    all.retain(|_| stays.next().is_none_or(|stays| *stays));
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_reach::Finding;
    use heapattach_report::FindingReport;

    fn found(lost: &[(u32, u64)]) -> Findings {
        let mut findings = Findings::default();
        for &(stack, bytes) in lost {
            let own = Amount { bytes, blocks: 1 };
            let held = Amount::default();
            findings.sums[0].merge(own);
            findings.all.push(Finding { kind: Kind::Direct, stack, own, held });
        }
        findings
    }

    fn report(stacks: &[u32]) -> CheckReport {
        let finding = |&stack| FindingReport {
            kind: Kind::Direct,
            stack,
            own: Amount::default(),
            held: Amount::default(),
            cause: 0,
            course: Vec::new(),
            frames: Vec::new(),
        };
        let findings = stacks.iter().map(finding).collect();
        CheckReport { findings, ..CheckReport::default() }
    }

    #[test]
    fn what_is_new_and_what_grew_is_told_of_each_check() {
        let mut tally = Tally::default();
        let mut add = |lost: &[(u32, u64)]| {
            let round = tally.add(&found(lost), RoundReport::default());
            (round.number, round.new_stacks, round.grown_stacks, round.more_bytes)
        };
        assert_eq!(add(&[(1, 10)]), (1, 1, 0, 10));
        assert_eq!(add(&[(1, 20), (2, 5)]), (2, 1, 1, 15));
        assert_eq!(add(&[(1, 20)]), (3, 0, 0, -5));
    }

    #[test]
    fn each_stack_has_its_course_and_checks_without_a_result_are_left_out_of_it() {
        let mut tally = Tally::default();
        tally.add(&found(&[(1, 10)]), RoundReport::default());
        tally.push(RoundReport { error: Some("busy".to_owned()), ..RoundReport::default() });
        tally.add(&found(&[(1, 20), (2, 5)]), RoundReport::default());
        let mut check = report(&[1, 2, 3]);
        tally.tell(&mut check);
        let course = |index: usize| {
            let finding: &FindingReport = &check.findings[index];
            finding.course.iter().map(|amount| amount.bytes).collect::<Vec<_>>()
        };
        assert_eq!((course(0), course(1), course(2)), (vec![10, 20], vec![0, 5], vec![]));
        assert_eq!(check.rounds.len(), 3);
    }

    #[test]
    fn of_very_many_checks_some_are_kept_and_the_last_is_among_them() {
        let mut tally = Tally::default();
        for bytes in 1..=1001 {
            tally.add(&found(&[(1, bytes)]), RoundReport::default());
        }
        let mut check = report(&[1]);
        tally.tell(&mut check);
        assert!(check.rounds.len() <= MOST_ROUNDS, "{}", check.rounds.len());
        assert_eq!(check.rounds.last().map(|round| round.number), Some(1001));
        let course = &check.findings[0].course;
        assert_eq!(course.len(), check.rounds.len());
        assert!(course.iter().zip(&check.rounds).all(|(a, r)| a.bytes == r.number));
    }

    #[test]
    fn checks_that_the_program_wanted_are_kept_while_they_are_few() {
        let named = |count: u64, every: u64| {
            let mut tally = Tally::default();
            for number in 1..=count {
                let name = number.is_multiple_of(every).then(|| number.to_string());
                tally.add(&found(&[(1, number)]), RoundReport { name, ..RoundReport::default() });
            }
            let mut check = report(&[1]);
            tally.tell(&mut check);
            assert!(check.rounds.len() <= MOST_ROUNDS, "{}", check.rounds.len());
            let course = &check.findings[0].course;
            assert!(course.iter().zip(&check.rounds).all(|(a, r)| a.bytes == r.number));
            check.rounds.iter().filter(|round| round.name.is_some()).count()
        };
        assert_eq!(named(1000, 100), 10);
        assert_eq!(named(64, 2), 32);
        assert!(named(1000, 1) <= MOST_ROUNDS);
    }
}
