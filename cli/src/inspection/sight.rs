//! What is seen of the target while it stands still, and what that leaves unsaid.

use std::time::{Duration, Instant};

use heapattach_injector::{
    keeper::Keeper,
    session::Session,
    snapshot::{Image, Method, Scene},
    stopped::Stopped,
};

use crate::{
    check::{self, Block, Blocks, Checked},
    check_report::{LookReport, micros},
    compose::with_causes,
    hush::Hush,
    pause::{self, Choice, Load},
    profile::Tick,
    recorder::Recorder,
    terrain::layout,
};

use super::{Inspection, books, end::End};

/// Sites of most bytes whose holders are looked for, if they are asked for.
const RETAINED: usize = 200;

/// What was seen while the target stood still.
pub(super) struct Seen {
    pub(super) checked: Checked,
    pub(super) hush: Hush,
    pub(super) scene: Scene,
    pub(super) look: LookReport,
    pub(super) doubts: Vec<String>,
}

impl Inspection<'_> {
    /// Has the target stand still, and looks.
    pub(super) fn look(
        &mut self,
        session: &Session<'_>,
        keeper: Option<&Keeper<'_>>,
        end: End,
        finish_reading: impl FnOnce() -> Option<Recorder>,
    ) -> Result<(Recorder, Seen), String> {
        let target = session.target();
        let is_over = matches!(end, End::Ends | End::Begins);
        let choice = if is_over {
            // Nobody waits for it any more.
            Choice { method: Method::Stop, expected: Duration::ZERO, why: None }
        } else {
            pause::choose(self.args.snapshot, &Load::of(&target.process), self.args.max_pause)?
        };
        let method = choice.method;
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
        session
            .silence(&stop)
            .map_err(|errno| format!("the hooks cannot be switched off: {}", errno.desc()))?;
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
        let books = if is_complete { books::ranges(session, &recorder) } else { Vec::new() };
        let image = Image::take(&stop, &scene, method, Some(home));
        let mut image = image.map_err(|error| with_causes(&error))?;
        // What is kept elsewhere can be looked at later.
        let (kept, paused) = match method {
            Method::Stop => (Some(stop), Duration::ZERO),
            Method::Copy | Method::Fork => (None, pause_of(stop, stopped_since)),
        };
        let sites = self.args.retained_by.as_ref().map_or(0, |_| RETAINED);
        let blocks: Vec<(Block, Tick)> = recorder.profile().live_blocks().collect();
        let mut hush = Hush::new(std::mem::take(&mut self.rules), self.args.warmup, &blocks);
        let blocks: Vec<Block> = blocks.into_iter().map(|(block, _)| block).collect();
        let layout = layout(&scene, self.args, is_complete, &books, &recorder, &blocks);
        self.symbols.note_generated();
        let symbols = &mut self.symbols;
        let mut is_quiet = |block: &Block| hush.keeps(block, &recorder, symbols);
        let blocks = Blocks::new(blocks);
        let checked = check::check_but(&blocks, &layout, &mut image, sites, &mut is_quiet);
        let paused = kept.map_or(paused, |stop| pause_of(stop, stopped_since));
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
            expected_us: micros(choice.expected),
            why: choice.why,
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
    pub(super) fn is_complete(&self, session: &Session<'_>) -> bool {
        let mut hooks = session.patches.hooks.iter();
        !self.args.command.is_empty() && session.missed.is_empty() && hooks.all(books::is_sure)
    }
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
