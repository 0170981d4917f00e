//! Who may have allocated the blocks that a session did not record.

use heapattach_report::{LikelySite, LikelySites};
use heapattach_text::quantity::{bytes, count};
use heapattach_verdict::figure;

use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

/// Writes the places of most bytes, and how sure that is.
pub fn tell(likely: &LikelySites, is_sampled: bool, rows: usize, page: &mut Page) {
    page.gap();
    let before = match is_sampled {
        true => {
            "were not recorded: they are from before the session, came when its hooks were removed, or were not sampled"
        }
        false => "are from before the session, or came when its hooks were removed",
    };
    let all = likely.unrecorded.bytes.max(1);
    let part = |bytes: u64| {
        #[allow(clippy::cast_precision_loss)]
        let share = bytes as f64 * 100.0 / all as f64;
        format!("{share:.1} %")
    };
    let outlived = match likely.outlived.blocks {
        0 => String::new(),
        _ => format!(
            "{} are like those of one place, but are older than any block of that place lived for in the session: they \
             are hardly its, ",
            part(likely.outlived.bytes)
        ),
    };
    let text = format!(
        "{} other blocks in use ({}) {before}. By recorded blocks that are like them in class, size and holders: {} of \
         their bytes are likely of one place each, {} of several, {outlived}{} are like no or too few of these. That is \
         no more than likely, and only if the program allocated before as it does now",
        count(likely.unrecorded.blocks),
        bytes(likely.unrecorded.bytes),
        part(likely.likely.bytes),
        part(likely.spread.bytes),
        part(likely.unlike.bytes),
    );
    page.prose("OTHERS", Ink::Bold, &text);
    if let Some(missing) = &likely.missing {
        page.prose("", Ink::Dim, missing);
    }
    if likely.rows.is_empty() {
        return;
    }
    page.gap();
    let columns = [
        Column::right("likely"),
        Column::right("blocks"),
        Column::right("purity"),
        Column::right("seen"),
        Column::right("part of several's"),
        Column::left("Likely allocated by"),
    ];
    let mut table = Table::new(columns);
    let is_any = |row: &&LikelySite| row.samples > 0 || row.spread.value > 0.0;
    for row in likely.rows.iter().filter(is_any).take(rows) {
        let is_spread = row.spread.value >= 1.0;
        let is_likely = row.samples > 0;
        let told = |text: String| if is_likely { text } else { "-".to_owned() };
        table.row([
            told(bytes(row.likely.bytes)),
            told(count(row.likely.blocks)),
            told(format!("{:.1} %", row.purity * 100.0)),
            told(count(row.samples)),
            if is_spread { figure::bytes(row.spread.into()) } else { "-".to_owned() },
            row.place.clone(),
        ]);
    }
    table.write(page);
}

#[cfg(test)]
mod tests {
    use heapattach_profile::Range;
    use heapattach_report::{Amount, LikelySite};

    use super::*;

    #[test]
    fn it_is_told_how_sure_a_place_is() {
        let amount = |bytes, blocks| Amount { bytes, blocks };
        let row = |place: &str, likely, samples, spread| LikelySite {
            place: place.to_owned(),
            likely,
            samples,
            purity: 0.992,
            spread,
            ..LikelySite::default()
        };
        let range = Range { value: 2048.0, low: 1024.0, high: 3072.0 };
        let likely = LikelySites {
            unrecorded: amount(10_240, 100),
            likely: amount(5120, 50),
            purity: 0.992,
            spread: amount(4096, 40),
            outlived: amount(512, 5),
            unlike: amount(512, 5),
            rows: vec![
                row("make (a.c:1)", amount(5120, 50), 312, Range::default()),
                row("grow (a.c:9)", amount(0, 0), 0, range),
                LikelySite {
                    place: "serve (a.c:7)".to_owned(),
                    outlived: amount(512, 5),
                    ..LikelySite::default()
                },
            ],
            missing: None,
        };
        let mut page = Page::new(Some(120), false);
        tell(&likely, false, 5, &mut page);
        let told = page.finish();
        let line = |end: &str| told.lines().find(|line| line.ends_with(end)).unwrap();
        let words = |end: &str| line(end).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words("make (a.c:1)"), "5.0 KiB 50 99.2 % 312 - make (a.c:1)");
        assert_eq!(words("grow (a.c:9)"), "- - - - 2.0 KiB (1.0 to 3.0 KiB) grow (a.c:9)");
        assert!(told.contains("are from before the session") && told.contains("50.0 %"), "{told}");
        let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("40.0 % of several, 5.0 % are like those of one place, but"),
            "{told}"
        );
        assert!(!told.contains("serve"), "{told}");
    }
}
