//! A picture of who called whom, as pprof and callgrind's viewers draw it: a box for each function, as
//! large as what it allocated itself, and an edge for each call, as wide as what came that way.
//!
//! Without script and without another program: it is laid out here (`layout`). What is below half a
//! percent is left out, and that is said. Names are short, whole ones appear when pointed at.

mod graph;
mod layout;

use std::io::{self, BufWriter, Write};

use super::{harmless::xml, notes};
use graph::{Edge, Graph, Node};
use heapattach_ledger::{Ledger, Metric};
use heapattach_text::{quantity, short_name::fit};
use layout::Layout;

/// Around the picture, and the height of a line of text above it.
const MARGIN: f64 = 24.0;
const LINE: f64 = 17.0;
/// Lines about what is missing.
const NOTES: usize = 10;
/// No picture is narrower: its notes could not be read.
const NARROWEST: f64 = 640.0;
/// Letters of a name.
const LETTERS: usize = 36;
/// Sizes of letters, of functions without anything of their own and of one that has all of it.
const SMALL: f64 = 11.0;
const LARGE: f64 = 20.0;
/// How wide a letter is, and how high a line, in units of its size.
const WIDE: f64 = 0.61;
const HIGH: f64 = 1.3;

const STYLE: &str = "text{font-family:monospace;fill:#111}.t{font-size:17px}.n{font-size:12px;fill:#555}\
    .b{fill:#fff}.f rect{stroke:#8a5a44;stroke-width:1}.e path{fill:none;stroke:#9a8478}\
    .e text{font-size:11px;fill:#555}.i path{stroke-dasharray:6 4}#a path{fill:#9a8478}\
    .f:hover rect{stroke:#000;stroke-width:2}.e:hover path{stroke:#c0392b}\
    @media(prefers-color-scheme:dark){.b{fill:#1b1b1f}.t{fill:#eee}.n,.e text{fill:#aaa}\
    .f:hover rect{stroke:#fff}.e path{stroke:#8d7a70}#a path{fill:#8d7a70}}";

/// A function's text, and how large it is drawn.
struct Label {
    lines: Vec<String>,
    letter: f64,
    size: (f64, f64),
}

/// Writes the picture of a metric.
pub fn write(ledger: &Ledger, metric: Metric, out: &mut dyn Write) -> io::Result<()> {
    let graph = Graph::new(ledger, metric);
    let labels: Vec<Label> = graph.nodes.iter().map(|n| Label::new(n, graph.total)).collect();
    let sizes: Vec<(f64, f64)> = labels.iter().map(|label| label.size).collect();
    let ends: Vec<(usize, usize)> = graph.edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let drawn = layout::layout(&sizes, &ends);
    let notes = notes_on(ledger, &graph);
    let head = MARGIN + LINE * (notes.len() as f64 + 2.0);
    let width = (drawn.width + 2.0 * MARGIN + LINE).max(NARROWEST);
    let height = head + drawn.height + MARGIN;
    let mut out = BufWriter::new(out);
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\">\n\
         <style>{STYLE}</style>\n<defs><marker id=\"a\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" \
         markerWidth=\"9\" markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">\
         <path d=\"M0 0L10 5L0 10z\"/></marker></defs>\n\
         <rect class=\"b\" width=\"100%\" height=\"100%\"/>"
    )?;
    let title = format!("{} memory: {}", metric.name(), quantity::bytes(graph.total));
    writeln!(out, "<text class=\"t\" x=\"{MARGIN}\" y=\"{MARGIN}\">{}</text>", xml(&title))?;
    for (number, note) in notes.iter().enumerate() {
        let y = MARGIN + LINE * (number as f64 + 1.2);
        let note = shortened(note, letters(width));
        writeln!(out, "<text class=\"n\" x=\"{MARGIN}\" y=\"{y:.0}\">{}</text>", xml(&note))?;
    }
    let left = MARGIN.max((width - drawn.width) / 2.0);
    writeln!(out, "<g transform=\"translate({left:.0} {head:.0})\">")?;
    for (edge, route) in graph.edges.iter().zip(&drawn.routes) {
        write_edge(&graph, edge, route, &drawn, &sizes, &mut out)?;
    }
    for ((node, label), place) in graph.nodes.iter().zip(&labels).zip(&drawn.boxes) {
        write_box(node, label, *place, graph.total, &mut out)?;
    }
    writeln!(out, "</g>\n</svg>")?;
    out.flush()
}

