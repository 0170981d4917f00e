//! The same work plain and under each tool, in turns.
//!
//! Two processes of one program differ, if only in where their memory lies, and one process differs
//! from itself a minute later. So all tools take turns in an order that is drawn anew for each round,
//! all processes are started anew after some rounds, and the plain program runs twice: as another
//! process, against which tools are measured that must be there from the start, and twice in the same
//! process, as are tools that come and go.

use crate::peers::{
    attempt::attempt,
    book::{Book, Place},
    dress::Dress,
    figure::Figure,
    kit::Kit,
    options::Options,
    peer::Peer,
    session::{Session, lost},
    tool::{PLAIN, SAME_AGAIN, TOOLS, Tool, Way},
    work::{Subject, Turn, Work},
};
use crate::seed::Random;

/// Processes are started anew after so many rounds.
const ROUNDS_OF_PROCESS: u32 = 3;
/// Rounds of tools that make a program many times slower.
const SLOW_ROUNDS: u32 = 2;
/// One in so many operations goes before each measurement, to warm up.
const WARM_UP: u64 = 10;

const PART: &str = "race";

/// A program under a tool.
struct Runner {
    tool: Tool,
    // Gone before what it writes to.
    subject: Box<dyn Subject>,
    _peer: Option<Peer>,
    _dress: Dress,
}

pub(super) fn measure(options: &Options, kit: &Kit, works: &[Box<dyn Work>], book: &mut Book) {
    let mut random = Random::new(options.seed);
    for work in works.iter().filter(|work| options.wants_work(&work.name())) {
        eprintln!("race: {}", work.name());
        let (wanted, mut done) = (work.rounds(options.rounds), 0);
        while done < wanted {
            let rounds = ROUNDS_OF_PROCESS.min(wanted - done);
            generation(options, kit, work.as_ref(), done..done + rounds, &mut random, book);
            done += rounds;
        }
    }
}

fn is_wanted(tool: &Tool, work: &dyn Work, options: &Options, first_round: u32) -> bool {
    // One that attaches and stays has nothing to stay with where each time is another process.
    let stays = matches!(tool.way, Way::HeaptrackAttach | Way::MemrayAttach);
    let is_apt = (!tool.is_for_python() || work.is_python()) && !(stays && work.ends_each_time());
    let is_apt = is_apt && !(tool.way == Way::JumpOnly && work.has_own_allocator());
    // Bringing in a debugger takes seconds.
    let is_dear = tool.is_slow() || tool.way == Way::HeaptrackAttach;
    let is_borne = !tool.is_slow() || tool.is_for_python() || work.bears_slow_tools();
    is_apt && is_borne && (!is_dear || first_round == 0 && !options.quick)
}

fn generation(
    options: &Options,
    kit: &Kit,
    work: &dyn Work,
    rounds: std::ops::Range<u32>,
    random: &mut Random,
    book: &mut Book,
) {
    let name = work.name();
    let mut runners = Vec::new();
    for tool in TOOLS.iter().filter(|tool| is_wanted(tool, work, options, rounds.start)) {
        match attempt(|| Runner::start(*tool, kit, work)) {
            Ok(runner) => runners.push(runner),
            Err(why) => book.fail(Place { part: PART, work: &name, tool: tool.name }, &why),
        }
    }
    let last = rounds.end - 1;
    for round in rounds {
        let is_too_slow = |runner: &Runner| runner.tool.is_slow() && round >= SLOW_ROUNDS;
        runners.retain(|runner| !is_too_slow(runner));
        shuffle(&mut runners, random);
        let mut turns: Vec<(Tool, Turn)> = Vec::new();
        runners.retain_mut(|runner| {
            let place = Place { part: PART, work: &name, tool: runner.tool.name };
            match attempt(|| runner.round(work, place, round, book)) {
                Ok(turn) => turns.push((runner.tool, turn)),
                Err(why) => {
                    book.fail(place, &why);
                    return false;
                }
            }
            true
        });
        compare(&turns, &name, round, book);
        if round == last {
            weigh(&mut runners, &name, round, book);
        }
    }
}

fn shuffle(runners: &mut [Runner], random: &mut Random) {
    for index in (1..runners.len()).rev() {
        let other = random.between(0, index as u64 + 1);
        runners.swap(index, usize::try_from(other).unwrap_or(index));
    }
}

impl Runner {
    fn start(tool: Tool, kit: &Kit, work: &dyn Work) -> Result<Self, String> {
        let dress = tool.dress(kit)?;
        let mut subject = work.start(&dress)?;
        let operations = (work.operations() / tool.share).max(1);
        // The first times are of another kind: the heap grows, and files are read.
        subject.work(operations)?;
        let peer = tool.attach(kit, subject.pid()?)?;
        Ok(Self { tool, subject, _peer: peer, _dress: dress })
    }

