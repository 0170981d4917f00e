//! The page in a real browser: what a reader does with pointer and keys, and what then stands there.
//! No test may leave an error, a breach of the policy, or a request behind.

use serde_json::json;

use super::{
    program,
    reader::{click_frame, crumbs, page, showing},
};
use heapattach_ledger::{Metric, PageKinds, Pages, Row, Unhooked, sample};
use heapattach_profile::Estimate;

#[test]
fn a_click_zooms_in_and_the_crumbs_lead_back() {
    let Some(mut browser) = showing("zoom", &sample::ledger(), None) else { return };
    assert_eq!(
        browser.text("#headline"),
        "make_node (list.c:12) is the largest: 62.5 KiB, 61 % of what is live."
    );
    assert_eq!(crumbs(&mut browser), "All");
    click_frame(&mut browser, "grow_list");
    assert_eq!(crumbs(&mut browser), "All > main > grow_list");
    let tip = browser.text("#tip");
    for told in ["grow_list", "list.c", "62.5 KiB live, 61 %", "1 stack"] {
        assert!(tip.contains(told), "{tip}");
    }
    browser.click("#crumbs li:first-child button");
    assert_eq!(crumbs(&mut browser), "All");
    // Callers of the function that allocated, and malloc itself.
    browser.click("#toolbar [data-value=up]");
    click_frame(&mut browser, "make_node");
    assert_eq!(crumbs(&mut browser), "All > make_node");
    browser.click("#allocators");
    click_frame(&mut browser, "malloc");
    assert_eq!(crumbs(&mut browser), "All > malloc");
    browser.click("#toolbar [data-value=flame]");
    click_frame(&mut browser, "make_node");
    assert_eq!(crumbs(&mut browser), "All > malloc > make_node");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn who_mapped_memory_for_whom_and_what_is_unusual_of_it_is_a_table_of_its_own() {
    let mut ledger = sample::ledger();
    let mut pages = PageKinds { address: 0x7000_0000_1234, ..PageKinds::default() };
    pages.kinds.insert("guard pages".to_owned(), Pages { mapped: 4096, resident: 0 });
    ledger.about.pages = vec![pages];
    let kind = "<b>rings of io_uring".to_owned();
    ledger.about.unhooked = vec![Unhooked { kind, start: 0, bytes: 1 << 20 }];
    ledger.about.compared_ms = Some(1500);
    let Some(mut browser) = showing("mapped", &ledger, None) else { return };
    let told = browser.text("#mapped");
    for part in [
        "libc.so.6, for main (main.c:7) (never touched, guard pages)",
        "512 KiB",
        "1 MiB",
        "Mapped by no hooked function at 1.50 s (the last look before its end): 1 MiB <b>rings of io_uring.",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let mut ledger = sample::ledger();
    ledger.rows.iter_mut().for_each(|row| (row.mapped, row.mapped_live) = (0, 0));
    let Some(mut browser) = showing("unmapped", &ledger, None) else { return };
    assert_eq!(browser.tell("byId('mapped-section').hidden"), json!(true));
}

#[test]
fn keys_move_zoom_and_are_answered_in_words() {
    let Some(mut browser) = showing("keys", &sample::ledger(), None) else { return };
    browser.tell("byId('flame').focus()");
    for key in ["ArrowDown", "ArrowDown"] {
        browser.key(key);
    }
    assert!(
        browser.text("#spoken").starts_with("grow_list, list.c"),
        "{}",
        browser.text("#spoken")
    );
    browser.key("Enter");
    assert_eq!(crumbs(&mut browser), "All > main > grow_list");
    browser.key("Escape");
    assert_eq!(crumbs(&mut browser), "All > main");
    browser.tell("document.activeElement.blur()");
    browser.key("/");
    assert_eq!(browser.tell("document.activeElement.id"), "search");
    // Each thing that can be clicked has a name.
    let nameless = "[...document.querySelectorAll('button, select, input, [tabindex]')].filter((e) => \
        !e.textContent.trim() && !e.getAttribute('aria-label') && !e.closest('label')).length";
    assert_eq!(browser.tell(nameless), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_search_marks_what_matches_and_tells_what_it_holds() {
    let Some(mut browser) = showing("search", &sample::ledger(), None) else { return };
    browser.click("[data-metric='1']");
    browser.click("#search");
    browser.write("WORK");
    browser.until("search.isOn");
    // 70 000 blocks of 16 bytes, of 1 256 960 bytes in all.
    assert_eq!(browser.text("#matched"), "matched 1.07 MiB \u{b7} 89 % \u{b7} 1 stack");
    assert_eq!(browser.text("#sites-number"), "1 place whose stacks match");
    let marked = "(() => { const c = byId('flame'), t = c.getContext('2d'); const d = \
        t.getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 0; i < d.length; i += 4) \
        n += d[i] === 194 && d[i + 1] === 18 && d[i + 2] === 126; return n > 100; })()";
    assert_eq!(browser.tell(marked), true);
    browser.click("#search-clear");
    assert_eq!((browser.text("#matched").as_str(), browser.tell(marked)), ("", json!(false)));
    for (query, told) in
        [("/^(main|work)/", "100 %"), ("main.c", "11 %"), ("/(/", "not a valid regular expression")]
    {
        browser.write(query);
        browser.until("byId('matched').textContent !== ''");
        assert!(browser.text("#matched").contains(told), "{query}: {}", browser.text("#matched"));
        browser.click("#search-clear");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_measure_and_the_order_of_the_table_can_be_chosen() {
    let Some(mut browser) = showing("table", &sample::ledger(), None) else { return };
    let tiles = "[...document.querySelectorAll('.tile .value')].map((e) => e.textContent).join()";
    assert_eq!(browser.tell(tiles), "103 KiB,1.20 MiB,1.10 MiB,116 KiB,1.00 MiB,512 KiB");
    let names =
        "[...document.querySelectorAll('#sites th button')].map((e) => e.textContent).join()";
    assert_eq!(browser.tell(names), "make_node,main,work<int>");
    // Of what was freed: nothing of main's blocks.
    for (row, is_it) in [(1, false), (2, true), (3, false)] {
        let shares = format!(
            "[...document.querySelectorAll('#sites tr:nth-child({row}) .share')].some((e) => e.textContent === 'never')"
        );
        assert_eq!(browser.tell(&shares), json!(is_it), "row {row}");
    }
    browser.click("[data-metric='1']");
    assert_eq!(browser.tell(names), "work<int>,make_node,main");
    browser.click("#sites-head [data-column='0'] button");
    assert_eq!(browser.tell(names), "make_node,main,work<int>");
    browser.click("#sites-head [data-column='0'] button");
    assert_eq!(browser.tell(names), "work<int>,main,make_node");
    assert_eq!(browser.tell("document.querySelector('[aria-sort=ascending]').dataset.column"), "0");
    browser.click("#sites-head [data-column=site] button");
    assert_eq!(browser.tell(names), "main,make_node,work<int>");
    browser.click("#toolbar [data-value='1']");
    assert_eq!(
        browser.tell(tiles),
        "1\u{202f}010,71\u{202f}510,70\u{202f}500,1\u{202f}260,65\u{202f}100,512 KiB"
    );
    browser.click("#sites tr:nth-child(3) button");
    let stack = browser.text("#sites .open ol");
    assert!(stack.contains("work<int>work.cc:99 \u{b7} list"), "{stack}");
    browser.click("#sites .open button");
    assert_eq!(crumbs(&mut browser), "All > work<int>");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_window_of_time_is_dragged_open_moved_by_keys_and_cleared() {
    let Some(mut browser) = showing("brush", &sample::ledger(), None) else { return };
    assert!(browser.text("#window-text").starts_with("Whole session20 s, 21 moments"));
    let (x, y) = browser.middle(".catch");
    browser.mouse("mouseMoved", (x, y));
    assert!(
        browser
            .text("#moment")
            .starts_with("10 s: in use by recorded blocks 51.3 KiB, RSS 9.63 MiB")
    );
    browser.mouse("mousePressed", (x, y));
    browser.mouse("mouseMoved", (x + 100.0, y));
    browser.mouse("mouseMoved", (5000.0, y));
    browser.mouse("mouseReleased", (5000.0, y));
    // From the middle to the end: ten seconds of 5248 bytes each.
    let told = browser.text("#window-text");
    for fact in [
        "10.0 s \u{2013} 20 s, ",
        "live+51.3 KiB",
        "RSS+97.7 KiB",
        "35\u{202f}755 blocks, 58.6 KiB/s",
    ] {
        assert!(told.contains(fact), "{fact}: {told}");
    }
    browser.tell("document.querySelectorAll('.handle')[0].focus()");
    for _ in 0..5 {
        browser.key("ArrowRight");
    }
    assert!(
        browser.text("#window-text").contains("11.0 s \u{2013} 20 s, 10 moments"),
        "{}",
        browser.text("#window-text")
    );
    browser.click("#window-clear");
    assert!(browser.text("#window-text").starts_with("Whole session20 s"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn colours_follow_the_system_the_switch_and_the_paper() {
    let Some(mut browser) = showing("theme", &program::server(3, 65_536), None) else { return };
    let ground = "getComputedStyle(document.body).backgroundColor";
    let (light, dark) = ("rgb(244, 243, 239)", "rgb(21, 23, 26)");
    browser.prefer("light", "screen");
    assert_eq!(browser.tell(ground), light);
    assert!(browser.keep_picture("light", true) > 20_000);
    browser.prefer("dark", "screen");
    assert_eq!(browser.tell(ground), dark);
    browser.click("#themes [data-value=light]");
    assert_eq!(browser.tell(ground), light);
    browser.click("#themes [data-value=dark]");
    browser.prefer("light", "screen");
    assert_eq!(browser.tell(ground), dark);
    assert!(browser.keep_picture("dark", true) > 20_000);
    browser.prefer("light", "print");
    assert_eq!(browser.tell(ground), "rgb(255, 255, 255)");
    let root = "[...byId('flame').getContext('2d').getImageData(800, 8, 1, 1).data].join()";
    browser.until(&format!("{root} === '223,224,227,255'"));
    assert_eq!(browser.tell("getComputedStyle(byId('toolbar')).display"), "none");
    assert!(browser.keep_picture("print", true) > 20_000);
    browser.prefer("light", "screen");
    for width in [320, 500, 900] {
        browser.size(width, 800);
        let overflow = "document.documentElement.scrollWidth > innerWidth";
        assert_eq!(browser.tell(overflow), false, "at {width}");
        browser.until("Math.abs(graph.picture.width - byId('flame').clientWidth) <= 1");
    }
    browser.size(500, 900);
    // A stack that is shown leaves the names their room.
    let name = "document.querySelector('#sites tr:first-child th').clientWidth";
    let closed = browser.tell(name);
    browser.click("#sites tr:first-child button");
    assert_eq!(browser.tell(name), closed);
    assert!(closed.as_u64() > Some(200), "{closed}");
    assert!(browser.keep_picture("narrow", true) > 20_000);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Asserts that an estimate of the page is one of ours.
pub fn assert_same(page: &serde_json::Value, ours: Estimate, what: &str) {
    for (name, ours) in [("value", ours.value), ("low", ours.low), ("high", ours.high)] {
        let page = page[name].as_f64().unwrap();
        assert!((page - ours).abs() <= 1e-4 * ours.abs().max(1.0), "{what} {name}: {page}, {ours}");
    }
}

#[test]
fn the_page_adds_intervals_up_as_the_profile_does() {
    let ledger = program::server(3, 65_536);
    let Some(mut browser) = showing("sums", &ledger, None) else { return };
    for thread in 0..5 {
        let mut sum = Row::default();
        ledger.rows.iter().filter(|row| row.thread == thread).for_each(|row| sum.merge(row));
        let name = &ledger.threads[thread as usize];
        let name = if name.tid == 0 {
            "not told apart".to_owned()
        } else {
            format!("{} ({})", name.name, name.tid)
        };
        browser.tell(&format!("update({{ thread: data.threads.indexOf({}) }})", json!(name)));
        for metric in Metric::ALL {
            let ours = sum.measure(metric);
            for (unit, ours) in [(0, ours.bytes), (1, ours.count)] {
                let page = browser.tell(&format!("shownTotal(0, {}, {unit})", metric as usize));
                assert_same(&page, ours, &format!("{name} {} {unit}", metric.name()));
                assert!(ours.high > ours.low, "sampled");
            }
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_comparison_shows_what_became_different_and_what_may_be_chance() {
    let (now, base) = (program::server(9, 65_536), program::server(3, 65_536));
    let Some(mut browser) = showing("diff", &now, Some(&base)) else { return };
    assert!(browser.text("#headline").contains("changed most: +"), "{}", browser.text("#headline"));
    let first = "document.querySelector('#sites td').className";
    assert_eq!(browser.tell(first), "chosen grew");
    assert_eq!(browser.tell("document.querySelectorAll('#sites .noise').length > 0"), true);
    // Most of the graph is red, and where blocks went it is blue.
    let colours = "(() => { const c = byId('flame'), d = c.getContext('2d').getImageData(0, 0, c.width, \
        c.height).data; let r = 0, b = 0; for (let i = 0; i < d.length; i += 4) { r += d[i] > d[i + 2] + 40; \
        b += d[i + 2] > d[i] + 40; } return [r, b]; })()";
    let colours = browser.tell(colours);
    let (red, blue) = (colours[0].as_u64().unwrap(), colours[1].as_u64().unwrap());
    assert!(red > 4 * blue && blue > 100, "{red} {blue}");
    browser.click("#toolbar [data-value=before]");
    click_frame(&mut browser, "main");
    assert_eq!(crumbs(&mut browser), "All > main");
    assert!(browser.text("#tip").contains("before "), "{}", browser.text("#tip"));
    assert!(browser.keep_picture("diff", true) > 20_000);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.open(&page(&base, Some(&base)));
    assert_eq!(browser.text("#headline"), "Nothing changed by this measure.");
    assert_eq!(browser.tell("byId('flame').hidden"), true);
}

#[test]
fn names_are_short_until_the_reader_wants_whole_ones() {
    let Some(mut browser) = showing("names", &sample::ledger(), None) else { return };
    let whole = "work<int>(std::string const&)";
    let button = "[...document.querySelectorAll('#sites th button')].map((e) => [e.textContent, e.title])\
        .find(([name]) => name.startsWith('work'))";
    assert_eq!(browser.tell(button), json!(["work<int>", whole]));
    browser.click("[data-metric='1']");
    click_frame(&mut browser, "work<int>");
    assert_eq!(crumbs(&mut browser), "All > work<int>");
    let tip = browser.text("#tip");
    assert!(tip.contains(whole), "{tip}");
    browser.click("#full");
    assert_eq!(browser.tell(button), json!([whole, ""]));
    assert_eq!(crumbs(&mut browser), format!("All > {whole}"));
    browser.until("location.hash.includes('full=1')");
    // Both are found.
    for query in ["work<int>(std", "/work<int>$/"] {
        browser.click("#search");
        browser.write(query);
        browser.until("search.isOn");
        assert_eq!(browser.text("#sites-number"), "1 place whose stacks match", "{query}");
        browser.click("#search-clear");
    }
    browser.open(&page(&with_short_names(), None));
    assert_eq!(browser.tell("byId('full')"), serde_json::Value::Null, "there is no choice");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

fn with_short_names() -> heapattach_ledger::Ledger {
    let mut ledger = sample::ledger();
    ledger.functions.iter_mut().for_each(|function| function.name = "f".to_owned());
    ledger
}
