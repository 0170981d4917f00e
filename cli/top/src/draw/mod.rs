//! Draws what is shown into a buffer of cells.

mod foot;
mod head;
mod list;
mod pen;
mod table;
#[cfg(test)]
mod tests;
mod text;

use ratatui_core::{buffer::Buffer, layout::Rect};

use crate::model::Model;
use pen::Pen;

/// In less room nothing can be read.
const LEAST: (u16, u16) = (30, 6);
/// Lines of the head, and of the foot.
const HEAD: u16 = 3;
const FOOT: u16 = 2;

/// Draws all of it; without colours only letters are bold, dim or inverted.
pub fn draw(model: &mut Model, area: Rect, buffer: &mut Buffer, is_coloured: bool) {
    let mut pen = Pen { buffer, is_coloured };
    let area = area.intersection(*pen.buffer.area());
    if area.width < LEAST.0 || area.height < LEAST.1 {
        if area.height > 0 {
            pen.put(area, 0, 0, &["too small".into()]);
        }
        return;
    }
    let body = Rect { y: area.y + HEAD, height: area.height - HEAD - FOOT, ..area };
    let foot = Rect { y: body.bottom(), height: FOOT, ..area };
    let head = Rect { height: HEAD, ..area };
    if model.is_choosing() {
        list::draw(model, head, body, &mut pen);
    } else {
        head::draw(model, head, &mut pen);
        match model.shows_rows() {
            true => table::draw(model, body, &mut pen),
            false => text::draw(model, body, &mut pen),
        }
    }
    foot::draw(model, foot, &mut pen);
}
