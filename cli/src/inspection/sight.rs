//! One moment of the target: taken while it stands still, and looked through then or later, by any
//! thread.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use heapattach_injector::{
    keeper::Attendant,
    session::Session,
    snapshot::{Image, Kept, Method, Scene},
    stopped::Stopped,
};

use crate::{
    announced::{self, Heard},
    args::CheckArgs,
    census::Census,
    check::{self, Block, Blocks, Checked, Look, RootKind},
    check_report::{LookReport, micros},
    compose::with_causes,
    hush::Hush,
    pause::{self, Choice, Load},
    recorder::Recorder,
    retained::Holders,
    suppression::Suppressions,
    symbols::Symbols,
    terrain::{layout, wanted},
};

use super::{Inspection, books, end::End};

/// Sites of most bytes whose holders are looked for, if they are asked for.
const RETAINED: usize = 200;

/// A moment of the target.
pub(super) struct Sight<'t> {
    pid: i32,
    image: Image<'t>,
    scene: Scene,
    census: Census,
    books: Vec<std::ops::Range<u64>>,
    heard: Vec<Heard>,
    is_complete: bool,
    look: LookReport,
    began: Instant,
    doubts: Vec<String>,
}

/// A moment that is about to be taken.
pub(super) struct Moment<'t> {
    pub(super) stop: Stopped<'t>,
    /// When the target was first asked to stand still, and when it did.
    pub(super) began: Instant,
    pub(super) since: Instant,
    pub(super) choice: Choice,
    /// What the program says of its memory.
    pub(super) heard: Vec<Heard>,
}

/// What must be there until it was looked at; for the thread that traces the target.
pub(super) struct Held<'t> {
    kept: Kept<'t>,
    /// The stop, if nothing but the target itself keeps the moment, and since when.
    stop: Option<(Stopped<'t>, Instant)>,
    /// How long it stood still for that.
    paused: Duration,
}

/// A moment that was looked through: memory is not asked any more.
pub(super) struct Looked {
    look: Look,
    holders: Holders,
    blocks: Blocks,
    scene: Scene,
    census: Census,
    is_complete: bool,
    report: LookReport,
    began: Instant,
    doubts: Vec<String>,
}

/// What else it takes to look.
pub(super) struct Tools<'a> {
    pub(super) args: &'a CheckArgs,
    pub(super) rules: Suppressions,
    /// By stack: the rule that fits.
    pub(super) known: HashMap<u32, Option<usize>>,
    pub(super) symbols: Arc<Mutex<Symbols>>,
}

/// What was seen.
pub(super) struct Seen {
    pub(super) checked: Checked,
    /// What lies where the ways begin.
    pub(super) holders: Holders,
    pub(super) hush: Hush,
    pub(super) scene: Scene,
    pub(super) census: Census,
    pub(super) is_complete: bool,
    pub(super) look: LookReport,
    pub(super) doubts: Vec<String>,
}

impl Inspection<'_> {
    /// Has the target stand still at its last moment that counts, and looks.
    pub(super) fn look(
        &mut self,
        session: &Session<'_>,
        keeper: Option<&dyn Attendant<'_>>,
        end: End,
        (known, heard): (HashMap<u32, Option<usize>>, Vec<Heard>),
        finish_reading: impl FnOnce() -> Option<Recorder>,
    ) -> Result<(Recorder, Seen), String> {
        let is_over = matches!(end, End::Ends | End::Begins | End::Becomes);
        let choice = if is_over {
            // Nobody waits for it any more.
            Choice { method: Method::Stop, expected: Duration::ZERO, why: None }
        } else {
            self.choose(session)?
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
        let since = Instant::now();
        session
            .silence(&stop)
            .map_err(|errno| format!("the hooks cannot be switched off: {}", errno.desc()))?;
        let recorder = finish_reading().ok_or(NO_READER)?;
        if is_over {
            // There is no other time: it takes its map along.
            self.note(session.target());
        }
        let moment = Moment { stop, began, since, choice, heard };
        let (mut sight, mut held) = self.take(session, moment, &recorder)?;
        if let Some(tid) = busy {
            sight.doubts.push(format!("thread {tid} was in the middle of an allocation"));
        }
        let looked = sight.look(self.args);
        held.let_go();
        let mut seen = looked.conclude(Tools {
            args: self.args,
            rules: self.rules.clone(),
            known,
            symbols: Arc::clone(&self.symbols),
        });
        held.finish(&mut seen);
        Ok((recorder, seen))
    }

    /// How the next moment is to be kept.
    pub(super) fn choose(&self, session: &Session<'_>) -> Result<Choice, String> {
        let load = Load::of(&session.target().process);
        // A clone is made by whoever traces the target: of a family, that is another thread.
        let can_clone = !self.args.follow_forks;
        pause::choose(self.args.snapshot, &load, self.args.max_pause, can_clone)
    }

    /// Takes the moment in which the target stands; unless only it can keep the moment itself, it
    /// goes on.
    pub(super) fn take<'t>(
        &self,
        session: &Session<'t>,
        moment: Moment<'t>,
        recorder: &Recorder,
    ) -> Result<(Sight<'t>, Held<'t>), String> {
        let Moment { stop, began, since, choice, heard } = moment;
        let home = &session.patches.home;
        let roots = announced::roots(&heard);
        let mut scene = Scene::of(&stop, std::slice::from_ref(home), &roots)
            .map_err(|errno| format!("the memory map cannot be read: {}", errno.desc()))?;
        let (image, kept) = Image::take(&stop, &mut scene, choice.method, Some(home))
            .map_err(|error| with_causes(&error))?;
        // What is kept elsewhere can be looked at later.
        let (stop, paused) = match choice.method {
            Method::Stop => (Some((stop, since)), Duration::ZERO),
            Method::Copy | Method::Fork => (None, pause_of(stop, since)),
        };
        image.settle(&mut scene);
        let census = Census::of(recorder);
        lock(&self.symbols).note_python(recorder.records.python_frames());
        let is_complete = self.is_complete(session);
        let books = if is_complete { books::ranges(session, &census) } else { Vec::new() };
        let look = LookReport {
            method: name(choice.method).to_owned(),
            expected_us: micros(choice.expected),
            why: choice.why,
            paused_us: micros(paused),
            bytes: scene.bytes(),
            ..LookReport::default()
        };
        let doubts = Vec::new();
        let pid = session.target().process.pid();
        let sight =
            Sight { pid, image, scene, census, books, heard, is_complete, look, began, doubts };
        Ok((sight, Held { kept, stop, paused: Duration::ZERO }))
    }

    /// Whether every block that lives was recorded, so that what is in none of them is the
    /// allocator's.
    fn is_complete(&self, session: &Session<'_>) -> bool {
        let mut hooks = session.patches.hooks.iter();
        self.is_from_start && session.missed.is_empty() && hooks.all(books::is_sure)
    }
}

