//! The foot: what is to be known of the numbers, a message or what is typed, and the keys.

use heapattach_view::{Ink, Span, columns};
use ratatui_core::layout::Rect;

use super::pen::Pen;
use crate::{compact, model::Model, snapshot::State};

pub fn draw(model: &Model, area: Rect, pen: &mut Pen<'_>) {
    if let Some(typed) = &model.typed {
        pen.put(area, 0, 0, &[Span::new(Ink::Bold, "/"), typed.as_str().into()]);
        let x = area.x + u16::try_from(columns(typed) + 1).unwrap_or(u16::MAX).min(area.width - 1);
        pen.invert(Rect { x, y: area.y, width: 1, height: 1 });
    } else if let Some(message) = &model.message {
        pen.put(area, 0, 0, &[Span::new(Ink::Warning, message.as_str())]);
    } else {
        pen.put(area, 0, 0, &state(model));
    }
    let keys = match model.is_choosing() {
        true => "up, down choose  enter attach  / filter  ? keys  q quit",
        false => {
            "space freeze  b baseline  d diff  m mark  enter stack  w pprof  h page  D detach  ? keys  q quit"
        }
    };
    // Whole words, as many as there is room for; the last two always.
    let (keys, end) = keys.split_at(keys.find("? keys").unwrap_or(0));
    let room = usize::from(area.width).saturating_sub(columns(end));
    let mut shown = String::new();
    for word in keys.split("  ").filter(|word| !word.is_empty()) {
        if columns(&shown) + columns(word) + 2 > room {
            break;
        }
        shown += word;
        shown += "  ";
    }
    pen.put(area, 0, 1, &[Span::new(Ink::Dim, shown + end)]);
}

/// How much of the numbers is to be believed, and how it is with the session.
fn state(model: &Model) -> Vec<Span> {
    let Some(watched) = model.watched() else { return Vec::new() };
    let mut spans = vec![Span::new(Ink::Warning, notes(model))];
    match &watched.state {
        State::Waiting | State::Live => {}
        State::Away(why) | State::Over(why) => {
            spans.push(Span::new(Ink::Warning, format!("{why}   ")));
        }
    }
    if watched.snapshot.is_none() {
        return spans;
    }
    match watched.current.dropped {
        0 => spans.push(Span::new(Ink::Dim, "no records dropped   ")),
        dropped => {
            spans.push(Span::new(Ink::Warning, format!("{dropped} records dropped (9 Log)   ")))
        }
    }
    if watched.snapshot.as_ref().is_some_and(|snapshot| snapshot.ledger.about.every > 1) {
        spans.push(Span::new(Ink::Dim, "± or from-to: 95 % CI   "));
    }
    if let Some(since) = watched.since_ms.filter(|_| model.shows_rows()) {
        let seconds = watched.current.at_ms.saturating_sub(since) / 1000;
        spans.push(Span::new(Ink::Dim, format!("growth: of {seconds} s   ")));
    }
    let rows = model.listed().len();
    if model.shows_rows() && rows > model.drawn.room {
        spans.push(Span::new(Ink::Dim, format!("{} of {rows}", model.place() + 1)));
    }
    spans
}

/// What was chosen besides the tab.
fn notes(model: &Model) -> String {
    let mut notes = Vec::new();
    if model.is_frozen() {
        notes.push("frozen".to_owned());
    }
    if !model.is_merged {
        notes.push("by thread".to_owned());
    }
    if model.is_difference
        && let Some((at_ms, _)) = model.watched().and_then(|watched| watched.base.as_ref())
    {
        notes.push(format!("since {}", compact::elapsed(*at_ms)));
    }
    if !model.filter.is_empty() {
        notes.push(format!("/{}", model.filter));
    }
    notes.iter().map(|note| format!("{note}   ")).collect()
}
