//! What is shown, and what the user has chosen. Keys change it in `keys`; `draw` draws it.

use std::{collections::HashMap, sync::Arc};

use heapattach_ledger::{Filter, Ledger, blind_spots};
use heapattach_verdict::subject::{Ask, Subject as Looked};
use heapattach_view::{Form, Ink, Span, View};

use crate::{
    detail, help,
    inked::{self, Line},
    processes::Processes,
    rows::Key,
    snapshot::{Snapshot, State, Subject},
    source::Sources,
    tab::Tab,
    watched::{Listing, Watched},
};

mod keys;

/// Rows of a view that is text.
const ROWS: usize = 200;

/// A format that the command can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For `go tool pprof`.
    Pprof,
    /// The page for browsers.
    Html,
}

/// What only the command can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Ends.
    End,
    /// Stops itself, as Ctrl-Z has programs do.
    Suspend,
    /// Ends the session of this process.
    Detach(usize),
    /// Marks a moment of this process.
    Mark(usize),
    /// Writes what is known of this process.
    Write(usize, Format),
    /// Reads a file of source.
    Read(String),
    /// Begins a session with this process.
    Attach(i32),
}

/// What takes all of the room for rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Screen {
    /// The tab.
    Tab,
    /// A row, and which of its stacks.
    Detail(usize),
    /// The keys.
    Help,
    /// Processes to choose from.
    Processes,
}

/// The text of a screen, kept while nothing of this changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TextOf {
    target: usize,
    tab: Tab,
    number: u64,
    columns: u16,
    filter: String,
    is_difference: bool,
    log: usize,
}

/// Where things were drawn, for clicks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawn {
    /// Columns of tabs, in their line.
    pub tabs: Vec<(std::ops::Range<u16>, Tab)>,
    /// Their line.
    pub tab_line: u16,
    /// The line of the first row that is seen.
    pub first_line: u16,
    /// Rows or lines that there is room for.
    pub room: usize,
}

/// All of it.
#[derive(Debug)]
pub struct Model {
    pub(crate) targets: Vec<Watched>,
    pub(crate) target: usize,
    pub(crate) tab: Tab,
    screen: Screen,
    pub(crate) is_merged: bool,
    pub(crate) is_difference: bool,
    pub(crate) filter: String,
    /// A filter that is being typed.
    pub(crate) typed: Option<String>,
    frozen: Option<HashMap<Key, usize>>,
    /// The row that is chosen.
    chosen: Option<Key>,
    /// Rows, or lines of text, that are above what is seen.
    pub(crate) above: usize,
    listed: Vec<usize>,
    pub(crate) message: Option<String>,
    sources: Sources,
    text: Option<(TextOf, Arc<Vec<Line>>)>,
    pub(crate) processes: Option<Processes>,
    pub(crate) drawn: Drawn,
}

impl Model {
    /// Of these processes.
    pub fn new(subjects: Vec<Subject>) -> Self {
        Self {
            targets: subjects.into_iter().map(Watched::new).collect(),
            target: 0,
            tab: Tab::Live,
            screen: Screen::Tab,
            is_merged: true,
            is_difference: false,
            filter: String::new(),
            typed: None,
            frozen: None,
            chosen: None,
            above: 0,
            listed: Vec::new(),
            message: None,
            sources: Sources::default(),
            text: None,
            processes: None,
            drawn: Drawn::default(),
        }
    }

    /// Of none yet: one is chosen from a list.
    pub fn choosing() -> Self {
        let mut model = Self::new(Vec::new());
        (model.processes, model.screen) = (Some(Processes::default()), Screen::Processes);
        model
    }

    /// Takes what is known of a process now.
    pub fn take(&mut self, target: usize, snapshot: Snapshot) {
        let is_merged = self.is_merged;
        if let Some(watched) = self.targets.get_mut(target) {
            watched.take(snapshot, is_merged);
            watched.state = State::Live;
        }
        if target == self.target {
            self.list();
        }
    }

    /// How it is with the source of a process from now on.
    pub fn tell(&mut self, target: usize, state: State) {
        if let Some(watched) = self.targets.get_mut(target) {
            if watched.state == state {
                return;
            }
            if let State::Over(why) | State::Away(why) = &state {
                watched.log(why.clone());
            }
            watched.state = state;
            self.message = None;
        }
    }

    /// A line of what the session of a process says.
    pub fn log(&mut self, target: usize, line: String) {
        if let Some(watched) = self.targets.get_mut(target) {
            watched.log(line);
        }
    }

