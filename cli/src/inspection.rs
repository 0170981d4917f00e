//! One check: every block is recorded from the attach on, and at the moment that was asked for the
//! target stands still, everything recorded is taken in, and its memory is looked through.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use heapattach_injector::{
    asked::Asked,
    attach::Options,
    constant,
    counts::Lost,
    heartbeat,
    keeper::{Event, Keeper},
    loader::Loader,
    own_checker,
    plan::Way,
    proc::maps,
    python::Wish,
    session::{Session, Watch},
    snapshot::{Image, Method, Scene},
    stopped::Stopped,
    target::Target,
};

use crate::{
    args::CheckArgs,
    check::{self, Block, Blocks, Checked},
    check_report::{CheckReport, LookReport, micros},
    clock::Clock,
    compose::{add_detach, blind_spots, stops, with_causes},
    desk::Desk,
    exit::Exit,
    hidden::Hidden,
    hush::Hush,
    line::{Heard, Line},
    pause,
    profile::Tick,
    recorder::Recorder,
    report::Report,
    suppression::Suppressions,
    symbols::{Symbols, demangle, printable::printable},
    terrain::layout,
};

/// The link map is looked at so often.
const WATCH: Duration = Duration::from_millis(40);
/// How often new threads are looked for.
const THREADS: Duration = Duration::from_millis(20);
/// Room for records: as every block is recorded, there are many.
const RING_BITS: u32 = 15;
/// How often a thread looks for room in a full ring before it gives up: some seconds.
const WAITS: u32 = 250_000_000;

/// The function by which a program tells which of its leaks are known.
const RULES_OF_TARGET: &str = "__lsan_default_suppressions";

/// Why the watching ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process is at its end.
    Ends,
    /// It begins to end.
    Begins,
    /// The signal came.
    Signalled,
    /// As long as asked for.
    Over,
    /// Somebody pressed Ctrl-C, or the command is gone.
    Asked,
    /// The target became another program.
    Execed,
    /// The target is gone.
    Gone,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Ends => "exit",
            Self::Begins => "exit-start",
            Self::Signalled => "signal",
            Self::Over => "time",
            Self::Asked | Self::Execed | Self::Gone => "asked",
        }
    }
}

/// What the engine is told.
pub fn options(args: &CheckArgs) -> Options {
    Options {
        mode: args.hooks.hooks.into(),
        max_memory: 0,
        interval: 1,
        ring_bits: RING_BITS,
        ring_patience: WAITS,
        pages: false,
        tables: true,
        copies: false,
        most_frames: args.hooks.max_depth,
        verify: 0,
        asked: Asked::new(args.hooks.hook.clone(), demangle::demangle),
        python: Wish::Auto,
        loader: Loader::Map,
        force: false,
    }
}

/// A check under way.
#[derive(Debug)]
pub struct Inspection<'a> {
    args: &'a CheckArgs,
    rules: Suppressions,
    /// What is to be said besides.
    notes: Vec<String>,
    symbols: Symbols,
    /// How often modules came or went when they were last noted.
    changes: u64,
}

/// What was seen while the target stood still.
struct Seen {
    checked: Checked,
    hush: Hush,
    scene: Scene,
    look: LookReport,
    doubts: Vec<String>,
}

impl<'a> Inspection<'a> {
    /// Notes what the target has of names, and of rules of its own.
    pub fn new(args: &'a CheckArgs, rules: &Suppressions, target: &Target) -> Self {
        let rules = rules.clone();
        let (symbols, notes) = (Symbols::new(), Vec::new());
        let mut inspection = Self { args, rules, notes, symbols, changes: 0 };
        inspection.symbols.ask_servers();
        inspection.note(target);
        if !args.quiet.no_embedded_suppressions {
            inspection.ask_target(target);
        }
        inspection
    }

    /// Takes over the rules that the program was built with.
    fn ask_target(&mut self, target: &Target) {
        let found = own_checker::functions(target, &[RULES_OF_TARGET.as_bytes()]);
        for at in found.into_iter().flatten() {
            match constant::text(&target.memory, at) {
                Ok(text) => self.rules.add_of_target(&printable_lines(&text.unwrap_or_default())),
                Err(error) => {
                    let why = with_causes(&error);
                    self.notes.push(format!("{RULES_OF_TARGET} is not understood: {why}"));
                }
            }
        }
    }

    fn note(&mut self, target: &Target) {
        let text = target.process.read("maps").unwrap_or_default();
        if let Ok(maps) = maps::parse(&text) {
            self.symbols.note(&target.process, &maps);
        }
    }

