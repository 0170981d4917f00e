//! Lines of source on the page, in a real browser.

use heapattach_ledger::sample;

use super::{
    SourceFile,
    reader::{click_frame, showing},
    write_with_source,
};

#[test]
fn lines_have_the_bytes_of_all_that_they_call() {
    let mut ledger = sample::ledger();
    for function in &mut ledger.functions[1..] {
        function.file = format!("/src/{}", function.file);
    }
    let mut file = Vec::new();
    let mut read = |name: &str| {
        let text = (1..60).map(|line| format!("{name} <b>{line}</b>\n")).collect();
        Some(SourceFile { text, is_newer: name.ends_with("main.c") })
    };
    write_with_source(&ledger, &mut read, &mut file).unwrap();
    let Some(mut browser) = showing("source", &ledger, None) else { return };
    assert_eq!(browser.text("#source"), "");
    browser.open(&file);
    click_frame(&mut browser, "main");
    // All of what is in use: `make_node` by way of `grow_list`, and its own.
    let marked =
        "[...document.querySelectorAll('#source .marked')].map((e) => e.innerText.trim()).join()";
    assert_eq!(browser.tell(marked), "103 KiB\t100 %\t7\t/src/main.c <b>7</b>");
    assert!(browser.text("#source caption").contains("was changed after the session began"));
    click_frame(&mut browser, "make_node");
    assert_eq!(browser.tell(marked), "62.5 KiB\t61 %\t12\t/src/list.c <b>12</b>");
    assert!(!browser.text("#source caption").contains("was changed"));
    assert_eq!(browser.tell("document.querySelectorAll('#source tbody tr').length"), 9);
    browser.click("#crumbs li:first-child button");
    assert_eq!(browser.text("#source"), "");
    // A place has them, too, also where there is room for one column of numbers only.
    for width in [1280, 500] {
        browser.size(width, 900);
        browser.tell("update({ open: null })");
        browser.click("#sites tr:first-child button");
        let code = "document.querySelector('#sites .marked code').getClientRects().length > 0";
        assert_eq!(browser.tell(code), true);
        assert_eq!(browser.tell("document.documentElement.scrollWidth > innerWidth"), false);
        browser.keep_picture(&format!("source-{width}"), true);
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
