//! Lines of source with what each allocated, as `pprof -list` has them.
//!
//! This file reads nothing: who asks hands in the text of files. Where there is none, the lines are told
//! by their numbers, with the reason.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::{
    page::{Ink, Page, Span},
    sites::{write_more, write_total},
    table::{Cell, Column, Table},
};
use heapattach_ledger::{Memory, Metric};
use heapattach_profile::{Amount, Sum};
use heapattach_text::{glob::matches, short_name};
use heapattach_verdict::{
    figure::{Unit, percentage},
    place::{Place, Places},
    subject::{Ask, Subject, own_calls},
    weight::{Figures, Side, Weight},
};

/// Lines that are shown around one that allocated something.
const AROUND: u32 = 3;
/// Functions that are shown if none was named.
const UNASKED: usize = 3;
/// What an indentation is shown as.
const TAB: &str = "    ";

/// Functions with their lines.
#[derive(Clone, Debug, Serialize)]
pub struct Source {
    /// What is measured.
    pub metric: Metric,
    /// Of which memory; blocks, if that was not chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// In what the order is.
    pub unit: Unit,
    /// All of it.
    pub total: Figures,
    /// Those that were asked for, or those that allocated most themselves.
    pub functions: Vec<Listing>,
    /// Functions that were asked for and are not listed.
    pub more: usize,
}

/// One function.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    /// In words.
    pub words: String,
    /// As it is.
    #[serde(flatten)]
    pub place: Place,
    /// With everything it called.
    pub with_calls: Figures,
    /// What it caused itself.
    pub own: Figures,
    /// By number; with text, those around them are there, too.
    pub lines: Vec<Line>,
    /// What is to be known of the file: why it cannot be read, or that it is another one by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Line {
    /// Its number.
    pub line: u32,
    /// What it caused itself.
    pub own: Amount,
    /// With what it called.
    pub with_calls: Amount,
    /// What stands there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A file of source.
#[derive(Clone, Debug, Default)]
pub struct SourceText {
    /// What is in it.
    pub text: String,
    /// Whether it was changed after it was recorded what runs.
    pub is_newer: bool,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    own: Sum,
    all: Sum,
    lines: BTreeMap<u32, (Sum, Sum)>,
}

impl Source {
    /// Of the functions of this name, or of those that allocated most.
    pub fn new(subject: &Subject<'_>, ask: &Ask, of: Option<&str>) -> Self {
        let ledger = subject.now;
        let mut places = Places::default();
        let numbers = places.of(ledger);
        let is_meant = |function: &heapattach_ledger::Function| {
            of.is_none_or(|glob| {
                let short = short_name::short_name(&function.name);
                function.is_like(glob) || matches(glob, short_name::least(&short))
            })
        };
        let meant: Vec<bool> = ledger.functions.iter().map(is_meant).collect();
        let mut sums: HashMap<u32, Sums> = HashMap::new();
        for row in &ledger.rows {
            let sum = row.sum(ask.metric);
            // A function that calls itself is one function, and a line one line.
            let mut seen: BTreeMap<(u32, Option<u32>), bool> = BTreeMap::new();
            for (depth, (function, call)) in own_calls(ledger, row.stack).enumerate() {
                if meant[function as usize] {
                    let number = numbers[function as usize];
                    for line in [None, call.line] {
                        *seen.entry((number, line)).or_default() |= depth == 0;
                    }
                }
            }
            for ((number, line), is_own) in seen {
                let known = sums.entry(number).or_default();
                let (own, all) = match line {
                    None => (&mut known.own, &mut known.all),
                    Some(line) => {
                        let (own, all) = known.lines.entry(line).or_default();
                        (own, all)
                    }
                };
                all.merge(&sum);
                if is_own {
                    own.merge(&sum);
                }
            }
        }
        let rank = |sum: &Sum| ask.unit.of(&sum.measure()).value;
        let mut rows: Vec<_> =
            sums.into_iter().filter(|(_, sums)| sums.all.records() > 0).collect();
        rows.sort_by(|(a, one), (b, other)| {
            let by_own = rank(&other.own).total_cmp(&rank(&one.own));
            let by_both = by_own.then(rank(&other.all).total_cmp(&rank(&one.all)));
            by_both.then_with(|| places.get(*a).cmp(places.get(*b)))
        });
        let limit = if of.is_some() { ask.limit } else { UNASKED.min(ask.limit) };
        let more = if of.is_some() { rows.len().saturating_sub(limit) } else { 0 };
        rows.truncate(limit);
        let total = subject.total(ask.metric);
        let told = |sum: Sum| {
            let mut weight = Weight::default();
            weight.add(Side::Now, &sum);
            weight.figures(&total, ask.unit, false)
        };
        let functions = rows.into_iter().map(|(number, sums)| {
            let place = places.get(number).clone();
            let line = |(line, (own, all)): (u32, (Sum, Sum))| Line {
                line,
                own: own.measure().into(),
                with_calls: all.measure().into(),
                text: None,
            };
            Listing {
                words: place.words(),
                place,
                with_calls: told(sums.all),
                own: told(sums.own),
                lines: sums.lines.into_iter().map(line).collect(),
                note: None,
            }
        });
        let functions = functions.collect();
        Self {
            metric: ask.metric,
            memory: ask.memory,
            unit: ask.unit,
            total: total.figures(&total, ask.unit, false),
            functions,
            more,
        }
    }