    /// From the attach to the report.
    pub fn run(
        &mut self,
        line: &mut Line,
        session: &mut Session<'_>,
        mut keeper: Option<Keeper<'_>>,
        report: &mut Report,
    ) -> Option<End> {
        let target = session.target();
        let records = session.stream.take_records()?;
        let desk = Desk::default();
        let recorder = Recorder::new(records, true, Clock::start(), None, false);
        let (memory, is_over) = (&target.memory, AtomicBool::new(false));
        thread::scope(|scope| {
            // The reader ends whatever becomes of us: the scope waits for it.
            let _over = Over(&is_over);
            let read = || recorder.follow(memory, &desk, &is_over);
            let reading = thread::Builder::new().spawn_scoped(scope, read).ok()?;
            let end = self.watch(line, session, &desk, keeper.as_mut());
            self.follow(session);
            let finish_reading = || {
                is_over.store(true, Relaxed);
                reading.join().ok()
            };
            let found = match end {
                End::Execed | End::Gone => None,
                _ => Some(self.look(session, keeper.as_ref(), end, finish_reading)),
            };
            let blind = blind_spots(session);
            let counts = session.stream.counts(memory).unwrap_or_default();
            // What ends takes everything of ours along.
            report.target = "restored".to_owned();
            match keeper {
                Some(keeper) if end == End::Execed => keeper.forget(),
                Some(keeper) => keeper.finish(),
                None => {}
            }
            if !matches!(end, End::Ends | End::Execed) {
                let detached = session.detach();
                add_detach(report, &detached);
            }
            report.outcome = outcome(end).to_owned();
            report.stops = stops(session);
            report.window_us = micros(session.exposed);
            report.blind = blind;
            match found {
                None => {}
                Some(Err(error)) => {
                    report.error = Some(error);
                    report.status = report.status.max(Exit::Failed.code());
                }
                Some(Ok((recorder, seen))) => {
                    self.conclude(session, end, &recorder, seen, counts.lost, report);
                }
            }
            Some(end)
        })
    }

    /// Watches until the moment has come.
    fn watch(
        &mut self,
        line: &mut Line,
        session: &mut Session<'_>,
        desk: &Desk,
        mut keeper: Option<&mut Keeper<'_>>,
    ) -> End {
        let target = session.target();
        let began = Instant::now();
        let deadline = self.args.duration.map(|duration| began + duration);
        let (mut next_look, mut next_beat, mut next_threads) = (began, began, began);
        loop {
            if let Some(keeper) = &mut keeper {
                target.waiter.clear();
                match keeper.attend() {
                    Some(Event::Ends) => return End::Ends,
                    Some(Event::Execs) => return End::Execed,
                    Some(Event::Signalled) => return End::Signalled,
                    Some(Event::Reached) => return End::Begins,
                    None => {}
                }
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return End::Over;
            }
            if now >= next_look {
                match session.watch() {
                    Watch::Runs => {}
                    Watch::Execed => return End::Execed,
                    Watch::Ended => return End::Gone,
                }
                self.follow(session);
                // Never more than a twentieth of a processor for looking.
                next_look = Instant::now() + WATCH.max(now.elapsed() * 20);
            }
            if now >= next_threads {
                let writers = session.stream.writers(&target.memory);
                desk.roster.look(&target.process, &target.memory, &writers, false);
                session.stream.place_stacks(&target.process, &target.memory);
                next_threads = Instant::now() + THREADS;
            }
            if now >= next_beat {
                session.beat();
                next_beat = now + heartbeat::PERIOD;
            }
            let next = [next_look, next_beat, next_threads].into_iter().chain(deadline).min();
            let time = next.unwrap_or(now).saturating_duration_since(Instant::now());
            match line.listen_beside(target, keeper.is_some(), time) {
                Some(Heard::Detach | Heard::Gone) => return End::Asked,
                Some(Heard::Mark) | None => {}
            }
        }
    }

    /// Notes new modules, for their symbols.
    fn follow(&mut self, session: &Session<'_>) {
        if session.changes != self.changes {
            self.changes = session.changes;
            self.note(session.target());
        }
    }