    /// One measurement; two, where a session comes and goes.
    fn round(
        &mut self,
        work: &dyn Work,
        place: Place<'_>,
        round: u32,
        book: &mut Book,
    ) -> Result<Turn, String> {
        let operations = (work.operations() / self.tool.share).max(1);
        match self.tool.way {
            Way::Session(session) => {
                let (without, with);
                // The second one finds the caches warmer.
                if round.is_multiple_of(2) {
                    without = self.warm(work, operations)?;
                    with = self.in_session(work, session, operations, place, round, book)?;
                } else {
                    with = self.in_session(work, session, operations, place, round, book)?;
                    without = self.warm(work, operations)?;
                }
                note_ratios(with, without, place, round, book);
                Ok(with)
            }
            _ if self.tool.name == PLAIN => {
                let first = self.warm(work, operations)?;
                let second = self.warm(work, operations)?;
                let (with, without) =
                    if round.is_multiple_of(2) { (second, first) } else { (first, second) };
                note_ratios(with, without, Place { tool: SAME_AGAIN, ..place }, round, book);
                Ok(second)
            }
            _ => self.warm(work, operations),
        }
        .inspect(|turn| note(*turn, place, round, book))
    }

    /// Works a little before it is measured: that is the work of those who have just come.
    fn warm(&mut self, work: &dyn Work, operations: u64) -> Result<Turn, String> {
        if !work.ends_each_time() && !work.is_long() {
            self.subject.work((operations / WARM_UP).max(1))?;
        }
        self.subject.work(operations)
    }

    fn in_session(
        &mut self,
        work: &dyn Work,
        options: &[&str],
        operations: u64,
        place: Place<'_>,
        round: u32,
        book: &mut Book,
    ) -> Result<Turn, String> {
        let pid = self.subject.pid()?;
        let before = resident_mib(pid);
        let session = Session::open(pid, options)?;
        let turn = self.warm(work, operations);
        let after = resident_mib(pid);
        let report = session.end()?;
        if let (Some(before), Some(after)) = (before, after) {
            book.note(place, Figure::MEMORY, round, after - before);
        }
        book.note(place, Figure::LOST, round, lost(&report));
        turn
    }
}

fn note(turn: Turn, place: Place<'_>, round: u32, book: &mut Book) {
    book.note(place, Figure::CPU, round, turn.cpu_ns);
    let told = [(Figure::RATE, turn.rate), (Figure::P50, turn.p50_us), (Figure::P99, turn.p99_us)];
    for (figure, value) in told {
        value.into_iter().for_each(|value| book.note(place, figure, round, value));
    }
}

fn note_ratios(with: Turn, without: Turn, place: Place<'_>, round: u32, book: &mut Book) {
    book.note(place, Figure::TIMES, round, with.cpu_ns / without.cpu_ns);
    if let (Some(with), Some(without)) = (with.rate, without.rate) {
        book.note(place, Figure::RATE_TIMES, round, with / without);
    }
    if let (Some(with), Some(without)) = (with.p99_us, without.p99_us) {
        book.note(place, Figure::P99_TIMES, round, with / without);
    }
}

/// Those that are not compared with themselves.
fn compare(turns: &[(Tool, Turn)], work: &str, round: u32, book: &mut Book) {
    let of = |name: &str| turns.iter().find(|(tool, _)| tool.name == name).map(|(_, turn)| *turn);
    for (tool, turn) in turns {
        let place = Place { part: PART, work, tool: tool.name };
        let is_its_own_measure = matches!(tool.way, Way::Session(_)) || tool.name == PLAIN;
        if let (Some(plain), false) = (of(PLAIN), is_its_own_measure) {
            note_ratios(*turn, plain, place, round, book);
        }
        if let Some(own) = tool.own_allocator.and_then(of) {
            book.note(place, Figure::OWN_TIMES, round, turn.cpu_ns / own.cpu_ns);
        }
    }
}

/// What each has in use, over the plain program.
fn weigh(runners: &mut [Runner], work: &str, round: u32, book: &mut Book) {
    let weight = |runner: &mut Runner| resident_mib(runner.subject.pid().ok()?);
    let plain = runners.iter_mut().find(|runner| runner.tool.name == PLAIN).and_then(weight);
    for runner in runners {
        if matches!(runner.tool.way, Way::Session(_)) || runner.tool.name == PLAIN {
            continue;
        }
        let place = Place { part: PART, work, tool: runner.tool.name };
        if let (Some(own), Some(plain)) = (weight(runner), plain) {
            book.note(place, Figure::MEMORY, round, own - plain);
        }
    }
}

/// Memory of a process in use.
pub(super) fn resident_mib(pid: i32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}