    /// One more process is looked at from now on; answers its number.
    pub fn add(&mut self, subject: Subject) -> usize {
        self.targets.push(Watched::new(subject));
        self.target = self.targets.len() - 1;
        self.screen = Screen::Tab;
        // It was of processes.
        self.filter.clear();
        self.list();
        self.target
    }

    /// What is shown in the beginning.
    pub fn show_first(&mut self, tab: Tab, is_merged: bool) {
        (self.tab, self.is_merged, self.target) = (tab, is_merged, 0);
    }

    /// Shows another process.
    pub fn turn_to(&mut self, target: usize) {
        if target < self.targets.len() {
            (self.target, self.above) = (target, 0);
            self.list();
        }
    }

    /// How many processes are looked at.
    pub fn count(&self) -> usize {
        self.targets.len()
    }

    /// Whether nothing more will be known of any.
    pub fn is_over(&self) -> bool {
        let mut all = self.targets.iter();
        self.processes.is_none() && all.all(|one| matches!(one.state, State::Over(_)))
    }

    /// Whether of each so much is known, or no more will be.
    pub fn is_known(&self, least_ms: u64) -> bool {
        let is_known = |one: &Watched| one.snapshot.is_some() && one.current.at_ms >= least_ms;
        self.targets.iter().all(|one| is_known(one) || matches!(one.state, State::Over(_)))
    }

    /// The session of this command that looks at a process.
    pub fn target_of(&self, pid: i32) -> Option<usize> {
        let is_it = |one: &Watched| one.subject.is_own && one.subject.pid == pid;
        self.targets.iter().position(is_it)
    }

    /// The number of a process.
    pub fn pid_of(&self, target: usize) -> Option<i32> {
        self.targets.get(target).map(|one| one.subject.pid)
    }

    /// What is known of a process.
    pub fn known(&self, target: usize) -> Option<(&Subject, &Ledger)> {
        let one = self.targets.get(target)?;
        Some((&one.subject, &one.snapshot.as_ref()?.ledger))
    }

    /// Something to be read, until the next key.
    pub fn say(&mut self, text: impl Into<String>) {
        self.message = Some(text.into());
    }

    /// The text of a file of source, or that there is none.
    pub fn take_source(&mut self, file: String, text: Option<&str>) {
        self.sources.take(file, text);
    }

    /// The processes to choose from, if one is to be chosen.
    pub fn processes(&mut self) -> Option<&mut Processes> {
        self.processes.as_mut()
    }

    /// Shows this tab.
    pub fn show(&mut self, tab: Tab) {
        (self.tab, self.screen, self.above) = (tab, Screen::Tab, 0);
        self.list();
    }

    /// The process that is shown.
    pub(crate) fn watched(&self) -> Option<&Watched> {
        self.targets.get(self.target)
    }

    /// Whether a list of processes is shown.
    pub(crate) fn is_choosing(&self) -> bool {
        self.screen == Screen::Processes
    }

    /// Whether rows of sites are shown, not text.
    pub(crate) fn shows_rows(&self) -> bool {
        self.screen == Screen::Tab && self.tab.has_rows() && !self.shows_difference()
    }

    /// Whether rows keep their places.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Rows by their numbers, as they are shown.
    pub(crate) fn listed(&self) -> &[usize] {
        &self.listed
    }

    /// Where in these the row is that is chosen.
    pub(crate) fn place(&self) -> usize {
        let (Some(watched), Some(chosen)) = (self.watched(), &self.chosen) else { return 0 };
        self.listed.iter().position(|at| watched.rows[*at].key == *chosen).unwrap_or(0)
    }

    fn shows_difference(&self) -> bool {
        self.is_difference && self.watched().is_some_and(|watched| watched.base.is_some())
    }

    /// Puts rows into their order.
    fn list(&mut self) {
        let filter = self.filter.to_lowercase();
        let listing = Listing { tab: self.tab, filter: &filter, frozen: self.frozen.as_ref() };
        self.listed = self.targets.get(self.target).map_or(Vec::new(), |w| w.listed(listing));
    }

