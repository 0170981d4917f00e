//! One moment of the target: taken while it is stopped, and looked through then or later, by any
//! thread.

use std::time::{Duration, Instant};

use heapattach_entry::Family;
use heapattach_injector::{
    attach::{Unseen, unseen},
    family::Attendant,
    moment::{EarlyCopy, Exits, Image, Kept, Method, Scene, SnapshotError, unseen_writes},
    target::Stopped,
    watch::{ActiveHook, Session},
};

use crate::{
    check::snapshot_choice::{self, Choice, Load, Means},
    watch::{
        hook_counts::{counted_twice, module_name},
        intake::Recorder,
    },
};
use heapattach_reach::{Block, Blocks, RootKind, RootSet};
use heapattach_report::{LookMethod, LookReport, micros};
use heapattach_text::error_chain::with_causes;

use super::{
    Inspection,
    allocators::{maps as allocator_maps, older::Older},
    end::End,
    flight::Flight,
    holders::Holders,
    layout::{Told, layout},
    live_heap::LiveHeap,
    looked::{Looked, free},
    mappings,
    options::{CheckOptions, Snapshot},
    program::declared::{self, Heard},
    reading::Reading,
};

/// Sites of most bytes whose holders are looked for, if they are asked for.
const RETAINED: usize = 200;

/// A moment of the target.
pub(super) struct TakenMoment<'t> {
    pid: i32,
    image: Image<'t>,
    scene: Scene,
    live_heap: LiveHeap,
    books: Vec<std::ops::Range<u64>>,
    heard: Vec<Heard>,
    flight: Flight,
    is_complete: bool,
    judges_older: bool,
    /// Where pointers count, and whether at any byte.
    roots: RootSet,
    unaligned: bool,
    look: LookReport,
    began: Instant,
    doubts: Vec<String>,
    /// What still watches writes.
    early: Option<EarlyCopy>,
}

/// A moment that is about to be taken.
struct Moment<'t> {
    stop: Stopped<'t>,
    /// When the target was first asked to stand still, and when it did.
    began: Instant,
    since: Instant,
    choice: Choice,
    /// When the target is to go on, if it is to.
    until: Option<Instant>,
    /// No other moment follows: the hooks are switched off.
    is_last: bool,
    /// What the program says of its memory.
    heard: Vec<Heard>,
    /// By what threads end the program, if it is at its end.
    exits: Exits,
}

/// What must be there until it was looked at; for the thread that traces the target.
pub(super) struct Held<'t> {
    kept: Kept<'t>,
    /// The stop, if nothing but the target itself keeps the moment, and since when.
    stop: Option<(Stopped<'t>, Instant)>,
    /// How long it was stopped for that.
    paused: Duration,
}

