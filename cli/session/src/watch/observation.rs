//! A session from the attach to the report: it is watched, and what it tells is taken in beside.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::{self, Thread},
    time::Duration,
};

use heapattach_injector::{
    target::Target,
    watch::{Counts, Session},
};
use heapattach_process::{cache::Cache, proc::maps};

use crate::{
    client::{
        channel::{Heard, Line},
        message::Message,
    },
    page_kinds,
    recorded::RecordedBlocks,
    runtimes::{Runtimes, go_program},
    watch::{
        end::{End, conclude, fail},
        event_loop,
        heading::{fill, heading, session_writer},
        hook_counts::{add_detach, asked, blind_spots, compose},
        inheritance::Will,
        intake::Recorder,
        kernel_list::{
            Comparison, Judgement, KernelList, Looks,
            spread::{self, Spread},
        },
        memory_course::{self, with_numbers},
        names,
        notes::{Note, SharedNotes},
        options::WatchOptions,
        result::Written,
        runtime_reports::runtime_reports,
        schedule::Schedule,
        stack_dump::StackList,
        stacks::stacks_report,
        title::Title,
        triggers::Triggers,
    },
};
use heapattach_ledger::Moment;
use heapattach_profile::clock::Clock;
use heapattach_recording::names::Code;
use heapattach_recording::{SessionWriter, Store};
use heapattach_report::Report;
use heapattach_symbols::{FileCache, Symbols};

/// Before the attach nothing is ours.
const NOWHERE: Range<u64> = 0..0;

/// What is made of a session.
#[derive(Debug)]
pub struct Record {
    store: Option<Store>,
    stacks: Option<StackList>,
    /// What the blocks are told to that are in use at the end.
    blocks: Option<RecordedBlocks>,
    symbols: Symbols,
    /// How often modules came or went when they were last noted.
    changes: u64,
    rss: Option<u64>,
    will: Option<Will>,
    /// Of a process of a family.
    title: Title,
    runtimes: Runtimes,
    /// Whether the program is seen from its first block on.
    is_from_start: bool,
    /// Its memory and its mappings, of before the attach.
    before: (Moment, Spread),
    /// The kernel's list of these, and where the heap of brk ended.
    list: (KernelList, Option<u64>),
}

impl Record {
    /// Begun before the attach: a short program may have ended by its end.
    pub fn new(target: &Target, store: Option<Store>, stacks: Option<StackList>) -> Self {
        Self::through(None, target, store, stacks)
    }

    /// The same beside others that read the same files.
    pub fn through(
        files: Option<FileCache>,
        target: &Target,
        store: Option<Store>,
        stacks: Option<StackList>,
    ) -> Self {
        let mut symbols = Symbols::new();
        symbols.ask_servers();
        if let Some(files) = files {
            symbols.read_through(files);
        }
        let mut record = Self::with(target, store, stacks, symbols, Runtimes::of(target));
        // What it has loaded is not counted yet; what comes to a place later takes it over.
        record.note(target, || None);
        record
    }

    /// The same where the modules, and the runtimes in them, are known already.
    pub fn with(
        target: &Target,
        store: Option<Store>,
        stacks: Option<StackList>,
        symbols: Symbols,
        runtimes: Runtimes,
    ) -> Self {
        let list = listed(target);
        let maps = maps::parse(&list).unwrap_or_default();
        Self {
            store,
            stacks,
            blocks: None,
            symbols,
            changes: 0,
            rss: resident(target),
            will: None,
            title: Title::new(),
            runtimes,
            is_from_start: false,
            before: (
                with_numbers(&target.process, Moment::default()),
                spread::spread(&maps, &NOWHERE),
            ),
            list: (KernelList::of(&maps, &NOWHERE), spread::heap_end(&target.process, &maps)),
        }
    }

    /// The same, which tells the blocks that are in use when it ends.
    pub fn telling(self, blocks: Option<RecordedBlocks>) -> Self {
        Self { blocks, ..self }
    }

