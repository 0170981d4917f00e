//! The page of a moment in a real browser: the map opens and closes by pointer and keys, the tables tell the
//! numbers, hostile names are text, and nothing is requested.

use heapattach_reach::{Amount, RootKind};
use heapattach_report::{
    AllocatorReport, ArenaReport, CensusReport, HolderRow, HoldersReport, MappingReport,
};
use heapattach_test_folder::{browser::Browser, skip};
use heapattach_verdict::reconcile::{Part, PartKind};
use serde_json::json;

use super::write;
use crate::html::committed_tests::{axe, findings};

fn sample(class: &str) -> CensusReport {
    let mut report = CensusReport::new(4711, "/usr/bin/app --port 80".to_owned());
    report.moment.taken_ms = Some(1_790_000_000_000);
    report.verdict.text = "Live data: 80 MiB of 100 MiB (80 %) are 9 blocks in use".to_owned();
    let part = |part, mib: u64| Part { part, resident: mib << 20, swapped: 0 };
    report.memory.parts = vec![
        part(PartKind::Live, 80),
        part(PartKind::Free, 12),
        part(PartKind::Stacks, 5),
        part(PartKind::Code, 3),
    ];
    let mut arenas = vec![ArenaReport::default(), ArenaReport::default()];
    for (arena, (name, mib)) in arenas.iter_mut().zip([("main", 60_u64), ("arena 1", 20)]) {
        arena.name = name.to_owned();
        (arena.used, arena.used_blocks) = (mib << 20, mib * 10);
        arena.pages.live.resident = mib << 20;
        arena.pages.free.resident = 6 << 20;
    }
    report.allocators = vec![AllocatorReport {
        name: "glibc".to_owned(),
        layout: "2.36".to_owned(),
        is_exact: true,
        arenas,
        ..AllocatorReport::default()
    }];
    let row = |before, root, name: &str, mib: u64| HolderRow {
        before,
        root,
        name: name.to_owned(),
        own: Amount { bytes: 1 << 20, blocks: 1 },
        retained: Amount { bytes: mib << 20, blocks: mib },
    };
    report.holders = Some(HoldersReport {
        blocks: Amount { bytes: 80 << 20, blocks: 800 },
        reached: Amount { bytes: 70 << 20, blocks: 700 },
        holders: vec![
            row(None, Some(RootKind::Globals), "cache", 60),
            row(Some(0), None, class, 59),
            row(Some(1), None, "Buffer", 40),
            row(None, Some(RootKind::Stacks), "main", 10),
        ],
        ..HoldersReport::default()
    });
    let name = "/usr/lib/libc.so.6".to_owned();
    report.mappings = vec![MappingReport { name, resident: 3 << 20, ..MappingReport::default() }];
    report
}

fn page(report: &CensusReport) -> Vec<u8> {
    let mut page = Vec::new();
    write(report, &mut page).unwrap();
    page
}

fn showing(name: &str, report: &CensusReport) -> Option<Browser> {
    let Some(mut browser) = Browser::start(name) else {
        skip("no chromium here to show the page in", "apt-get install chromium");
        return None;
    };
    browser.open(&page(report));
    Some(browser)
}

const CRUMBS: &str =
    "[...document.querySelectorAll('#crumbs button')].map((b) => b.textContent).join(' > ')";
const TILES: &str =
    "[...document.querySelectorAll('#map > button')].map((b) => b.firstChild?.textContent).join()";