/// Why there is no moment to be taken.
pub(super) const NO_READER: &str = "the thread that reads the records failed";

impl Sight<'_> {
    /// Looks through it.
    pub(super) fn look(self, args: &CheckArgs) -> Looked {
        let Self { pid, mut image, scene, census, books, heard, is_complete, .. } = self;
        let (mut report, began, mut doubts) = (self.look, self.began, self.doubts);
        let sites = args.retained_by.as_ref().map_or(0, |_| RETAINED);
        let blocks: Vec<Block> = census.blocks.iter().map(|(block, _)| *block).collect();
        let mut layout = layout(&scene, args, is_complete, &books, &census, &blocks);
        if wanted(args).has(RootKind::Announced) {
            layout.pointers.extend(announced::pointers(&heard, &census.blocks));
        }
        let blocks = Blocks::new(blocks);
        let look = check::look(&blocks, &layout, &mut image, sites);
        let holders = Holders::of(look.retained(), pid, &scene, &mut image);
        if !image.is_whole(&scene) {
            doubts.push("somebody killed the clone that was looked at".to_owned());
        }
        report.unreadable_pages = image.unreadable;
        Looked { look, holders, blocks, scene, census, is_complete, report, began, doubts }
    }
}

impl Looked {
    /// Says what is lost, but for what nobody wants to hear of. That takes names, and time.
    pub(super) fn conclude(self, tools: Tools<'_>) -> Seen {
        let Self { look, holders, blocks, scene, census, is_complete, mut report, began, doubts } =
            self;
        let Tools { args, rules, known, symbols } = tools;
        let mut hush = Hush::new(rules, known, args.warmup, &census.blocks);
        lock(&symbols).note_generated();
        let mut is_quiet = |block: &Block| hush.keeps(block, &census, &mut lock(&symbols));
        let checked = look.conclude(&blocks, &mut is_quiet);
        report.took_us = micros(began.elapsed());
        report.words = checked.words;
        Seen { checked, holders, hush, scene, census, is_complete, look: report, doubts }
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
    pub(super) fn finish(mut self, seen: &mut Seen) {
        self.let_go();
        seen.look.paused_us += micros(self.paused);
        match self.kept.finish() {
            Ok(again) => seen.look.paused_us += micros(again),
            Err(error) => seen.doubts.push(with_causes(&error)),
        }
    }

    /// The same where the target is gone.
    pub(super) fn abandon(self) {
        self.kept.abandon();
    }

    /// Whether the target stands still for it.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some()
    }
}

/// The names, whoever failed with them.
pub(super) fn lock(symbols: &Mutex<Symbols>) -> std::sync::MutexGuard<'_, Symbols> {
    symbols.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the target go on; how long it stood still.
fn pause_of(stop: Stopped<'_>, since: Instant) -> Duration {
    stop.finish().stopped.max(since.elapsed())
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Stop => "stop",
        Method::Copy => "copy",
        Method::Fork => "fork",
    }
}