impl Label {
    fn new(node: &Node, total: u64) -> Self {
        let share = |bytes| format!("{} ({})", quantity::bytes(bytes), percent(bytes, total));
        let short = node.short();
        let name = fit(&short, LETTERS).unwrap_or_else(|| shortened(&short, LETTERS));
        let mut lines = vec![name, shortened(&node.place, LETTERS)];
        lines.retain(|line| !line.is_empty());
        match (node.own, node.own == node.all) {
            (own, true) => lines.push(share(own)),
            (0, false) => lines.push(format!("cum {}", share(node.all))),
            (own, false) => {
                lines.push(share(own));
                lines.push(format!("cum {}", share(node.all)));
            }
        }
        let letter = SMALL + (LARGE - SMALL) * part(node.own, total).sqrt();
        let most = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let size =
            (letter * (WIDE * most as f64 + 1.2), letter * (HIGH * lines.len() as f64 + 0.8));
        Self { lines, letter, size }
    }
}

/// What a reader must know beside the picture.
fn notes_on(ledger: &Ledger, graph: &Graph) -> Vec<String> {
    let mut notes = notes::all(&ledger.about);
    let more = notes.len().saturating_sub(NOTES);
    notes.truncate(NOTES);
    notes.extend((more > 0).then(|| format!("... and {more} more")));
    let (nodes, edges) = (graph.nodes_left_out, graph.edges_left_out);
    if nodes + edges > 0 {
        notes.push(format!(
            "not drawn: {nodes} functions below 0.5 % or beyond the 80 largest, {edges} calls"
        ));
    }
    if graph.edges.iter().any(|edge| !edge.is_direct) {
        notes.push("dashed: functions between the two are not drawn".to_owned());
    }
    notes
}

fn write_box(
    node: &Node,
    label: &Label,
    (x, y): (f64, f64),
    total: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Label { lines, letter, size: (width, height) } = label;
    let told =
        |bytes| format!("{} ({bytes} bytes, {})", quantity::bytes(bytes), percent(bytes, total));
    write!(
        out,
        "<g class=\"f\"><title>{}\n{}\nflat {}\ncum {}</title><rect x=\"{:.1}\" y=\"{:.1}\" \
         width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\" fill=\"{}\"/>",
        xml(&node.name),
        xml(&node.place),
        told(node.own),
        told(node.all),
        x - width / 2.0,
        y - height / 2.0,
        colour(part(node.own, total), part(node.all, total)),
    )?;
    for (number, line) in lines.iter().enumerate() {
        let at = y - height / 2.0 + letter * (HIGH * number as f64 + 1.3);
        write!(
            out,
            "<text x=\"{x:.1}\" y=\"{at:.1}\" font-size=\"{letter:.1}\" text-anchor=\"middle\">{}\
             </text>",
            xml(line)
        )?;
    }
    writeln!(out, "</g>")
}

fn write_edge(
    graph: &Graph,
    edge: &Edge,
    route: &[(f64, f64)],
    drawn: &Layout,
    sizes: &[(f64, f64)],
    out: &mut dyn Write,
) -> io::Result<()> {
    let (from, to) = (&graph.nodes[edge.from], &graph.nodes[edge.to]);
    let way = if edge.is_direct { "" } else { " i" };
    let bytes = quantity::bytes(edge.bytes);
    write!(
        out,
        "<g class=\"e{way}\"><title>{} -> {}\n{bytes} ({} bytes, {})</title>",
        xml(&from.name),
        xml(&to.name),
        edge.bytes,
        percent(edge.bytes, graph.total)
    )?;
    let path = match route {
        [] => own_loop(drawn.boxes[edge.from], sizes[edge.from]),
        _ => curve(route),
    };
    let thick = 1.0 + 7.0 * part(edge.bytes, graph.total);
    write!(out, "<path d=\"{path}\" stroke-width=\"{thick:.1}\" marker-end=\"url(#a)\"/>")?;
    if let [.., before, last] = route {
        // Near its end, where edges from one box are apart.
        let (x, y) = ((before.0 + 2.0 * last.0) / 3.0, (before.1 + 2.0 * last.1) / 3.0);
        write!(out, "<text x=\"{:.1}\" y=\"{y:.1}\">{bytes}</text>", x + 4.0 + thick / 2.0)?;
    }
    writeln!(out, "</g>")
}