    /// The text that is shown, where none of rows is.
    pub(crate) fn text(&mut self, columns: u16) -> Arc<Vec<Line>> {
        match self.screen {
            Screen::Help => return Arc::new(help::lines(columns)),
            Screen::Detail(number) => return Arc::new(self.detail(number)),
            Screen::Tab | Screen::Processes => {}
        }
        let Some(watched) = self.targets.get(self.target) else { return Arc::default() };
        let of = TextOf {
            target: self.target,
            tab: self.tab,
            number: watched.number,
            columns,
            filter: self.filter.clone(),
            is_difference: self.shows_difference(),
            log: watched.log.len(),
        };
        if let Some((known, text)) = &self.text
            && *known == of
        {
            return text.clone();
        }
        let text = Arc::new(text(watched, &of));
        self.text = Some((of, text.clone()));
        text
    }

    fn detail(&self, number: usize) -> Vec<Line> {
        let told = self.watched().and_then(|watched| {
            let at = *self.listed.get(self.place())?;
            let ledger = &watched.snapshot.as_ref()?.ledger;
            let row = &watched.rows[at];
            Some(detail::lines(ledger, (row, &watched.course(row)), number, &self.sources))
        });
        told.unwrap_or_default()
    }
}

/// The text of a tab.
fn text(watched: &Watched, of: &TextOf) -> Vec<Line> {
    let Some(snapshot) = &watched.snapshot else { return log(watched, of.columns) };
    let views = match of.tab {
        Tab::Log => return log(watched, of.columns),
        Tab::Types => return types(watched, of.columns),
        tab if tab.has_rows() => &[View::Sites],
        tab => tab.views(),
    };
    let part = |ledger: &Arc<Ledger>| -> Arc<Ledger> {
        if of.filter.is_empty() {
            return ledger.clone();
        }
        let functions = vec![format!("*{}*", of.filter)];
        let filter = Filter { functions, ..Filter::default() };
        Arc::new(filter.part_of(Ledger::clone(ledger)))
    };
    let now = part(&snapshot.ledger);
    let base = watched.base.as_ref().filter(|_| of.is_difference);
    let base = base.map(|(_, base)| part(base));
    let ask = Ask { limit: ROWS, ..Ask::default() };
    let mut lines = Vec::new();
    for view in views {
        let base = base.as_deref().filter(|_| view.can_compare());
        let subject = Looked { now: &now, base };
        let text = view.tell(&subject, &ask, Form::Text(inked::page(of.columns)));
        lines.extend(inked::without_title(inked::lines(&text)));
        lines.push(Vec::new());
    }
    lines
}

/// Recordings know sizes and stacks of blocks, not what is in them.
fn types(watched: &Watched, columns: u16) -> Vec<Line> {
    let pid = watched.subject.pid;
    let told = [
        ("", "A session knows sizes and call stacks of blocks, not what is in them: types are those of a moment.".to_owned()),
        ("", String::new()),
        ("    ", format!("heapattach heap -p {pid} --view types")),
        ("    ", format!("heapattach heap -p {pid} --view holders")),
        ("", String::new()),
        ("", "Each stops the process for some milliseconds, and tells how long before it does.".to_owned()),
    ];
    let lines = told.into_iter();
    lines.flat_map(|(before, text)| inked::broken(before.into(), &text.into(), columns)).collect()
}

/// What happened, and what is missing.
fn log(watched: &Watched, columns: u16) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut add = |ink: Ink, text: String| {
        lines.extend(inked::broken("".into(), &Span::new(ink, text), columns));
    };
    match &watched.state {
        State::Waiting => add(Ink::Plain, "nothing is known yet".to_owned()),
        State::Live => {}
        State::Away(why) | State::Over(why) => add(Ink::Warning, why.clone()),
    }
    if let Some(snapshot) = &watched.snapshot {
        let about = &snapshot.ledger.about;
        let shown = watched.current.live_blocks.value;
        blind_spots::lost_beside(&about.loss, Some(shown))
            .into_iter()
            .for_each(|t| add(Ink::Warning, t));
        if about.loss.is_none() {
            add(Ink::Plain, "no records dropped".to_owned());
        }
        for mark in &snapshot.marks {
            let at = std::time::Duration::from_millis(mark.at_ms);
            let at = heapattach_text::quantity::clock(at);
            add(Ink::Plain, format!("marked after {at}: {}", mark.why));
        }
        about.blind.iter().for_each(|text| add(Ink::Dim, text.clone()));
        let gaps = about.runtimes.iter().flat_map(heapattach_ledger::Runtime::gaps);
        gaps.for_each(|text| add(Ink::Dim, text));
    }
    watched.log.iter().for_each(|text| add(Ink::Plain, text.clone()));
    lines
}
