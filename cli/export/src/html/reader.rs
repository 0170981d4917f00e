//! What the tests of the page have in common: opening it, and finding one's way in the graph.

use heapattach_test_folder::{browser::Browser, skip};
use serde_json::json;

use heapattach_ledger::Ledger;

/// The whole page.
pub fn page(ledger: &Ledger, base: Option<&Ledger>) -> Vec<u8> {
    let mut page = Vec::new();
    super::write(ledger, base, &mut page).unwrap();
    page
}

/// A browser that shows a page, if there is one here.
pub fn showing(name: &str, ledger: &Ledger, base: Option<&Ledger>) -> Option<Browser> {
    let Some(mut browser) = Browser::start(name) else {
        skip("no chromium here to show the report in", "apt-get install chromium");
        return None;
    };
    browser.open(&page(ledger, base));
    Some(browser)
}

/// The middle of a frame of the graph, on the screen.
pub fn frame(browser: &mut Browser, function: &str) -> (f64, f64) {
    browser.middle("#flame");
    let at = browser.tell(&format!(
        "(() => {{ const r = graph.picture.rectangles.find((r) => !r.rest && \
         nameOf(graph.sorted, r.frame) === {}); const b = byId('flame').getBoundingClientRect(); \
         return [b.x + r.x + Math.min(r.w / 2, 40), b.y + topOf(r.level, graph.picture.levels) + 10]; }})()",
        json!(function)
    ));
    (at[0].as_f64().unwrap(), at[1].as_f64().unwrap())
}

/// Clicks on a frame.
pub fn click_frame(browser: &mut Browser, function: &str) {
    let at = frame(browser, function);
    ["mouseMoved", "mousePressed", "mouseReleased"].iter().for_each(|what| browser.mouse(what, at));
}

/// What is zoomed into.
pub fn crumbs(browser: &mut Browser) -> String {
    let names =
        "[...document.querySelectorAll('#crumbs button')].map((b) => b.textContent).join(' > ')";
    browser.tell(names).as_str().unwrap().to_owned()
}
