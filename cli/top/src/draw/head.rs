//! The head: which process, its figures now, and the tabs.

use heapattach_ledger::Ledger;
use heapattach_text::quantity;
use heapattach_verdict::current::Current;
use heapattach_view::{Ink, Span, columns, sparkline};
use ratatui_core::layout::Rect;

use super::pen::Pen;
use crate::{compact, model::Model, snapshot::State, tab::Tab, watched::Watched};

/// Columns of the course of what is in use.
const COURSE: usize = 20;
/// Columns of all tabs with their whole names.
const TABS: u16 = 78;

pub fn draw(model: &mut Model, area: Rect, pen: &mut Pen<'_>) {
    if let Some(watched) = model.watched() {
        pen.put(area, 0, 0, &title(watched));
        pen.put_right(area, 0, &[Span::new(Ink::Dim, place(model))]);
        pen.put(area, 0, 1, &figures(watched, usize::from(area.width)));
    }
    draw_tabs(model, area, pen);
}

/// `redis-server 4711   12:31   every 512 KiB   RSS 812 MiB   unseen 640 MiB ±13`
fn title(watched: &Watched) -> Vec<Span> {
    let subject = &watched.subject;
    let mut spans = vec![Span::new(Ink::Bold, format!("{} {}", subject.name, subject.pid))];
    let mut add = |text: String| spans.push(Span::from(format!("   {text}")));
    let Some(snapshot) = &watched.snapshot else {
        if let State::Away(why) | State::Over(why) = &watched.state {
            spans.push(Span::new(Ink::Warning, format!("   {why}")));
        } else {
            spans.push(Span::new(Ink::Dim, "   nothing is known yet"));
        }
        return spans;
    };
    let ledger: &Ledger = &snapshot.ledger;
    add(compact::elapsed(watched.current.at_ms));
    add(match ledger.about.every {
        0 | 1 => "every block".to_owned(),
        every => format!("every {}", quantity::bytes(every)).replace(".0 ", " "),
    });
    if let Some(resident) = watched.current.resident {
        #[allow(clippy::cast_precision_loss)]
        add(format!("RSS {}", compact::bytes(resident as f64)));
    }
    if let Some(unseen) = watched.current.unseen {
        add(format!("unseen {}", compact::with_interval(unseen.into())));
    }
    match &watched.state {
        State::Waiting | State::Live => {}
        State::Away(_) => spans.push(Span::new(Ink::Warning, "   no answer")),
        State::Over(_) => spans.push(Span::new(Ink::Warning, "   over")),
    }
    spans
}

/// `[1/3]`, where there are several.
fn place(model: &Model) -> String {
    match model.targets.len() {
        0 | 1 => String::new(),
        count => format!(" [{}/{count}]", model.target + 1),
    }
}

/// `live 172 MiB ±13  ▂▃▄▅▆█  +4.1 MiB/min ±0.9  allocating 81 MiB/s`
fn figures(watched: &Watched, room: usize) -> Vec<Span> {
    let Some(snapshot) = &watched.snapshot else { return Vec::new() };
    let Current { live, growth_per_minute, allocated_per_second, mapped, .. } = watched.current;
    let mut spans = vec![
        Span::new(Ink::Bold, "live "),
        compact::with_interval(live.into()).into(),
        "  ".into(),
    ];
    let course: Vec<f64> = snapshot.ledger.moments.iter().map(|moment| moment.live).collect();
    let mut rest = Vec::new();
    if let Some(growth) = growth_per_minute {
        let ink = match growth.bytes {
            bytes if bytes.low > 0.0 => Ink::More,
            bytes if bytes.high < 0.0 => Ink::Less,
            _ => Ink::Plain,
        };
        rest.push(Span::new(ink, compact::change(growth.bytes.into()).replacen("iB", "iB/min", 1)));
        rest.push("  ".into());
    }
    if let Some(rate) = allocated_per_second {
        let rate = compact::with_interval(rate.bytes.into()).replacen("iB", "iB/s", 1);
        rest.push(format!("allocating {rate}  ").into());
    }
    if mapped > 0 {
        #[allow(clippy::cast_precision_loss)]
        rest.push(format!("mapped {}", compact::bytes(mapped as f64)).into());
    }
    let width = |spans: &[Span]| spans.iter().map(|span| columns(&span.text)).sum::<usize>();
    let left = room.saturating_sub(width(&spans) + width(&rest) + 2);
    if left >= 4 {
        spans.push(Span::new(Ink::More, sparkline(&course, left.min(COURSE))));
        spans.push("  ".into());
    }
    spans.extend(rest);
    spans
}

fn draw_tabs(model: &mut Model, area: Rect, pen: &mut Pen<'_>) {
    let mut column = 0;
    model.drawn.tabs.clear();
    model.drawn.tab_line = area.y + 2;
    let is_narrow = area.width < TABS;
    for (number, tab) in (1..).zip(Tab::ALL) {
        let is_shown = tab == model.tab;
        let title = match is_narrow && !is_shown {
            true => &tab.title()[..tab.title().len().min(4)],
            false => tab.title(),
        };
        let text = format!("{number} {title}");
        let ink = if is_shown { Ink::Bold } else { Ink::Plain };
        let end = pen.put(area, column, 2, &[Span::new(ink, text)]);
        if is_shown {
            let width = end.saturating_sub(column);
            pen.invert(Rect { x: area.x + column, y: area.y + 2, width, height: 1 });
        }
        model.drawn.tabs.push((area.x + column..area.x + end, tab));
        column = end + 2;
    }
}
