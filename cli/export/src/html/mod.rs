//! The report as one HTML file: it opens in any browser, asks no network for anything, and can be
//! mailed to a reader who has none of the recording's files.
//!
//! ```text
//! ledger (and the one before) -> data: calls, sums, moments -> escaped -> page.html + style + script
//! ```
//!
//! The page is safe with any names of the target: its policy admits one script and one style, both
//! by their hash; names travel as JSON in which no `<` is left, and the script makes text of them,
//! never markup. The script adds sums up by itself, exactly as [`heapattach_profile`] does, so that every
//! number on the page has its interval: that of a frame, of a search, of a thread, of a window of time.

mod about;
mod base64;
mod calls;
mod data;
mod escaped;
mod moments;
mod number;
mod packed;
mod page;
mod source;
mod sums;
pub(crate) mod template;
mod verdict;
mod windows;

#[cfg(test)]
mod browser_tests;
#[cfg(test)]
pub(crate) mod committed_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod keyboard_tests;
#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod program;
#[cfg(test)]
mod reader;
#[cfg(test)]
mod size_tests;
#[cfg(test)]
mod source_tests;
#[cfg(test)]
mod window_tests;

use std::io::{self, Write};

use heapattach_ledger::Ledger;

pub use source::SourceFile;

/// Writes the report of `ledger`; with a `base`, of what became different since then.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(ledger: &Ledger, base: Option<&Ledger>, out: &mut dyn Write) -> io::Result<()> {
    page::write(&data::Data::new(ledger, base, &mut |_| None), false, out)
}

/// Writes the report of `ledger` with lines of source; `read` reads a file by the name that the compiler was
/// told, if it can.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write_with_source(
    ledger: &Ledger,
    read: &mut dyn FnMut(&str) -> Option<SourceFile>,
    out: &mut dyn Write,
) -> io::Result<()> {
    page::write(&data::Data::new(ledger, None, read), false, out)
}

/// Writes the page of a session that goes on, or of one that `is_over`. Where it comes from it asks `changes`
/// (server-sent events) what happens to the recording, and `data` for newer data ([`write_data`]).
///
/// # Errors
/// When `out` cannot be written to.
pub fn write_live(
    ledger: &Ledger,
    is_over: bool,
    read: &mut dyn FnMut(&str) -> Option<SourceFile>,
    out: &mut dyn Write,
) -> io::Result<()> {
    page::write(&live(ledger, is_over, read), true, out)
}

/// Writes the data of such a page alone, as JSON.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write_data(
    ledger: &Ledger,
    is_over: bool,
    read: &mut dyn FnMut(&str) -> Option<SourceFile>,
    out: &mut dyn Write,
) -> io::Result<()> {
    Ok(serde_json::to_writer(out, &live(ledger, is_over, read))?)
}

fn live(
    ledger: &Ledger,
    is_over: bool,
    read: &mut dyn FnMut(&str) -> Option<SourceFile>,
) -> data::Data {
    let mut data = data::Data::new(ledger, None, read);
    data.live = Some(data::Live { is_over });
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn written(ledger: &Ledger, base: Option<&Ledger>) -> String {
        let mut page = Vec::new();
        write(ledger, base, &mut page).unwrap();
        String::from_utf8(page).unwrap()
    }

    #[test]
    fn a_hostile_name_cannot_end_the_data() {
        let mut ledger = sample::ledger();
        let tags = written(&ledger, None).matches('<').count();
        ledger.functions[1].name = "</script><script>alert(1)</script><!--".to_owned();
        ledger.about.command = "<img src=x onerror=alert(1)>".to_owned();
        ledger.threads[1].name = "</textarea>".to_owned();
        let page = written(&ledger, None);
        assert_eq!(page.matches('<').count(), tags);
        assert!(page.contains(r"\u003c/script>\u003cscript>alert(1)"), "the name is there");
    }

    #[test]
    fn numbers_that_are_none_are_zero() {
        let mut ledger = sample::ledger();
        ledger.moments[3].live = f64::NAN;
        ledger.peak.high = f64::INFINITY;
        ledger.moments[4].at_ms = u64::MAX;
        let page = written(&ledger, None);
        assert!(page.contains(r#""peak":[118560,118560,0]"#), "{page}");
    }

    #[test]
    fn a_profile_of_nothing_is_a_page_too() {
        let nothing = Ledger::default();
        assert!(written(&nothing, Some(&nothing)).contains("\"rows\":[]"));
    }

    #[test]
    fn the_script_is_small() {
        assert!(page::SCRIPT.len() < 96 << 10, "{}", page::SCRIPT.len());
    }
}