    /// Adds what stands in the lines, and around them.
    pub fn read(&mut self, mut read: impl FnMut(&str) -> Result<SourceText, String>) {
        for listing in &mut self.functions {
            if listing.place.file.is_empty() {
                let module = &listing.place.module;
                listing.note = Some(format!("{module} has no debug information of lines"));
                continue;
            }
            match read(&listing.place.file) {
                Ok(text) => listing.add(&text),
                Err(why) => listing.note = Some(why),
            }
        }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        write_total(page, (self.metric, self.memory), &self.total, self.unit);
        if self.functions.is_empty() {
            page.gap();
            return page.line(["no such function allocated anything".into()]);
        }
        for listing in &self.functions {
            page.gap();
            listing.write(self.unit, page);
        }
        write_more(page, self.more, "functions");
    }
}

impl Listing {
    fn add(&mut self, source: &SourceText) {
        let texts: Vec<&str> = source.text.lines().collect();
        let count = u32::try_from(texts.len()).unwrap_or(u32::MAX);
        if source.is_newer {
            self.note = Some(format!("{} was changed after the recording", self.place.file));
        }
        if self.lines.iter().any(|line| line.line > count) {
            let file = &self.place.file;
            self.note = Some(format!("{file} has {count} lines only: it is another version"));
        }
        let mut all: BTreeMap<u32, Line> = BTreeMap::new();
        for line in std::mem::take(&mut self.lines) {
            let around = line.line.saturating_sub(AROUND).max(1)..=line.line.saturating_add(AROUND);
            for number in around.filter(|number| *number <= count) {
                all.entry(number).or_insert(Line { line: number, ..Line::default() });
            }
            all.insert(line.line, line);
        }
        for (number, line) in &mut all {
            let text = number.checked_sub(1).and_then(|at| texts.get(at as usize));
            line.text = text.map(|text| text.trim_end().replace('\t', TAB));
        }
        self.lines = all.into_values().collect();
    }