#[test]
fn the_map_opens_by_pointer_and_keys_and_closes_again() {
    let Some(mut browser) = showing("moment-map", &sample("Session")) else { return };
    assert_eq!(browser.tell(CRUMBS), "memory");
    let tiles = browser.tell(TILES);
    assert!(
        tiles.as_str().unwrap().starts_with("live blocks,free blocks, kept by arenas"),
        "{tiles}"
    );
    browser.click("#toolbar button:last-child");
    browser.click("#map > button:first-child");
    assert_eq!(browser.tell(CRUMBS), "memory > live blocks");
    // The first rectangle has the focus: keys go on from there.
    browser.key("Enter");
    assert_eq!(browser.tell(CRUMBS), "memory > live blocks > cache (globals)");
    // What is inside of it is drawn in it, and not read with it.
    let read = "[...document.activeElement.children].filter((e) => !e.ariaHidden).map((e) => e.textContent).join(' ')";
    assert_eq!(
        browser.tell(read),
        json!("Session 59 MiB, 98 % of cache (globals), 59 blocks. Opens.")
    );
    browser.key("Escape");
    browser.key("Escape");
    assert_eq!(browser.tell(CRUMBS), "memory");
    browser.key("End");
    let last = "document.activeElement === byId('map').lastChild";
    assert_eq!(browser.tell(last), true);
    browser.key("Home");
    browser.key("ArrowRight");
    assert_eq!(browser.tell("document.activeElement === byId('map').firstChild"), false);
    // Rectangles fill the map, in proportion, and none leaves it.
    let area = "(() => { const map = byId('map'); let sum = 0; for (const e of map.children) { \
        if (e.offsetLeft < 0 || e.offsetTop < 0) return -1; sum += parseFloat(e.style.width) * parseFloat(e.style.height); } \
        return sum / (map.clientWidth * map.clientHeight); })()";
    let area = browser.tell(area).as_f64().unwrap();
    assert!((0.999..1.001).contains(&area), "{area}");
    browser.keep_picture("moment-light", true);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_moment_has_no_serious_finding_of_accessibility() {
    let Some(mut browser) = showing("moment-axe", &sample("Session")) else { return };
    let Some(axe) = axe() else { return };
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
        browser.size(width, 900);
        browser.prefer(scheme, "screen");
        browser.open(&page(&sample("Session")));
        for view in ["closed", "open"] {
            browser.keep_picture(&format!("moment-{view}-{width}-{scheme}"), true);
            let found = findings(&mut browser, &axe);
            assert_eq!(found, Vec::<String>::new(), "{view} {width} {scheme}");
            browser.click("#map > button:first-child");
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn tables_tell_the_same_numbers_and_each_control_has_a_name() {
    let Some(mut browser) = showing("moment-tables", &sample("Session")) else { return };
    let titles = "[...document.querySelectorAll('#tables h2')].map((e) => e.textContent).join()";
    assert_eq!(browser.tell(titles), "Parts,Arenas,Holders,Mappings");
    let holders =
        "[...document.querySelectorAll('#tables section')][2].innerText.replace(/\\s+/g, ' ')";
    let told = browser.tell(holders);
    assert!(told.as_str().unwrap().contains("60 MiB 60 cache (globals)"), "{told}");
    let nameless = "[...document.querySelectorAll('button, [tabindex]')].filter((e) => \
        !e.textContent.trim() && !e.getAttribute('aria-label')).length";
    assert_eq!(browser.tell(nameless), 0);
    let first = "document.querySelector('#tables tbody td:last-child').textContent";
    assert_eq!(browser.tell(first), "live blocks");
    browser.click("#tables th:last-child button");
    assert_eq!(browser.tell(first), "code");
    for scheme in ["dark", "light"] {
        browser.prefer(scheme, "screen");
        let colour = "getComputedStyle(document.querySelector('#map > button')).color";
        let told = browser.tell(colour);
        // Letters are light on dark, and dark on light.
        let is_dark = told.as_str().unwrap() == "rgb(233, 230, 223)";
        assert_eq!(is_dark, scheme == "dark", "{told}");
    }
    browser.prefer("dark", "screen");
    browser.keep_picture("moment-dark", true);
    browser.size(390, 844);
    browser.until("document.documentElement.scrollWidth <= 390");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn hostile_names_are_text_and_nothing_is_drawn_of_nothing() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";
    let plain = String::from_utf8(page(&sample("Session"))).unwrap();
    let page = String::from_utf8(page(&sample(hostile))).unwrap();
    assert_eq!(page.matches('<').count(), plain.matches('<').count());
    let Some(mut browser) = showing("moment-hostile", &sample(hostile)) else { return };
    browser.click("#toolbar button:last-child");
    browser.click("#map > button:first-child");
    browser.key("Enter");
    assert!(browser.text("#inside").contains("</script><script>alert(1)"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.open(&super::browser_tests::page(&CensusReport::default()));
    assert_eq!(browser.tell(CRUMBS), "memory");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
