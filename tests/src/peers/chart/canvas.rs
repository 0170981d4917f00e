//! A picture in the making. Its colours are for light and for dark pages; a page that cannot tell
//! which it is gets those for light.

use std::fmt::{Display, Write};

/// Colours of lines, for both kinds of pages.
const COLOURS: [&str; 6] = ["#1f77b4", "#d9730d", "#2ca02c", "#c2427a", "#8a63d2", "#7f7f7f"];

/// Shapes so far.
#[derive(Debug)]
pub(super) struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    pub(super) fn bar(&mut self, class: &str, at: (f64, f64), size: (f64, f64)) {
        let ((x, y), (width, height)) = (at, size);
        self.add(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"/>"#
        ));
    }

    /// `anchor`: `start`, `middle` or `end`.
    pub(super) fn text(&mut self, class: &str, anchor: &str, (x, y): (f64, f64), text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.add(format_args!(
            r#"<text class="{class}" text-anchor="{anchor}" x="{x:.1}" y="{y:.1}">{text}</text>"#
        ));
    }

    /// The colour is the `number`th.
    pub(super) fn curve(&mut self, number: usize, points: &[(f64, f64)]) {
        let colour = colour(number);
        let list: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!(
            r#"<polyline fill="none" stroke="{colour}" stroke-width="2" points="{}"/>"#,
            list.join(" ")
        ));
        for (x, y) in points {
            self.add(format_args!(r#"<circle fill="{colour}" r="3" cx="{x:.1}" cy="{y:.1}"/>"#));
        }
    }

    fn add(&mut self, shape: impl Display) {
        // Writing into a string does not fail.
        let _ = writeln!(self.body, "{shape}");
    }

    pub(super) fn finish(self) -> String {
        let Self { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <style>.t{{fill:#24292f}}.h{{fill:#24292f;font-weight:bold}}.g{{stroke:#d0d7de}}\
             .w{{stroke:#24292f}}.o{{fill:#1f77b4}}.p{{fill:#b5651d}}.n{{fill:#8c959f}}\
             .f{{fill:#cf222e}}.b{{fill:#fff}}\
             @media(prefers-color-scheme:dark){{.t,.h{{fill:#e6edf3}}.g{{stroke:#3d444d}}\
             .w{{stroke:#e6edf3}}.o{{fill:#58a6ff}}.p{{fill:#d9914b}}.f{{fill:#ff7b72}}\
             .b{{fill:#0d1117}}}}</style>\n\
             <rect class=\"b\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n"
        )
    }
}

/// A power of ten at a scale.
pub(super) fn power_of_ten(power: f64) -> String {
    if power < 0.0 {
        format!("{:.*}", digits(-power), 10_f64.powf(power))
    } else {
        format!("{:.0}", 10_f64.powf(power))
    }
}

fn digits(number: f64) -> usize {
    (1_u8..12).find(|&digits| f64::from(digits) >= number).map_or(12, usize::from)
}

fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}
