//! Pages of the recordings that are kept with the tests, in a real browser: what is seen without scrolling,
//! and what a reader who cannot see it, or has no pointer, can use.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use heapattach_recording::{Part, Recording};
use heapattach_test_folder::{browser::Browser, skip};

use super::{
    program,
    reader::{page, showing},
};
use heapattach_ledger::Ledger;

/// Every recording that is kept.
const RECORDINGS: [&str; 4] = ["before", "after", "sampled", "python"];
/// Pages that have all that any page has.
const LOOKED_AT: [&str; 3] = ["server", "python", "difference"];
/// Rows of the picture that are seen without scrolling.
const SEEN: u32 = 8;

/// One of the recordings that are kept.
pub fn kept(name: &str) -> Ledger {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden");
    let path: PathBuf = folder.join(name).with_extension("heapattach");
    let recording = Recording::open(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    recording.part(&Part { with_course: true, ..Part::default() })
}

/// Names of pages, and what is in them.
type Pages = Vec<(String, Vec<u8>)>;

/// All pages that are looked at, by name; `None` if there is no browser.
fn pages(name: &str) -> Option<(Browser, Pages)> {
    let server = program::server(3, 65_536);
    let browser = showing(name, &server, None)?;
    let mut pages = vec![("server".to_owned(), page(&server, None))];
    for name in RECORDINGS {
        pages.push((name.to_owned(), page(&kept(name), None)));
    }
    pages.push(("difference".to_owned(), page(&kept("after"), Some(&kept("before")))));
    Some((browser, pages))
}

#[test]
fn the_verdict_and_the_picture_are_seen_without_scrolling() {
    let Some((mut browser, pages)) = pages("fold") else { return };
    for (width, height) in [(1280, 720), (390, 844)] {
        browser.size(width, height);
        for (name, page) in &pages {
            browser.open(page);
            browser.until("Math.abs(graph.picture.width - byId('flame').clientWidth) <= 1");
            browser.keep_picture(&format!("fold-{name}-{width}"), false);
            let top = browser.tell("byId('flame').getBoundingClientRect().top").as_f64().unwrap();
            let room = f64::from(height) - top;
            assert!(
                room >= f64::from(SEEN) * 20.0,
                "{name} at {width}: the picture begins at {top}"
            );
            let verdict = browser.tell("byId('headline').getBoundingClientRect().bottom");
            assert!(verdict.as_f64().unwrap() < top, "{name}: {verdict}");
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// What axe-core finds of these pages: rules for what people with a screen reader, without a pointer, or with
/// weak eyes can use.
#[test]
fn no_page_has_a_serious_finding_of_accessibility() {
    let Some((mut browser, pages)) = pages("axe") else { return };
    let Some(axe) = axe() else { return };
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
        browser.size(width, 900);
        browser.prefer(scheme, "screen");
        for (name, page) in pages.iter().filter(|(name, _)| LOOKED_AT.contains(&name.as_str())) {
            browser.open(page);
            // All that can be opened is open.
            browser.tell(
                "update({ open: sites[0] ? sites[0].call : null, group: true, query: 'a' }); \
                 document.querySelector('.first button')?.click(); byId('flame-text').open = true; 0",
            );
            browser.until("document.querySelectorAll('#flame-text tr').length > 1");
            browser.keep_picture(&format!("open-{name}-{width}-{scheme}"), true);
            assert_eq!(
                findings(&mut browser, &axe),
                Vec::<String>::new(),
                "{name} {width} {scheme}"
            );
        }
        browser.click("#help-open");
        assert_eq!(findings(&mut browser, &axe), Vec::<String>::new(), "help {width} {scheme}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The library, if it is installed.
pub fn axe() -> Option<String> {
    let root = Command::new("npm").args(["root", "-g"]).output().ok();
    let root = root.and_then(|output| String::from_utf8(output.stdout).ok());
    let path = root.map(|root| Path::new(root.trim()).join("axe-core/axe.min.js"));
    let text = path.and_then(|path| std::fs::read_to_string(path).ok());
    if text.is_none() {
        skip("no axe-core here to look at the report with", "npm install --global axe-core");
    }
    text
}

/// What it calls serious or critical: the rule, and the elements.
pub fn findings(browser: &mut Browser, axe: &str) -> Vec<String> {
    browser.tell(&format!("{axe}; 0"));
    browser.tell(
        "globalThis.found = null; axe.run(document, { resultTypes: ['violations'] }).then((result) => { \
         globalThis.found = result.violations.filter(({ impact }) => ['serious', 'critical'].includes(impact)) \
         .map((each) => `${each.id}: ${each.nodes.map((node) => node.html.slice(0, 120) + ' ' + \
         node.any.map((check) => check.message).join()).slice(0, 4).join(' | ')}`); \
         globalThis.looked = result.testEngine.version; }, (error) => { globalThis.found = [String(error)]; }); 0",
    );
    browser.until("globalThis.found !== null");
    let found = browser.tell("globalThis.found");
    found.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}