impl Inspection<'_> {
    /// Has the target stand still at its last moment that counts, and looks. Names are not needed yet.
    pub(super) fn look<'t>(
        &mut self,
        session: &Session<'t>,
        exit_watch: Option<&dyn Attendant<'t>>,
        end: End,
        heard: Vec<Heard>,
        reading: &Reading<'_>,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<(Recorder, Looked), String> {
        let (recorder, taken, held) = if matches!(end, End::Ends | End::Begins | End::Becomes) {
            self.take_last_moment(session, exit_watch.filter(|_| end == End::Ends), heard, reading)?
        } else {
            self.take_moment(session, heard, reading, true)?
        };
        let mut looked = taken.look(self.options, tell);
        held.finish(&mut looked);
        Ok((recorder, looked))
    }

    /// The moment at the end of a program: no thread of the program waits for it any more.
    fn take_last_moment<'t>(
        &self,
        session: &Session<'t>,
        exit_watch: Option<&dyn Attendant<'t>>,
        heard: Vec<Heard>,
        reading: &Reading<'_>,
    ) -> Result<(Recorder, TakenMoment<'t>, Held<'t>), String> {
        let choice = Choice { method: Method::Stop, expected: Duration::ZERO, why: None };
        let began = Instant::now();
        let stop = match exit_watch {
            Some(exit_watch) => exit_watch.end(),
            None => session.stop(),
        };
        let stop = stop.map_err(|error| with_causes(&error))?;
        let since = Instant::now();
        let mut recorder = reading.pause().ok_or(NO_READER)?;
        // There is no other time: it takes its map along.
        self.note(session.target());
        let exits = Exits::of(session.target());
        let until = None;
        let moment = Moment { stop, began, since, choice, until, is_last: true, heard, exits };
        let (taken, held) = self.take(session, moment, None, &mut recorder).map_err(|no| no.why)?;
        Ok((recorder, taken, held))
    }

    /// A moment of a process that goes on: by the way that is best, or, if that takes longer than it
    /// may, by a clone.
    pub(super) fn take_moment<'t>(
        &self,
        session: &Session<'t>,
        heard: Vec<Heard>,
        reading: &Reading<'_>,
        is_last: bool,
    ) -> Result<(Recorder, TakenMoment<'t>, Held<'t>), String> {
        let mut choice = self.choose(session)?;
        loop {
            // Where it cannot be finished it goes when the target goes on: writes are watched until then.
            let mut early = match choice.method {
                Method::Early => match self.copy_early(session) {
                    Ok(early) => Some(early),
                    Err(why) if self.options.snapshot == Snapshot::Auto => {
                        choice = self.choose_way(session, Snapshot::Fork)?;
                        choice.why = Some(format!("it could not be copied early: {why}"));
                        None
                    }
                    Err(why) => return Err(format!("its memory cannot be copied early: {why}")),
                },
                Method::Stop | Method::Copy | Method::Fork => None,
            };
            let began = Instant::now();
            let stop = session.stop().map_err(|error| with_causes(&error))?;
            let since = Instant::now();
            let mut recorder = reading.pause().ok_or(NO_READER)?;
            // Where processors are few all of this takes so long that the hooks might give us up.
            session.beat();
            let until = Some(began + self.options.max_pause);
            let (way, heard) = (choice.clone(), heard.clone());
            let exits = Exits::default();
            let moment = Moment { stop, began, since, choice: way, until, is_last, heard, exits };
            let no = match self.take(session, moment, early.as_mut(), &mut recorder) {
                Ok((taken, held)) => {
                    let taken = TakenMoment { early, ..taken };
                    return Ok((recorder, taken, held));
                }
                Err(no) => no,
            };
            // The target goes on, and is recorded as before.
            reading.resume(recorder);
            let is_copy = matches!(choice.method, Method::Copy | Method::Early);
            let can_clone = is_copy && !self.options.follow_forks;
            if !no.is_late || !can_clone || self.options.snapshot != Snapshot::Auto {
                return Err(no.why);
            }
            choice = self.choose_way(session, Snapshot::Fork)?;
            choice.why = Some(format!("a copy was given up: {}", no.why));
        }
    }

    /// How the next moment is to be kept.
    fn choose(&self, session: &Session<'_>) -> Result<Choice, String> {
        self.choose_way(session, self.options.snapshot)
    }

    fn choose_way(&self, session: &Session<'_>, way: Snapshot) -> Result<Choice, String> {
        let load = Load::of(&session.target().process).with_page_cost(self.page_cost);
        // Only the thread that traces the target can make a clone; with children, that is another one.
        let clone = !self.options.follow_forks;
        let not_early = match way {
            Snapshot::Auto | Snapshot::Early => self.why_not_early(session),
            Snapshot::Stop | Snapshot::Copy | Snapshot::Fork => None,
        };
        let means = Means { clone, not_early };
        snapshot_choice::choose(way, &load, self.options.max_pause, &means)
    }

    /// Takes the moment in which the target stands; unless only it can keep the moment itself, it
    /// goes on.
    fn take<'t>(
        &self,
        session: &Session<'t>,
        moment: Moment<'t>,
        early: Option<&mut EarlyCopy>,
        recorder: &mut Recorder,
    ) -> Result<(TakenMoment<'t>, Held<'t>), NoMoment> {
        let Moment { mut stop, began, since, choice, until, is_last, mut heard, exits } = moment;
        let stopped_before = early.as_ref().map_or(Duration::ZERO, |early| early.stopped);
        heard.extend(declared::in_between(recorder.spoken()));
        let home = &session.patches.home;
        let calls = session.calls(&stop);
        let mut doubts = beyond(recorder.records.unfinished(), calls.len());
        let flight = Flight::of(calls, recorder.profile());
        let counts = session.stream.counts(&session.target().memory);
        let roots = declared::roots(&heard);
        let mut scene =
            Scene::of(&stop, std::slice::from_ref(home), &roots, &exits, session.static_tls())
                .map_err(|errno| format!("the memory map cannot be read: {}", errno.desc()))?;
        let way = (choice.method, early);
        let (mut image, kept) =
            Image::take(&stop, &mut scene, way, Some(home), until).map_err(|error| NoMoment {
                is_late: matches!(error, SnapshotError::OutOfTime { .. }),
                why: with_causes(&error),
            })?;
        if is_last {
            session
                .silence(&stop)
                .map_err(|errno| format!("the hooks cannot be switched off: {}", errno.desc()))?;
        }
        session.beat();
        // What is kept elsewhere can be looked at later.
        let (stop, paused) = match choice.method {
            Method::Stop => {
                stop.take_turns();
                (Some((stop, since)), Duration::ZERO)
            }
            Method::Copy | Method::Fork | Method::Early => {
                (None, pause_of(stop, since) + stopped_before)
            }
        };
        if choice.method == Method::Early {
            let unseen = unseen_writes(&session.target().process);
            let told =
                |why| format!("memory may have been written unseen while it was copied: {why}");
            doubts.extend(unseen.map(told));
        }
        image.settle(&mut scene);
        let mut live_heap = LiveHeap::of(recorder);
        let counts = counts.unwrap_or_default();
        live_heap.lost = counts.lost;
        doubts.extend(counted_twice(session, &counts));
        let unseen = unseen_frees(session);
        let judges_older = self.judges_older && unseen.is_empty();
        if !unseen.is_empty() {
            // Any of them may have been freed long ago.
            live_heap.blocks.clear();
            live_heap.mappings.clear();
        }
        doubts.extend(unseen);
        doubts.extend(session.has_expired().then(|| EXPIRED.to_owned()));
        // While another thread reads names, this one does not wait for it.
        if let Some(mut symbols) = free(&self.symbols) {
            symbols.note_python(recorder.records.python_frames());
        }
        let unjudged = mappings::judge(session, &scene, &mut live_heap);
        scene.blind.extend(unjudged);
        let is_complete = self.is_complete(session);
        let books = if is_complete {
            allocator_maps::ranges(session, &scene.maps, &live_heap)
        } else {
            Vec::new()
        };
        let look = LookReport {
            method: told(choice.method),
            expected_us: micros(choice.expected),
            why: choice.why,
            paused_us: micros(paused),
            limit_us: until.map_or(0.0, |_| micros(self.options.max_pause)),
            copied_late: image.late,
            bytes: scene.bytes(),
            ..LookReport::default()
        };
        let pid = session.target().process.pid();
        let taken = TakenMoment {
            pid,
            image,
            scene,
            live_heap,
            books,
            heard,
            flight,
            is_complete,
            judges_older,
            roots: self.roots(),
            unaligned: self.options.unaligned || self.settings.is_unaligned(),
            look,
            began,
            doubts,
            early: None,
        };
        Ok((taken, Held { kept, stop, paused: Duration::ZERO }))
    }

    /// Where pointers count: what the user chose has precedence.
    fn roots(&self) -> RootSet {
        let CheckOptions { roots, roots_are_chosen, .. } = *self.options;
        if roots_are_chosen { roots } else { self.settings.roots(roots) }
    }

    /// Whether every block that lives was recorded, so that what is in none of them is the
    /// allocator's.
    fn is_complete(&self, session: &Session<'_>) -> bool {
        // Calls of brk, sbrk and madvise neither make blocks nor free them.
        let is_of_memory = |hook: &&ActiveHook| hook.planned.function().family != Family::Kernel;
        let mut hooks = session.patches.hooks.iter().filter(is_of_memory);
        self.is_from_start && session.missed.is_empty() && hooks.all(allocator_maps::is_sure)
    }
}