    /// The same with what children of the target take over.
    pub fn leaving(self, will: Option<Will>) -> Self {
        Self { will, ..self }
    }

    /// Writes down what children of the target take over.
    pub fn renew_will(&mut self, session: &Session<'_>) {
        if let Some(will) = &mut self.will {
            will.renew(session, &self.symbols, Some(&self.runtimes));
        }
    }

    /// Of a program that has not run yet.
    pub fn seen_from_start(self) -> Self {
        Self { is_from_start: true, ..self }
    }

    /// Notes what is mapped, of a process whose loader is not at work just then: a plugin may come to
    /// the place of another between the map and the memory, and would bear its name. Whether it was so.
    fn note(&mut self, target: &Target, loaded: impl Fn() -> Option<u64>) -> bool {
        let before = loaded();
        let text = target.process.read("maps").unwrap_or_default();
        let Ok(maps) = maps::parse(&text) else { return true };
        self.symbols.note_if(&target.process, &maps, || loaded() == before)
    }

    /// The session and its end: watches, detaches, and writes down what was found.
    pub fn observe(
        mut self,
        line: &mut Line,
        session: &mut Session<'_>,
        options: &WatchOptions,
        report: &mut Report,
    ) -> End {
        let target = session.target();
        let Some(records) = session.stream.take_records() else { return End::Over };
        self.symbols.follow(records.generations());
        self.symbols.keep_names(options.hooks.cache.then(Cache::of_environment).flatten());
        let clock = Clock::start();
        let command = if options.record.redact { String::new() } else { report.command.clone() };
        let every = (report.pid, session.stream.interval);
        let mut heading = heading(command, &options.hooks.hide_frames, every, &target.process);
        let path = self.store.as_ref().and_then(|store| store.path.clone());
        // Only where growth is to be judged it is read.
        let copy =
            self.store.as_ref().filter(|_| options.flow).and_then(|store| store.share().ok());
        let mut session_writer =
            match self.store.take().map(|store| session_writer(store, options)).transpose() {
                Ok(session_writer) => session_writer,
                Err(error) => {
                    let detached = session.detach();
                    fail(report, &detached, &format!("the recording cannot be begun: {error}"));
                    return End::Over;
                }
            };
        let modules = self.symbols.known();
        if let Some(session_writer) = &mut session_writer {
            session_writer.heading(&heading);
            session_writer.modules(&modules);
        }
        heading.about.from_start = self.is_from_start;
        let (before, mappings) = std::mem::take(&mut self.before);
        heading.about.before = before.rss.zip(before.anonymous).map(|(rss, own)| [rss, own]);
        let shared_notes = SharedNotes::default();
        let schedule = Schedule::new(&shared_notes, clock, options);
        let mut triggers = Triggers::new(&options.triggers, self.is_from_start, path.clone());
        let haste = session_writer.as_ref().map(SessionWriter::haste);
        shared_notes.leave(Note::Modules(modules));
        let has_names = options.record.names || path.is_none();
        let mut recorder =
            Recorder::new(records, options.is_exact(), clock, session_writer, has_names);
        let (list_before, heap_end) = std::mem::take(&mut self.list);
        recorder.know_heap_end(heap_end);
        recorder.know_go(
            self.runtimes.has_go().then(|| go_program::code_beside(&target.process)).flatten(),
        );
        recorder.know_loads(session.loads());
        let home = &session.patches.home;
        let home = home.at().get()..home.end().get();
        let mut looks = Looks::new(&target.process, home.clone(), clock);
        let (memory, is_over) = (&target.memory, AtomicBool::new(false));
        thread::scope(|scope| {
            // The reader must end even if this thread panics: the scope waits for it.
            let mut over = Over(&is_over, None);
            let read = || recorder.follow(memory, &shared_notes, &is_over);
            let reading = match thread::Builder::new().spawn_scoped(scope, read) {
                Ok(reading) => {
                    over.1 = Some(reading.thread().clone());
                    reading
                }
                Err(error) => {
                    let detached = session.detach();
                    fail(report, &detached, &format!("no thread to read the records: {error}"));
                    return End::Over;
                }
            };
            let (ending, counted) = event_loop::watch(
                line,
                session,
                options,
                schedule,
                &mut triggers,
                |session, shared_notes| {
                    self.follow(session, shared_notes);
                    looks.look(&list_before, &shared_notes.recorded);
                },
            );
            self.follow(session, &shared_notes);
            let rss = self.rss.zip(resident(target)).map(|(before, after)| [before, after]);
            let stamp = shared_notes.recorded.stamp();
            let list = listed(target);
            let maps = maps::parse(&list).unwrap_or_default();
            let mut grown = spread::grown(&mappings, &spread::spread(&maps, &home));
            let list = KernelList::of(&maps, &home);
            let counts = session.stream.counts(&target.memory).unwrap_or_default();
            let blind = blind_spots(session, &counts);
            let stop_reading = |session: &Session<'_>| {
                drop(over);
                let recorder = reading.join().ok();
                (recorder, session.stream.counts(&target.memory).unwrap_or_default())
            };
            // What goes with the home is read while it is there.
            let (read, detached) = if session.stream.is_private() {
                // Until then no disk is waited for.
                haste.iter().for_each(|haste| haste.set(true));
                let read = stop_reading(session);
                let detached = session.detach();
                haste.iter().for_each(|haste| haste.set(false));
                (read, detached)
            } else {
                let detached = session.detach();
                (stop_reading(session), detached)
            };
            let (Some(mut recorder), counts) = read else {
                fail(report, &detached, "the thread that reads the records failed");
                return ending;
            };
            let judgement = if matches!(ending, End::Execed | End::Ended) {
                // There is no list of its end.
                looks.seen((list_before, &mappings), recorder.profile()).map(|seen| {
                    heading.about.compared_ms = u64::try_from(seen.at.as_millis()).ok();
                    grown = seen.grown;
                    seen.judgement
                })
            } else {
                let after = listed(target);
                let after = KernelList::of(&maps::parse(&after).unwrap_or_default(), &home);
                let comparison = Comparison { before: list_before, during: list, after };
                let judge = || comparison.judge(recorder.profile(), stamp);
                comparison.is_sound().then(judge)
            };
            if let Some(Judgement { unhooked: (largest, bytes), vanished }) = judgement {
                (heading.about.unhooked, heading.about.unhooked_bytes) = (largest, bytes);
                heading.about.vanished = recorder.unmap(vanished);
            }
            // What was only met in the last records.
            self.follow(session, &shared_notes);
            let asked = asked(session, &counts);
            recorder.know(session.stream.interval, asked);
            recorder.conclude(&shared_notes);
            *report = Report {
                pid: report.pid,
                command: self.command(target, std::mem::take(&mut report.command)),
                blind,
                rss,
                trigger: triggers.came(),
                ..self.result(session, &counts, &recorder, counted)
            };
            if !matches!(ending, End::Execed | End::Ended)
                && let Some(Err(error)) =
                    self.blocks.as_ref().map(|blocks| blocks.write(recorder.profile()))
            {
                report.blind.push(format!("requested and occupied bytes by site: {error}"));
            }
            let listed = self.stacks.as_ref().map(|stacks| stacks.write(&recorder));
            heading.about.every = session.stream.interval;
            heading.about.loss = recorder.loss(counts.lost);
            heading.about.asked = Some(asked);
            heading.about.grown = grown;
            heading.about.pages = match ending {
                End::Execed | End::Ended => looks.kinds(&recorder.live_ranges()),
                _ => page_kinds::look(&target.process, &recorder.live_ranges()),
            };
            let left = recorder.leave();
            let code = self.look_up(line, target, left.ended.addresses().to_vec(), report);
            add_detach(report, &detached);
            conclude(session, &ending, report);
            fill(&mut heading.about, report, counted);
            let goes_on = || !ends_waiting(line.listen(target, Duration::ZERO));
            let full_names = options.hooks.full_names;
            let written = Written { path, store: copy, has_names, full_names };
            written.finish(left, heading, code, report, goes_on);
            if let Some(Err(error)) = listed {
                report.error = Some(format!("the stacks cannot be written: {error}"));
                report.status = report.status.or_failed();
            }
            ending
        })
    }

    /// What the command line is at the end, of a process of a family: it may have become another one.
    fn command(&mut self, target: &Target, before: String) -> String {
        let is_of_family = self.will.is_some();
        let last = is_of_family.then(|| self.title.last(&target.process).cloned()).flatten();
        last.unwrap_or(before)
    }

    /// The result as far as counts and records tell it; names and the detach come later.
    fn result(
        &mut self,
        session: &Session<'_>,
        counts: &Counts,
        recorder: &Recorder,
        counted: Duration,
    ) -> Report {
        self.symbols.note_generated();
        self.symbols.note_python(recorder.records.python_frames());
        let pid = session.target().process.pid();
        Report {
            runtimes: runtime_reports(&self.runtimes, session, recorder, &self.symbols, pid),
            stacks: stacks_report(session.tables.totals(), recorder, counts),
            ..compose(session, counts, recorder, counted)
        }
    }

    /// The names of addresses. Only the command still waits, and the user may want to end that.
    fn look_up(
        &mut self,
        line: &mut Line,
        target: &Target,
        addresses: Vec<u64>,
        report: &mut Report,
    ) -> Code {
        // What the command said until now was meant for the session.
        while matches!(line.hear(), Some(Heard::Detach | Heard::Mark | Heard::Over)) {}
        self.symbols.fetch_returns(addresses.iter().copied(), &mut |progress| {
            line.send(&Message::Fetching(progress.to_owned()));
            !ends_waiting(line.listen(target, Duration::ZERO))
        });
        let known = self.symbols.known();
        let code = names::look_up(&mut self.symbols, addresses, |far| {
            line.send(&Message::Fetching(far.to_string()));
            line.listen(target, Duration::ZERO) != Some(Heard::Detach)
        });
        let code = code.unwrap_or_else(|| {
            report.blind.push(names::NOT_AWAITED.to_owned());
            Code::without_names(&known)
        });
        report.missing_symbols = self.symbols.missing();
        report.blind.extend(self.symbols.note_on_generated().map(str::to_owned));
        code
    }

    /// Notes new modules, for their symbols.
    pub fn follow(&mut self, session: &mut Session<'_>, shared_notes: &SharedNotes) {
        let changes = session.changes;
        // Else the next look finds it at rest; what is called meanwhile says itself where it lies.
        let has_changed =
            changes != self.changes && self.note(session.target(), || session.loaded());
        if has_changed {
            self.changes = changes;
            self.runtimes.look(session.target());
        }
        session.note_generations();
        if self.symbols.note_generations() || has_changed {
            shared_notes.leave(Note::Modules(self.symbols.known()));
        }
        self.renew_will(session);
        if self.will.is_some() {
            self.title.look(&session.target().process);
        }
    }
}

/// Whether names, or what else takes long, are not to be waited for. What was meant for the session, which
/// is over, does not say so.
fn ends_waiting(heard: Option<Heard>) -> bool {
    matches!(heard, Some(Heard::Detach | Heard::Gone))
}

/// Says at its end that a session is over.
struct Over<'a>(&'a AtomicBool, Option<Thread>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        // It may sleep for long.
        if let Some(thread) = &self.1 {
            thread.unpark();
        }
    }
}

/// The kernel's list of the target's mappings; nothing if it is gone.
fn listed(target: &Target) -> Vec<u8> {
    target.process.read("maps").unwrap_or_default()
}

/// Bytes of memory that the target has in use.
fn resident(target: &Target) -> Option<u64> {
    memory_course::resident(&target.process).0
}
