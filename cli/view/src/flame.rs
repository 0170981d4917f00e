//! A flame graph in text: each call as wide as its part of all, below the call that led to it.

use serde::Serialize;

use super::{
    page::{Ink, Page, Span, columns, shortened},
    sites::write_total,
    tree::{NodeRow, Tree},
};
use heapattach_ledger::{Memory, Metric};
use heapattach_text::short_name;
use heapattach_verdict::{
    figure::Unit,
    place::Place,
    subject::{Ask, Subject},
    weight::Figures,
};

/// Calls that are told; what has a smaller part could not be drawn on any terminal.
const FRAMES: usize = 4096;
/// Columns, where the page has no width.
const USUAL: usize = 100;
/// Lines; deeper calls are counted.
const LINES: usize = 200;
/// Where a call begins, and what fills it behind its name.
const EDGE: &str = "▏";
const FILL: char = '─';

/// The graph.
#[derive(Clone, Debug, Serialize)]
pub struct Flame {
    /// What is measured.
    pub metric: Metric,
    /// Of which memory; blocks, if that was not chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// In which unit parts are.
    pub unit: Unit,
    /// `top-down` or `bottom-up`.
    pub order: &'static str,
    /// All of it.
    pub total: Figures,
    /// Each after what it is below; among those below one, the widest first.
    pub frames: Vec<FrameRow>,
    /// Calls that are not listed.
    pub more: usize,
}

/// One call.
#[derive(Clone, Debug, Serialize)]
pub struct FrameRow {
    /// In words.
    pub words: String,
    /// As it is.
    #[serde(flatten)]
    pub place: Place,
    /// How much, with everything below.
    #[serde(flatten)]
    pub figures: Figures,
    /// How many calls it is below.
    pub depth: usize,
    /// Where it begins, as a part of all.
    pub start: f64,
}

impl Flame {
    /// Of a subject.
    pub fn new(subject: &Subject<'_>, ask: &Ask) -> Self {
        let tree = Tree::new(subject, &Ask { limit: FRAMES, ..*ask });
        // Where the next call begins, by how many calls are above it.
        let mut next = vec![0.0];
        let frame = |node: NodeRow| {
            let NodeRow { words, place, figures, depth, .. } = node;
            next.truncate(depth + 1);
            let start = next.last().copied().unwrap_or_default();
            if let Some(next) = next.last_mut() {
                *next += figures.share.value;
            }
            next.push(start);
            FrameRow { words, place, figures, depth, start }
        };
        Self {
            metric: tree.metric,
            memory: tree.memory,
            unit: tree.unit,
            order: tree.order,
            total: tree.total,
            more: tree.more,
            frames: tree.nodes.into_iter().map(frame).collect(),
        }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        write_total(page, (self.metric, self.memory), &self.total, self.unit);
        page.gap();
        let room = page.width().unwrap_or(USUAL);
        let mut lines: Vec<Vec<(usize, usize, &FrameRow)>> = Vec::new();
        let mut left_out = self.more;
        for frame in &self.frames {
            let [from, to] = [frame.start, frame.start + frame.figures.share.value];
            let [from, to] = [from, to].map(|part| column(part, room));
            if from == to || frame.depth >= LINES {
                left_out += 1;
                continue;
            }
            if lines.len() <= frame.depth {
                lines.resize(frame.depth + 1, Vec::new());
            }
            lines[frame.depth].push((from, to, frame));
        }
        if lines.is_empty() {
            return page.line(["none".into()]);
        }
        for line in lines {
            let (mut spans, mut at) = (Vec::new(), 0);
            for (from, to, frame) in line {
                spans.push(Span::from(" ".repeat(from - at)));
                spans.extend(drawn(frame, to - from));
                at = to;
            }
            page.line(spans);
        }
        if left_out > 0 {
            page.gap();
            page.line([Span::new(
                Ink::Dim,
                format!(
                    "{left_out} calls are too narrow, or too deep, to be drawn (--json has them)"
                ),
            )]);
        }
    }
}

/// A call of so many columns.
fn drawn(frame: &FrameRow, room: usize) -> [Span; 3] {
    let room = room - 1;
    let name = frame.place.name();
    let name = short_name::fit(name, room).unwrap_or_else(|| {
        // Three letters of a name say nothing.
        if room > 3 { shortened(short_name::least(name), room) } else { String::new() }
    });
    let fill = match room - columns(&name).min(room) {
        0 => String::new(),
        1 => " ".to_owned(),
        fill => format!(" {}", FILL.to_string().repeat(fill - 1)),
    };
    [Span::new(Ink::More, EDGE), Span::new(Ink::Bold, name), Span::new(Ink::Dim, fill)]
}

/// The column where a part ends; what is no part, is none.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn column(part: f64, room: usize) -> usize {
    // The cast stays within its bounds by itself, and makes 0 of what is not a number.
    ((part.clamp(0.0, 1.0) * room as f64).round() as usize).min(room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;
    use heapattach_verdict::subject::Order;

    fn text(ask: &Ask, room: usize) -> String {
        let ledger = sample::ledger();
        let mut page = Page::new(Some(room), false);
        Flame::new(&Subject::of(&ledger), ask).write(&mut page);
        page.finish()
    }

    #[test]
    fn calls_are_as_wide_as_their_part_below_those_that_led_to_them() {
        let expected = "\
ALL       in use: 102.5 KiB in 1 010 blocks

▏main ───────────────────────────────────────────
▏grow_list ───────────────────
▏make_node ───────────────────
";
        assert_eq!(text(&Ask::default(), 49), expected);
    }

    #[test]
    fn a_call_begins_where_the_one_beside_it_ends() {
        let ask = Ask { metric: Metric::Allocated, order: Order::BottomUp, ..Ask::default() };
        let ledger = sample::ledger();
        let flame = Flame::new(&Subject::of(&ledger), &ask);
        let starts: Vec<f64> =
            flame.frames.iter().filter(|f| f.depth == 0).map(|frame| frame.start).collect();
        let shares: Vec<f64> = flame
            .frames
            .iter()
            .filter(|frame| frame.depth == 0)
            .map(|frame| frame.figures.share.value)
            .collect();
        assert_eq!(starts, [0.0, shares[0], shares[0] + shares[1]]);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let told = text(&ask, 60);
        assert!(told.contains("▏work<int>(std::string const&) ─"), "{told}");
    }

    #[test]
    fn what_is_too_narrow_is_counted() {
        let ask = Ask { metric: Metric::Allocated, order: Order::BottomUp, ..Ask::default() };
        let told = text(&ask, 40);
        assert!(told.lines().all(|line| columns(line) <= 40), "{told}");
        assert!(!told.contains("make"), "three columns: {told}");
    }
}