/// Through all points, downwards at each of them.
fn curve(route: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (number, &(x, y)) in route.iter().enumerate() {
        match number.checked_sub(1).and_then(|before| route.get(before)) {
            None => path = format!("M{x:.1} {y:.1}"),
            Some(&(old_x, old_y)) => {
                let middle = (old_y + y) / 2.0;
                path += &format!("C{old_x:.1} {middle:.1} {x:.1} {middle:.1} {x:.1} {y:.1}");
            }
        }
    }
    path
}

/// Beside a box, of a function that calls itself.
fn own_loop((x, y): (f64, f64), (width, height): (f64, f64)) -> String {
    let (right, up, down) = (x + width / 2.0, y - height / 4.0, y + height / 4.0);
    let out = right + LINE;
    format!("M{right:.1} {up:.1}C{out:.1} {up:.1} {out:.1} {down:.1} {right:.1} {down:.1}")
}

#[allow(clippy::cast_precision_loss)]
fn part(bytes: u64, total: u64) -> f64 {
    (bytes as f64 / total.max(1) as f64).clamp(0.0, 1.0)
}

fn percent(bytes: u64, total: u64) -> String {
    format!("{:.1} %", 100.0 * part(bytes, total))
}

/// Warm by what a function has itself, light by what it has with all that it called.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn colour(own: f64, all: f64) -> String {
    let heat = (0.75 * own.sqrt() + 0.25 * all.sqrt()).clamp(0.0, 1.0);
    let shade = |from: f64, to: f64| (from + (to - from) * heat).round() as u8;
    format!("#{:02x}{:02x}{:02x}", shade(245.0, 240.0), shade(240.0, 130.0), shade(232.0, 95.0))
}

fn shortened(text: &str, room: usize) -> String {
    match text.char_indices().nth(room) {
        None => text.to_owned(),
        Some(_) => text.chars().take(room.saturating_sub(2)).chain("..".chars()).collect(),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn letters(width: f64) -> usize {
    ((width - 2.0 * MARGIN) / 7.4).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn picture(ledger: &Ledger, metric: Metric) -> String {
        let mut picture = Vec::new();
        write(ledger, metric, &mut picture).unwrap();
        String::from_utf8(picture).unwrap()
    }

    #[test]
    fn each_function_and_each_call_tells_its_bytes() {
        let picture = picture(&sample::ledger(), Metric::Live);
        assert!(picture.contains(">live memory: 102.5 KiB</text>"), "{picture}");
        let main = "<title>main\nmain.c\nflat 40.0 KiB (40960 bytes, 39.0 %)\n\
                    cum 102.5 KiB (104960 bytes, 100.0 %)</title>";
        assert!(picture.contains(main), "{picture}");
        assert!(
            picture.contains("<title>main -> grow_list\n62.5 KiB (64000 bytes, 61.0 %)</title>")
        );
        assert_eq!(picture.matches("class=\"f\"").count(), 3);
        assert_eq!(picture.matches("<g").count(), picture.matches("</g>").count());
        assert!(!picture.contains("not drawn"), "{picture}");
    }

    #[test]
    fn no_name_becomes_markup() {
        let mut ledger = sample::ledger();
        ledger.functions[3].name = "</title><script>alert('1')</script>\0".to_owned();
        ledger.functions[2].file = "<a href=\"x\">".to_owned();
        let picture = picture(&ledger, Metric::Live);
        assert!(!picture.contains("<script") && !picture.contains("<a "), "{picture}");
        assert!(!picture.contains('\0') && !picture.contains("NaN"));
    }

    #[test]
    fn names_are_short_in_boxes_and_whole_when_pointed_at() {
        let mut ledger = sample::ledger();
        let whole = "void std::vector<Node, std::allocator<Node> >::emplace_back<int>(int&&)";
        ledger.functions[1].name = whole.to_owned();
        let picture = picture(&ledger, Metric::Live);
        assert!(picture.contains(&format!("<title>{}\n", xml(whole))), "{picture}");
        assert!(
            picture.contains(">std::vector&lt;...&gt;::emplace_back</text>")
                || picture.contains(">std::vector&lt;Node&gt;::emplace_back&lt;int&gt;</text>"),
            "{picture}"
        );
    }
}
