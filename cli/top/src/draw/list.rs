//! Processes to choose from.

use heapattach_view::{Ink, Span, columns};
use ratatui_core::layout::Rect;

use super::pen::Pen;
use crate::{compact, model::Model};

/// Columns of a number of a process, and of figures.
const PID: usize = 9;
const FIGURE: usize = 10;
const CHANGE: usize = 13;

pub fn draw(model: &mut Model, head: Rect, body: Rect, pen: &mut Pen<'_>) {
    let Some(processes) = &model.processes else { return };
    let title = Span::new(Ink::Bold, "Processes by the growth of their anonymous memory");
    pen.put(head, 0, 0, &[title]);
    let about = "nothing is done to a process before it is chosen";
    pen.put(head, 0, 1, &[Span::new(Ink::Dim, about)]);
    let titles =
        [("PID", PID), ("GROWTH/min", CHANGE), ("ANONYMOUS", FIGURE), ("RESIDENT", FIGURE)];
    let mut line: Vec<Span> = titles
        .iter()
        .map(|(text, width)| Span::new(Ink::Dim, format!("{text:>width$} ")))
        .collect();
    line.push(Span::new(Ink::Dim, " COMMAND"));
    pen.put(head, 0, 2, &line);
    let room = usize::from(body.height);
    model.above = model.above.min(processes.count().saturating_sub(room));
    (model.drawn.first_line, model.drawn.room) = (body.y, room);
    let seen = processes.shown().enumerate().skip(model.above).take(room);
    for (line, (number, (one, growth))) in (0..).zip(seen) {
        let right = |text: String, width: usize| {
            format!("{}{text} ", " ".repeat(width.saturating_sub(columns(&text))))
        };
        #[allow(clippy::cast_precision_loss)]
        let size = |bytes: u64| right(compact::bytes(bytes as f64), FIGURE).into();
        let (ink, growth) = match growth {
            None => (Ink::Dim, "-".to_owned()),
            Some(growth) => {
                let ink = if growth > 0.0 { Ink::More } else { Ink::Plain };
                let exact =
                    heapattach_profile::Estimate { value: growth, low: growth, high: growth };
                (ink, compact::change(exact))
            }
        };
        let cells: [Span; 5] = [
            right(one.pid.to_string(), PID).into(),
            Span::new(ink, right(growth, CHANGE)),
            size(one.anonymous),
            size(one.resident),
            format!(" {}", one.command).into(),
        ];
        pen.put(body, 0, line, &cells);
        if number == processes.place() {
            pen.invert(Rect { y: body.y + line, height: 1, ..body });
        }
    }
}