    fn write(&self, unit: Unit, page: &mut Page) {
        page.line([Span::new(Ink::Bold, &self.words)]);
        let part = |figures: &Figures| {
            let figure = unit.show(unit.of_amount(&figures.amount));
            format!("{figure}, {}", percentage(figures.share.into()).value)
        };
        page.prose("FLAT", Ink::Plain, &part(&self.own));
        page.prose("CUM", Ink::Plain, &part(&self.with_calls));
        if !self.place.file.is_empty() {
            page.prose("FILE", Ink::Plain, &self.place.file);
        }
        if let Some(note) = &self.note {
            page.prose("NOTE", Ink::Warning, note);
        }
        let columns = [
            Column::right("flat"),
            Column::right("cum"),
            Column::right("line"),
            Column::code("source"),
        ];
        let mut table = Table::new(columns);
        let mut next = None;
        for line in &self.lines {
            if next.is_some_and(|next| next < line.line) && line.text.is_some() {
                table.row(["", "", "...", ""]);
            }
            next = line.line.checked_add(1);
            table.row(line.cells(unit));
        }
        table.write(page);
    }
}

impl Line {
    fn cells(&self, unit: Unit) -> [Cell; 4] {
        let has_any = unit.of_amount(&self.with_calls).value > 0.0;
        let ink = if has_any { Ink::Bold } else { Ink::Dim };
        let figure = |amount: &Amount| match unit.of_amount(amount) {
            estimate if estimate.value > 0.0 => Cell::figure(Ink::Bold, unit.show(estimate)),
            _ => Span::new(Ink::Dim, ".").into(),
        };
        let text = self.text.clone().unwrap_or_default();
        [
            figure(&self.own),
            figure(&self.with_calls),
            Span::new(Ink::Dim, self.line.to_string()).into(),
            Span::new(ink, text).into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn told(of: Option<&str>, read: impl FnMut(&str) -> Result<SourceText, String>) -> String {
        let ledger = sample::ledger();
        let mut source = Source::new(&Subject::of(&ledger), &Ask::default(), of);
        source.read(read);
        let mut page = Page::new(Some(60), false);
        source.write(&mut page);
        page.finish()
    }

    fn file(name: &str) -> Result<SourceText, String> {
        assert_eq!(name, "list.c");
        let lines: Vec<String> = (1..=60).map(|line| format!("\tcode {line};")).collect();
        Ok(SourceText { text: lines.join("\n"), is_newer: false })
    }

    #[test]
    fn lines_stand_beside_their_bytes() {
        let expected = "\
ALL       in use: 102.5 KiB in 1 010 blocks

grow_list (list.c)
FLAT      0 B, 0 %
CUM       62.5 KiB, 61 %
FILE      list.c
flat       cum  line  source
   .         .    37      code 37;
   .         .    38      code 38;
   .         .    39      code 39;
   .  62.5 KiB    40      code 40;
   .         .    41      code 41;
   .         .    42      code 42;
   .         .    43      code 43;
";
        assert_eq!(told(Some("grow_*"), file), expected);
    }

    #[test]
    fn without_the_file_lines_have_their_numbers_and_the_reason() {
        let text = told(Some("make_node"), |name| Err(format!("{name} cannot be read: gone")));
        assert!(text.contains("NOTE      list.c cannot be read: gone\n"), "{text}");
        assert!(text.ends_with("62.5 KiB  62.5 KiB    12\n"), "{text}");
        let text = told(Some("nothing"), file);
        assert!(text.ends_with("\nno such function allocated anything\n"), "{text}");
    }

    #[test]
    fn a_file_that_cannot_be_the_one_is_told() {
        let short = |_: &str| Ok(SourceText { text: "one\n".to_owned(), is_newer: true });
        let text = told(Some("make_node"), short);
        assert!(
            text.contains("NOTE      list.c has 1 lines only: it is another version"),
            "{text}"
        );
    }

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        let mut ledger = sample::ledger();
        ledger.stacks.edit(0, |stack| stack.locations.push(2));
        let source = Source::new(&Subject::of(&ledger), &Ask::default(), Some("main"));
        assert_eq!(source.functions[0].with_calls.amount.bytes, source.total.amount.bytes);
    }

    #[test]
    fn without_a_name_the_largest_are_listed() {
        let text = told(None, |_| Err("none".to_owned()));
        let at = |name: &str| text.find(name).unwrap();
        assert!(at("make_node (list.c)") < at("main (main.c)"), "{text}");
    }
}
