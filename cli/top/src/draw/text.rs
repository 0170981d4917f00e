//! Text: a view, a row in detail, the keys.

use ratatui_core::layout::Rect;

use super::pen::Pen;
use crate::model::Model;

pub fn draw(model: &mut Model, area: Rect, pen: &mut Pen<'_>) {
    let text = model.text(area.width);
    let room = usize::from(area.height);
    (model.drawn.first_line, model.drawn.room) = (area.y, room);
    model.above = model.above.min(text.len().saturating_sub(room));
    for (line, spans) in (0..area.height).zip(text.iter().skip(model.above)) {
        pen.put(area, 0, line, spans);
    }
}
