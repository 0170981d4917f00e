//! What a reader chose is in the address of the page: in a real browser, a link is opened anew, and the
//! browser's buttons go back and forth.

use heapattach_ledger::sample;
use heapattach_test_folder::browser::Browser;
use serde_json::{Value, json};

use super::{
    committed_tests::kept,
    reader::{click_frame, crumbs, page, showing},
};

/// The address behind `#`, when it says this.
fn link(browser: &mut Browser, says: &str) -> String {
    browser.until(&format!("location.hash.includes({})", json!(says)));
    browser.tell("location.hash").as_str().unwrap().to_owned()
}

/// What a reader sees of the page: all of its text, the picture, and the state of its controls.
fn seen(browser: &mut Browser) -> Value {
    browser.until("Math.abs(graph.picture.width - byId('flame').clientWidth) <= 1");
    browser.tell(
        "[document.querySelector('main').innerText, byId('flame').toDataURL(), \
         [...document.querySelectorAll('input')].map((e) => `${e.value} ${e.checked}`).join(), \
         [...document.querySelectorAll('[aria-pressed=true]')].map((e) => e.textContent).join(), \
         byId('thread')?.value, document.querySelector('rect.window').getAttribute('width')]",
    )
}

#[test]
fn a_link_opened_anew_shows_the_same() {
    let ledger = kept("after");
    let Some(mut browser) = showing("link", &ledger, None) else { return };
    let begin = seen(&mut browser);
    browser.click("[data-metric='1']");
    browser.click("#toolbar [data-value='1']");
    browser.click("#toolbar [data-value=up]");
    browser.click("#toolbar [data-value=flame]");
    browser.click("#lines");
    browser.click("#allocators");
    browser.tell("update({ thread: 1 })");
    browser.click("#sites-head [data-column='0'] button");
    browser.click("#sites tr:nth-child(1) button");
    browser.tell("zoom(graph.picture.rectangles[1].frame)");
    browser.tell("setTime([spans[2], spans[9]])");
    browser.click("#search");
    browser.write("s");
    let hash = link(&mut browser, "query=s");
    for name in [
        "metric=allocated",
        "unit=blocks",
        "direction=up",
        "shape=flame",
        "lines=1",
        "path=",
        "allocators=1",
        "thread=",
        "time=",
        "sort=0",
        "open=",
    ] {
        assert!(hash.contains(name), "{name}: {hash}");
    }
    browser.tell("document.activeElement.blur()");
    let chosen = seen(&mut browser);
    assert_ne!(begin, chosen);
    browser.open_at(&page(&ledger, None), &hash);
    assert_eq!(seen(&mut browser), chosen);
    browser.open_at(&page(&ledger, None), "");
    assert_eq!(seen(&mut browser), begin);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_browsers_buttons_go_back_and_forth_among_choices() {
    let Some(mut browser) = showing("back", &sample::ledger(), None) else { return };
    click_frame(&mut browser, "grow_list");
    link(&mut browser, "path=");
    browser.click("[data-metric='1']");
    link(&mut browser, "metric=allocated");
    let deep = seen(&mut browser);
    browser.tell("history.back()");
    browser.until("state.metric === 0");
    assert_eq!(crumbs(&mut browser), "All > main > grow_list");
    browser.tell("history.back()");
    browser.until("state.path.length === 0");
    assert_eq!((crumbs(&mut browser).as_str(), browser.tell("state.metric")), ("All", json!(0)));
    browser.tell("history.forward()");
    browser.until("state.path.length === 2");
    browser.tell("history.forward()");
    browser.until("state.metric === 1");
    assert_eq!(seen(&mut browser), deep);
    // A word that is typed is one step.
    browser.click("#search");
    for (letters, query) in [("w", "w"), ("or", "wor"), ("k", "work")] {
        browser.write(letters);
        link(&mut browser, &format!("query={query}"));
    }
    browser.tell("history.back()");
    browser.until("state.query === ''");
    assert_eq!(seen(&mut browser), deep);
    // A link within the page does not end up in the address.
    browser.click("#loss");
    assert_eq!(browser.tell("document.activeElement.id"), "about");
    assert_eq!(browser.tell("location.hash.includes('about')"), false);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn an_address_of_anything_is_a_page_all_the_same() {
    let ledger = sample::ledger();
    let Some(mut browser) = showing("hostile-link", &ledger, None) else { return };
    let begin = seen(&mut browser);
    let much = "9".repeat(400);
    for hash in [
        "#about",
        "#metric=__proto__&unit=constructor&thread=toString&shape=<img src=x onerror=alert(1)>",
        &format!("#path={much}&open={much}&time={much}-{much}&sort={much}&metric={much}"),
        "#path=1..2&open=-1&time=5-2&sort=9&ascending=2&lines=true&width=before",
        "#time=0-999999999999999&%%%=&&&=&metric",
    ] {
        browser.open_at(&page(&ledger, None), hash);
        let shown = seen(&mut browser);
        assert_eq!(shown, begin, "{hash}");
    }
    browser.open_at(&page(&ledger, None), "#path=3.77777.2&query=%2F(%2F&open=2&time=0-3");
    assert_eq!(browser.text("#matched"), "not a valid regular expression");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