    /// Has the target stand still, and looks.
    fn look(
        &mut self,
        session: &Session<'_>,
        keeper: Option<&Keeper<'_>>,
        end: End,
        finish_reading: impl FnOnce() -> Option<Recorder>,
    ) -> Result<(Recorder, Seen), String> {
        let target = session.target();
        let is_over = matches!(end, End::Ends | End::Begins);
        let (method, expected) = if is_over {
            // Nobody waits for it any more.
            (Method::Stop, Duration::ZERO)
        } else {
            let resident = pause::resident(&target.process);
            pause::choose(self.args.snapshot, resident, self.args.max_pause)?
        };
        let began = Instant::now();
        let (stop, busy) = match keeper.filter(|_| end == End::Ends) {
            Some(keeper) => {
                let stop = keeper.end().map_err(|error| with_causes(&error))?;
                let busy = session.busy_thread(&stop);
                (stop, busy)
            }
            None => session.stop_idle().map_err(|error| with_causes(&error))?,
        };
        let stopped_since = Instant::now();
        let Some(recorder) = finish_reading() else {
            return Err("the thread that reads the records failed".to_owned());
        };
        if is_over {
            // There is no other time: it takes its map along.
            self.note(target);
        }
        let home = &session.patches.home;
        let scene = Scene::of(&stop, std::slice::from_ref(home))
            .map_err(|errno| format!("the memory map cannot be read: {}", errno.desc()))?;
        let is_complete = self.is_complete(session);
        let blocks: Vec<(Block, Tick)> = recorder.profile().live_blocks().collect();
        let mut hush = Hush::new(std::mem::take(&mut self.rules), self.args.warmup, &blocks);
        let blocks: Vec<Block> = blocks.into_iter().map(|(block, _)| block).collect();
        let layout = layout(&scene, self.args, is_complete, &recorder, &blocks);
        let image = Image::take(&stop, &scene, method, Some(home));
        let mut image = image.map_err(|error| with_causes(&error))?;
        self.symbols.note_generated();
        let symbols = &mut self.symbols;
        let mut is_quiet = |block: &Block| hush.keeps(block, &recorder, symbols);
        let (checked, paused) = if method == Method::Stop {
            let blocks = Blocks::new(blocks);
            let checked = check::check_but(&blocks, &layout, &mut image, &mut is_quiet);
            (checked, pause_of(stop, stopped_since))
        } else {
            let paused = pause_of(stop, stopped_since);
            let blocks = Blocks::new(blocks);
            (check::check_but(&blocks, &layout, &mut image, &mut is_quiet), paused)
        };
        let unreadable_pages = image.unreadable;
        let mut doubts = Vec::new();
        let again = image.finish().unwrap_or_else(|error| {
            doubts.push(with_causes(&error));
            Duration::ZERO
        });
        if let Some(tid) = busy {
            doubts.push(format!("thread {tid} was in the middle of an allocation"));
        }
        let look = LookReport {
            method: name(method).to_owned(),
            expected_us: micros(expected),
            paused_us: micros(paused + if method == Method::Fork { again } else { Duration::ZERO }),
            took_us: micros(began.elapsed()),
            bytes: scene.bytes(),
            words: checked.words,
            unreadable_pages,
        };
        Ok((recorder, Seen { checked, hush, scene, look, doubts }))
    }

    /// Whether every block that lives was recorded, so that what is in none of them is the
    /// allocator's.
    fn is_complete(&self, session: &Session<'_>) -> bool {
        let by_entry = |way: &Way| matches!(way, Way::Entry(_));
        let mut hooks = session.patches.hooks.iter();
        !self.args.command.is_empty()
            && session.missed.is_empty()
            && hooks.all(|hook| by_entry(&hook.planned.way))
    }

    /// Writes down what was found.
    fn conclude(
        &mut self,
        session: &Session<'_>,
        end: End,
        recorder: &Recorder,
        seen: Seen,
        lost: Lost,
        report: &mut Report,
    ) {
        let hidden = Hidden::new(&self.args.hooks.hide_frames);
        let mut check =
            CheckReport::of(&seen.checked, recorder, &mut self.symbols, &hidden, &self.args.told());
        seen.hush.tell(seen.checked.quiet, &mut check);
        check.notes.append(&mut self.notes);
        check.at = end.name().to_owned();
        check.is_complete = self.is_complete(session);
        check.look = seen.look;
        check.blind = seen.scene.blind;
        check.doubts.extend(seen.doubts);
        check.doubts.extend(missing(recorder, lost));
        if seen.scene.unread_threads > 0 {
            let many = seen.scene.unread_threads;
            check.doubts.push(format!("the vector registers of {many} threads could not be read"));
        }
        if check.look.unreadable_pages > 0 {
            let many = check.look.unreadable_pages;
            check.blind.push(format!("{many} pages could not be read"));
        }
        report.missing_symbols = self.symbols.missing();
        if report.target == "altered" {
            report.status = Exit::Left.code();
        }
        report.check = Some(check);
    }
}

/// Text of the target, still in lines.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}

/// Lets the target go on; how long it stood still.
fn pause_of(stop: Stopped<'_>, since: Instant) -> Duration {
    stop.finish().stopped.max(since.elapsed())
}

/// What records are missing, in words.
fn missing(recorder: &Recorder, lost: Lost) -> Vec<String> {
    let odd = recorder.profile().oddities();
    let numbers = [
        (lost.blocks, "blocks were not recorded: their rings were full"),
        (lost.frees, "frees were not recorded: their rings were full"),
        (recorder.records.torn(), "records were never finished"),
        (odd.missed_frees, "frees were missed"),
        (odd.blocks_beyond_limit, "blocks found no room"),
    ];
    let told = numbers.into_iter().filter(|(number, _)| *number > 0);
    told.map(|(number, what)| format!("{number} {what}")).collect()
}

fn outcome(end: End) -> &'static str {
    match end {
        End::Ends | End::Begins | End::Gone => "exited",
        End::Execed => "execed",
        End::Signalled | End::Over | End::Asked => "detached",
    }
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Stop => "stop",
        Method::Copy => "copy",
        Method::Fork => "fork",
    }
}

/// Says at its end that a session is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