/// Why there is no moment.
pub(super) struct NoMoment {
    /// Another way may be faster.
    is_late: bool,
    why: String,
}

impl From<String> for NoMoment {
    fn from(why: String) -> Self {
        Self { is_late: false, why }
    }
}

/// What is to be doubted if more records are not finished than threads stand in calls.
fn beyond(unfinished: usize, calls: usize) -> Vec<String> {
    let beyond = unfinished.saturating_sub(calls);
    let doubt = || format!("{beyond} records were never finished, and no thread is writing them");
    (beyond > 0).then(doubt).into_iter().collect()
}

/// Why no block can be called leaked: functions that may have freed any of them unseen.
fn unseen_frees(session: &Session<'_>) -> Vec<String> {
    let planned: Vec<_> = session.patches.hooks.iter().map(|hook| &hook.planned).collect();
    let unseen = unseen(&planned).into_iter();
    let told = unseen.map(|Unseen { hook, why }| {
        let module = module_name(&session.target().process, &hook.definer);
        format!("{} of {module} may free any block unseen: {why}", hook.name())
    });
    told.collect()
}

/// What happened to hooks that heard nothing of us.
const EXPIRED: &str = "the hooks had switched themselves off, since heapattach got no processor for too long: \
                       what was freed since then is not known";

