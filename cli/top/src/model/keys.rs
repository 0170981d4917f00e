//! What keys and the mouse do.

use std::sync::Arc;

use super::{Format, Model, Screen, Wish};
use crate::{
    detail,
    input::{Input, Key},
    tab::Tab,
};

/// Rows that one step of the wheel moves.
const WHEEL: isize = 3;
/// A filter is not longer.
const LONGEST: usize = 200;

impl Model {
    /// Does what the user wants; answers what is left to the command.
    pub fn input(&mut self, input: Input) -> Vec<Wish> {
        self.message = None;
        let wishes = match input {
            Input::Key(key) if self.typed.is_some() => self.type_key(key),
            Input::Key(key) => self.key(key),
            Input::Click { column, line } => self.click(column, line),
            Input::Wheel { is_down } => {
                self.move_by(if is_down { WHEEL } else { -WHEEL });
                Vec::new()
            }
        };
        self.keep_in_sight();
        wishes
    }

    fn key(&mut self, key: Key) -> Vec<Wish> {
        let page = isize::try_from(self.drawn.room.max(2) - 1).unwrap_or(isize::MAX);
        match key {
            Key::Interrupt | Key::Sign('q') => return vec![Wish::End],
            Key::Suspend => return vec![Wish::Suspend],
            Key::Up | Key::Sign('k') => self.move_by(-1),
            Key::Down | Key::Sign('j') => self.move_by(1),
            Key::PageUp => self.move_by(-page),
            Key::PageDown => self.move_by(page),
            Key::Home => self.move_by(isize::MIN),
            Key::End => self.move_by(isize::MAX),
            Key::Escape => self.close(),
            Key::Enter => return self.open(),
            Key::NextProcess => self.next_process(),
            Key::Left => self.beside(false),
            Key::Right => return self.right(),
            Key::Sign(sign) => return self.sign(sign),
            Key::Backspace => {}
        }
        Vec::new()
    }

    fn sign(&mut self, sign: char) -> Vec<Wish> {
        if sign == '?' {
            (self.screen, self.above) = (Screen::Help, 0);
            return Vec::new();
        }
        if self.is_choosing() {
            if sign == '/' {
                self.typed = Some(String::new());
            }
            return Vec::new();
        }
        let number = sign.to_digit(10).and_then(|digit| digit.checked_sub(1));
        if let Some(tab) = number.and_then(|number| Tab::ALL.get(number as usize)) {
            self.show(*tab);
            return Vec::new();
        }
        match sign {
            ' ' => self.freeze(),
            '/' => self.typed = Some(self.filter.clone()),
            't' | 'T' => self.merge(),
            'b' => self.base(),
            'd' => self.compare(),
            'm' => return self.of_own("marked in", Wish::Mark(self.target)),
            'D' => return self.of_own("ended from", Wish::Detach(self.target)),
            'w' => return self.write(Format::Pprof),
            'h' => return self.write(Format::Html),
            _ => {}
        }
        Vec::new()
    }

    fn type_key(&mut self, key: Key) -> Vec<Wish> {
        let Some(typed) = &mut self.typed else { return Vec::new() };
        match key {
            Key::Interrupt => return vec![Wish::End],
            Key::Suspend => return vec![Wish::Suspend],
            Key::Sign(sign) if typed.len() < LONGEST => typed.push(sign),
            Key::Backspace => drop(typed.pop()),
            Key::Escape => self.typed = None,
            Key::Enter => {
                self.filter = self.typed.take().unwrap_or_default();
                self.above = 0;
                if let Some(processes) = &mut self.processes {
                    processes.filter(&self.filter);
                }
                self.list();
            }
            _ => {}
        }
        Vec::new()
    }

    fn click(&mut self, column: u16, line: u16) -> Vec<Wish> {
        if line == self.drawn.tab_line && !self.is_choosing() {
            let tab = self.drawn.tabs.iter().find(|(columns, _)| columns.contains(&column));
            if let Some((_, tab)) = tab.cloned() {
                self.show(tab);
            }
            return Vec::new();
        }
        let Some(line) = line.checked_sub(self.drawn.first_line) else { return Vec::new() };
        let at = self.above + usize::from(line);
        if let Some(processes) =
            self.processes.as_mut().filter(|_| self.screen == Screen::Processes)
        {
            processes.choose(at);
            return Vec::new();
        }
        let key = self.listed.get(at).filter(|_| self.shows_rows());
        let key = key.and_then(|at| Some(self.watched()?.rows[*at].key.clone()));
        // The first click chooses, one on what is chosen opens.
        match key {
            Some(key) if self.chosen.as_ref() == Some(&key) => return self.open(),
            Some(key) => self.chosen = Some(key),
            None => {}
        }
        Vec::new()
    }

    fn move_by(&mut self, steps: isize) {
        let moved = |from: usize, count: usize| {
            from.saturating_add_signed(steps).min(count.saturating_sub(1))
        };
        if self.is_choosing() {
            if let Some(processes) = &mut self.processes {
                processes.choose(moved(processes.place(), processes.count()));
            }
        } else if self.shows_rows() {
            let place = moved(self.place(), self.listed.len());
            let key =
                self.listed.get(place).map(|at| self.targets[self.target].rows[*at].key.clone());
            self.chosen = key;
        } else {
            // Drawing cuts it to what there is.
            self.above = self.above.saturating_add_signed(steps);
        }
    }

