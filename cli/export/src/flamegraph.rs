//! A picture: a flame graph without script, whose parts tell their numbers when pointed at.
//!
//! Callers are below whom they call, equals in the order of names, widths are bytes. What is
//! narrower than can be seen is left out; its bytes are counted in its caller.

use std::io::{self, BufWriter, Write};

use super::{
    harmless::xml,
    notes,
    tree::{Node, Tree},
};
use heapattach_ledger::{Ledger, Metric};
use heapattach_text::quantity;

/// Of the picture, in its own units.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const ROW: usize = 17;
/// The width of a letter, in the same units.
const LETTER: f64 = 7.3;
/// What is narrower cannot be seen.
const NARROW: f64 = 0.1;
/// Lines about what is missing.
const NOTES: usize = 10;
/// Stacks deeper than that are cut at the top: no viewer shows a picture that high.
const DEPTH: usize = 1000;

const STYLE: &str = "text{font:12px monospace;fill:#000}.t{font-size:17px}.n{fill:#555}\
    rect{stroke:#fff;stroke-width:.5}.b{fill:#fff;stroke:none}g:hover>rect{stroke:#000}\
    @media(prefers-color-scheme:dark){.b{fill:#1b1b1f}.t{fill:#eee}.n{fill:#aaa}\
    rect{stroke:#1b1b1f}g:hover>rect{stroke:#fff}}";

/// A call, and where it is drawn.
struct Place {
    node: Node<1>,
    depth: usize,
    /// Bytes to the left of it.
    before: u64,
}

/// Writes the picture of a metric.
pub fn write(ledger: &Ledger, metric: Metric, out: &mut dyn Write) -> io::Result<()> {
    let tree = Tree::new([ledger], metric, str::to_owned);
    let [total] = tree.root().all;
    let places = places(&tree, total);
    let deepest = places.iter().map(|place| place.depth).max().unwrap_or(0);
    let mut notes = notes::all(&ledger.about);
    let more = notes.len().saturating_sub(NOTES);
    notes.truncate(NOTES);
    notes.extend((more > 0).then(|| format!("... and {more} more")));
    let head = 2 + notes.len();
    let height = (head + deepest + 2) * ROW;
    let mut out = BufWriter::new(out);
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
         viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">\n\
         <style>{STYLE}</style>\n<rect class=\"b\" width=\"100%\" height=\"100%\"/>"
    )?;
    let title = format!("{} memory: {}", metric.name(), quantity::bytes(total));
    writeln!(out, "<text class=\"t\" x=\"{MARGIN}\" y=\"{}\">{}</text>", ROW + 4, xml(&title))?;
    for (index, note) in notes.iter().enumerate() {
        let y = (index + 2) * ROW + 4;
        let note = xml(&short(note, letters(WIDTH - 2.0 * MARGIN)));
        writeln!(out, "<text class=\"n\" x=\"{MARGIN}\" y=\"{y}\">{note}</text>")?;
    }
    for place in &places {
        let y = height - (place.depth + 2) * ROW;
        draw(&tree, place, total, y, &mut out)?;
    }
    writeln!(out, "</svg>")?;
    out.flush()
}

fn draw(
    tree: &Tree<1>,
    place: &Place,
    total: u64,
    y: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let [number] = place.node.all;
    let (x, width) = (MARGIN + wide(place.before, total), wide(number, total));
    let name = if place.depth == 0 { "all" } else { tree.name(&place.node) };
    let share = 100.0 * wide(number, total) / wide(total, total);
    let bytes = quantity::bytes(number);
    write!(
        out,
        "<g><title>{}\n{bytes} ({number} bytes), {share:.2} %</title>\
         <rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{ROW}\" fill=\"{}\"/>",
        xml(name),
        colour(name)
    )?;
    let room = letters(width);
    if room >= 3 {
        let shown = short(name, room);
        write!(out, "<text x=\"{:.1}\" y=\"{}\">{}</text>", x + 2.0, y + ROW - 4, xml(&shown))?;
    }
    writeln!(out, "</g>")
}

/// As much of a text as there is room for.
fn short(text: &str, room: usize) -> String {
    match text.char_indices().nth(room) {
        None => text.to_owned(),
        Some(_) => text.chars().take(room.saturating_sub(2)).chain("..".chars()).collect(),
    }
}

/// All that can be seen.
fn places(tree: &Tree<1>, total: u64) -> Vec<Place> {
    if total == 0 {
        return Vec::new();
    }
    let mut places = Vec::new();
    let mut left = vec![Place { node: tree.root(), depth: 0, before: 0 }];
    while let Some(place) = left.pop() {
        let mut before = place.before;
        for below in tree.below(&place.node) {
            let [bytes] = below.all;
            if wide(bytes, total) >= NARROW && place.depth + 1 < DEPTH {
                left.push(Place { node: below, depth: place.depth + 1, before });
            }
            before = before.saturating_add(bytes);
        }
        places.push(place);
    }
    places
}

#[allow(clippy::cast_precision_loss)]
fn wide(bytes: u64, total: u64) -> f64 {
    (WIDTH - 2.0 * MARGIN) * bytes as f64 / total as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn letters(width: f64) -> usize {
    ((width - 4.0).max(0.0) / LETTER) as usize
}

/// Warm, and the same for the same name.
fn colour(name: &str) -> String {
    // FNV-1a: evenly spread for names that differ by a letter.
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = name.bytes().fold(0x811c_9dc5, step);
    let (green, blue) = (120 + hash % 100, 40 + (hash >> 8) % 60);
    format!("#{:02x}{green:02x}{blue:02x}", 225 + (hash >> 16) % 30)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn picture(ledger: &Ledger) -> String {
        let mut picture = Vec::new();
        write(ledger, Metric::Live, &mut picture).unwrap();
        String::from_utf8(picture).unwrap()
    }

    #[test]
    fn each_call_tells_its_bytes_and_its_share() {
        let picture = picture(&sample::ledger());
        assert!(picture.contains("<title>main\n102.5 KiB (104960 bytes), 100.00 %</title>"));
        assert!(picture.contains("<title>grow_list\n62.5 KiB (64000 bytes), 60.98 %</title>"));
        assert!(picture.contains(">live memory: 102.5 KiB</text>"));
        assert_eq!(picture.matches("<g>").count(), picture.matches("</g>").count());
        assert_eq!(picture.matches("<g>").count(), 6, "{picture}");
    }

    #[test]
    fn no_name_becomes_markup() {
        let mut ledger = sample::ledger();
        ledger.functions[3].name = "</title><script>alert('1')</script>\0".to_owned();
        ledger.about.command = "<a href=\"x\">".to_owned();
        let picture = picture(&ledger);
        assert!(!picture.contains("<script") && !picture.contains("<a "), "{picture}");
        assert!(picture.contains("&lt;script&gt;alert(&#39;1&#39;)"));
        assert!(!picture.contains('\0'));
    }

    #[test]
    fn notes_leave_room_for_the_picture() {
        let mut ledger = sample::ledger();
        ledger.about.blind = vec!["x".repeat(1000); 50];
        let picture = picture(&ledger);
        assert!(picture.contains(">... and 43 more</text>"));
        assert!(picture.contains("x..</text>") && !picture.contains(&"x".repeat(200)));
    }

    #[test]
    fn what_cannot_be_seen_is_left_out() {
        let mut ledger = sample::ledger();
        ledger.rows[1].set(Metric::Live, &heapattach_profile::Sum::exact(1, 1));
        assert!(!picture(&ledger).contains("(1 bytes)"));
    }
}