/// Why there is no moment to be taken.
pub(super) const NO_READER: &str = "the thread that reads the records failed";

impl TakenMoment<'_> {
    /// Looks through it.
    pub(super) fn look(self, options: &CheckOptions, tell: &mut dyn FnMut(u64, u64)) -> Looked {
        let Self { pid, mut image, scene, live_heap, mut books, heard, flight, .. } = self;
        let (is_complete, judges_older, roots) = (self.is_complete, self.judges_older, self.roots);
        let unaligned = self.unaligned;
        let (mut report, began, mut doubts) = (self.look, self.began, self.doubts);
        drop(self.early);
        let sites = options.retained_by.as_ref().map_or(0, |_| RETAINED);
        let mut blocks: Vec<Block> = live_heap.blocks.iter().map(|(block, _)| *block).collect();
        let older = judges_older.then(|| Older::of(&image, pid, &scene, &live_heap)).flatten();
        books.extend(older.iter().flat_map(|older| older.books.iter().cloned()));
        let mut layout = layout(&scene, roots, is_complete, &books, &live_heap, &blocks);
        layout.unaligned = unaligned;
        if roots.has(RootKind::Announced) {
            layout.pointers.extend(declared::pointers(&heard, &live_heap.blocks));
            layout.pointers.extend(declared::pointers(&heard, &live_heap.mappings));
            layout.pointers.extend(live_heap.ignored.iter().map(|&at| declared::whole(at)));
        }
        if let Some(older) = &older {
            layout.pointers.extend(older.in_flight(&image, &scene));
            blocks.extend(&older.blocks);
        }
        let mappings: Vec<Block> = live_heap.mappings.iter().map(|(block, _)| *block).collect();
        let blocks = Blocks::with_mappings(blocks, &mappings);
        if (is_complete || older.is_some()) && roots.has(RootKind::Registers) {
            flight.hold(blocks.all(), &mut layout.pieces);
        }
        let mut picture = Told::new(&mut image, &layout, tell);
        let look = heapattach_reach::look(&blocks, &layout, &mut picture, sites);
        let holders = Holders::of(look.retained(), pid, &scene, &mut image);
        if image.is_late() {
            let limit = heapattach_text::quantity::time(options.max_pause);
            doubts.push(format!(
                "looking through it took longer than --max-pause, {limit}: given up"
            ));
        }
        if !image.is_whole(&scene) {
            doubts.push("the clone that was looked at was killed from outside".to_owned());
        }
        report.unreadable_pages = image.unreadable;
        Looked {
            look,
            holders,
            blocks,
            older,
            scene,
            live_heap,
            is_complete,
            report,
            began,
            doubts,
        }
    }
}

impl Held<'_> {
    /// Lets the target go on: its memory was looked at.
    pub(super) fn let_go(&mut self) {
        if let Some((stop, since)) = self.stop.take() {
            self.paused = pause_of(stop, since);
        }
    }

    /// Lets go of the rest, and notes what that cost the target.
    pub(super) fn finish(mut self, looked: &mut Looked) {
        self.let_go();
        looked.report.paused_us += micros(self.paused);
        match self.kept.finish() {
            Ok(again) => looked.report.paused_us += micros(again),
            Err(error) => looked.doubts.push(with_causes(&error)),
        }
    }

    /// The same where the target is gone.
    pub(super) fn abandon(self) {
        self.kept.abandon();
    }

    /// Whether the target is stopped for it.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some()
    }
}

/// Lets the target go on; how long it was stopped.
fn pause_of(stop: Stopped<'_>, since: Instant) -> Duration {
    stop.finish().stopped.max(since.elapsed())
}

fn told(method: Method) -> LookMethod {
    match method {
        Method::Stop => LookMethod::Stop,
        Method::Copy => LookMethod::Copy,
        Method::Fork => LookMethod::Fork,
        Method::Early => LookMethod::Early,
    }
}