    fn keep_in_sight(&mut self) {
        let place = match &self.processes {
            Some(processes) if self.is_choosing() => processes.place(),
            _ if self.shows_rows() => self.place(),
            _ => return,
        };
        let last = place.saturating_sub(self.drawn.room.saturating_sub(1));
        self.above = self.above.clamp(last, place);
    }

    fn close(&mut self) {
        match self.screen {
            Screen::Tab if !self.filter.is_empty() => {
                self.filter.clear();
                self.list();
            }
            Screen::Tab | Screen::Processes => {}
            Screen::Detail(_) | Screen::Help => {
                let back = if self.targets.is_empty() { Screen::Processes } else { Screen::Tab };
                (self.screen, self.above) = (back, 0);
            }
        }
    }

    fn open(&mut self) -> Vec<Wish> {
        if self.is_choosing() {
            let pid = self.processes.as_ref().and_then(|processes| processes.chosen());
            return pid.map(|pid| vec![Wish::Attach(pid)]).unwrap_or_default();
        }
        if !self.shows_rows() || self.listed.is_empty() {
            return Vec::new();
        }
        let at = self.listed[self.place()];
        self.chosen = self.watched().map(|watched| watched.rows[at].key.clone());
        (self.screen, self.above) = (Screen::Detail(0), 0);
        self.wanted_sources(0)
    }

    fn right(&mut self) -> Vec<Wish> {
        self.beside(true);
        match self.screen {
            Screen::Detail(number) => self.wanted_sources(number),
            Screen::Tab | Screen::Help | Screen::Processes => Vec::new(),
        }
    }

    fn beside(&mut self, is_next: bool) {
        match &mut self.screen {
            Screen::Detail(number) => {
                *number = number.saturating_add_signed(if is_next { 1 } else { -1 });
                let count = self.stacks().len();
                if let Screen::Detail(number) = &mut self.screen {
                    *number = (*number).min(count.saturating_sub(1));
                }
            }
            Screen::Tab => {
                let at = Tab::ALL.iter().position(|tab| *tab == self.tab).unwrap_or(0);
                let step = if is_next { 1 } else { Tab::ALL.len() - 1 };
                self.show(Tab::ALL[(at + step) % Tab::ALL.len()]);
            }
            Screen::Help | Screen::Processes => {}
        }
    }

    /// The stacks of the row that is chosen.
    fn stacks(&self) -> Vec<u32> {
        let stacks = self.watched().and_then(|watched| {
            let at = *self.listed.get(self.place())?;
            let ledger = &watched.snapshot.as_ref()?.ledger;
            Some(detail::stacks(ledger, &watched.rows[at]))
        });
        stacks.unwrap_or_default().into_iter().map(|(stack, _)| stack).collect()
    }

    /// Files of source that are not known yet.
    fn wanted_sources(&self, number: usize) -> Vec<Wish> {
        let stack = self.stacks().get(number).copied();
        let ledger = self.watched().and_then(|watched| watched.snapshot.as_ref());
        let (Some(stack), Some(snapshot)) = (stack, ledger) else { return Vec::new() };
        let files = detail::files(&snapshot.ledger, stack).filter(|file| !self.sources.knows(file));
        let mut files: Vec<String> = files.map(str::to_owned).collect();
        files.sort_unstable();
        files.dedup();
        files.into_iter().map(Wish::Read).collect()
    }

    fn freeze(&mut self) {
        self.frozen = match self.frozen {
            Some(_) => None,
            None => self.watched().map(|watched| {
                let keys = self.listed.iter().map(|at| watched.rows[*at].key.clone());
                keys.zip(0..).collect()
            }),
        };
        self.list();
    }

    fn merge(&mut self) {
        (self.is_merged, self.frozen, self.chosen) = (!self.is_merged, None, None);
        let is_merged = self.is_merged;
        self.targets.iter_mut().for_each(|watched| watched.list_anew(is_merged));
        self.list();
    }

    fn next_process(&mut self) {
        if !self.targets.is_empty() && !self.is_choosing() {
            self.target = (self.target + 1) % self.targets.len();
            (self.frozen, self.chosen, self.above) = (None, None, 0);
            self.list();
        }
    }

    fn base(&mut self) {
        let Some(watched) = self.targets.get_mut(self.target) else { return };
        let Some(snapshot) = &watched.snapshot else { return };
        let at = watched.current.at_ms;
        watched.base = Some((at, Arc::clone(&snapshot.ledger)));
        self.say("this moment is the baseline; d shows what became different since");
    }

    fn compare(&mut self) {
        let has_base = self.watched().is_some_and(|watched| watched.base.is_some());
        if has_base || self.is_difference {
            (self.is_difference, self.above) = (!self.is_difference, 0);
        } else {
            self.say("there is no baseline: b makes one");
        }
    }

    /// What can only be done to a session of this command.
    fn of_own(&mut self, what: &str, wish: Wish) -> Vec<Wish> {
        let Some(watched) = self.watched() else { return Vec::new() };
        let over = matches!(watched.state, crate::snapshot::State::Over(_));
        match (watched.subject.is_own, over) {
            (true, false) => return vec![wish],
            (true, true) => self.say("the session is over"),
            (false, _) => self.say(format!(
                "this is the session of another command, which is only looked at: it cannot be {what} here"
            )),
        }
        Vec::new()
    }

    fn write(&mut self, format: Format) -> Vec<Wish> {
        match self.watched().is_some_and(|watched| watched.snapshot.is_some()) {
            true => vec![Wish::Write(self.target, format)],
            false => Vec::new(),
        }
    }
}
