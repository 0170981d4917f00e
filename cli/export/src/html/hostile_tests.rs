//! Hostile names, numbers and sizes, in a real browser.

use super::{
    program,
    reader::{page, showing},
};
use heapattach_ledger::{EndReason, Ledger, RecordedOutcome, sample};

const HOSTILE: [&str; 7] = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "${document.title='owned'}",
    "__proto__",
    "constructor",
    "'\"><svg onload=document.title='owned'>",
    "\u{2028}\u{2029}\u{0}]]>--><!--",
];

#[test]
fn hostile_names_are_text_everywhere() {
    let mut ledger = sample::ledger();
    for (function, name) in ledger.functions.iter_mut().zip(HOSTILE) {
        (function.name, function.file) = (name.to_owned(), name.to_owned());
    }
    ledger.functions[3].name = "x".repeat(2048);
    ledger.modules[0].path = HOSTILE[1].to_owned();
    ledger.threads[1].name = HOSTILE[5].to_owned();
    ledger.about.command = HOSTILE[0].to_owned();
    ledger.about.outcome = HOSTILE[1].to_owned().into();
    ledger.about.version = HOSTILE[5].to_owned();
    ledger.about.blind = HOSTILE.map(str::to_owned).to_vec();
    ledger.about.missing_symbols = HOSTILE.map(str::to_owned).to_vec();
    ledger.about.ends = [(EndReason::Unknown, u64::MAX), (EndReason::NoTable, u64::MAX)].into();
    ledger.about.lasted_ms = u64::MAX;
    ledger.about.began = u64::MAX;
    ledger.stacks.edit(1, |stack| stack.end = EndReason::Unknown);
    ledger.stacks.edit(2, |stack| stack.cause = u32::MAX);
    ledger.stacks.edit(0, |stack| stack.locations.clear());
    ledger.stacks.edit(1, |stack| stack.locations = vec![1; 5000]);
    ledger.moments[7].live = f64::MAX;
    ledger.moments[8].live = -1.0;
    ledger.rows[0].mapped_live = u64::MAX;
    ledger.total.mapped_live = u64::MAX;
    let Some(mut browser) = showing("hostile", &ledger, Some(&sample::ledger())) else { return };
    for compared in [true, false] {
        if !compared {
            browser.open(&page(&ledger, None));
        }
        for click in [
            "[data-metric='5']",
            "[data-metric='1']",
            "#toolbar [data-value=up]",
            "#lines",
            "#allocators",
        ] {
            browser.click(click);
        }
        browser.click("#sites tr:nth-child(1) button");
        browser.click("#search");
        browser.write("<img");
        browser.tell("graph.picture.rectangles.forEach((r) => describe(r))");
        assert_eq!(browser.text("#command"), HOSTILE[0]);
        assert_eq!(
            browser.tell("document.querySelectorAll('img, iframe, object, link').length"),
            0
        );
        assert_eq!(browser.tell("document.scripts.length"), 3);
        assert_ne!(browser.tell("document.title"), "owned");
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn the_policy_admits_no_other_script_style_or_request() {
    let Some(mut browser) = showing("policy", &sample::ledger(), None) else { return };
    let page = String::from_utf8(page(&sample::ledger(), None)).unwrap();
    let inserted = "<script>document.title = 'owned'</script><style>body { color: red }</style>\
         <img src='http://127.0.0.1:9/x' onerror=\"document.title = 'owned'\">";
    browser.open(page.replace("<main>", &format!("{inserted}<main>")).as_bytes());
    assert_ne!(browser.tell("document.title"), "owned");
    assert_ne!(browser.tell("getComputedStyle(document.body).color"), "rgb(255, 0, 0)");
    let breaches =
        browser.complaints().iter().filter(|text| text.contains("Content Security")).count();
    assert!(breaches >= 3, "{:?}", browser.complaints());
}

#[test]
fn what_is_lost_is_said_first() {
    let mut ledger = sample::ledger();
    let Some(mut browser) = showing("loss", &ledger, None) else { return };
    assert_eq!(browser.text("#loss"), "no records dropped");
    ledger.about.outcome = RecordedOutcome::None;
    browser.open(&page(&ledger, None));
    assert_eq!(browser.text("#loss"), "no records dropped so far");
    ledger.about.loss.frees = 12;
    browser.open(&page(&ledger, None));
    assert_eq!(browser.text("#loss"), "records are missing");
    let about = browser.text("#about-list");
    assert!(about.contains("12 records of freed blocks were dropped"), "{about}");
    let nothing = Ledger::default();
    browser.open(&page(&nothing, None));
    assert_eq!(browser.text("#headline"), "Nothing was found by this measure.");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_hundred_thousand_stacks_open_and_zoom_at_once() {
    let ledger = program::large(100_000, 524_288);
    let Some(mut browser) = showing("large", &sample::ledger(), None) else { return };
    let began = std::time::Instant::now();
    let page = page(&ledger, None);
    println!("written in {:?}", began.elapsed());
    let opened = browser.open(&page);
    let mut work = browser.work();
    println!("opened: {work:.2} s of processor time");
    for (name, what) in [
        ("zoom", "zoom(graph.picture.rectangles[5].frame)"),
        ("turn", "update({ direction: 'up', path: [] })"),
        ("measure", "update({ metric: 1 })"),
        ("search", "update({ query: 'method_12' })"),
        ("sort", "sortBy('2')"),
        ("describe", "describe(graph.picture.rectangles[0])"),
    ] {
        browser.tell(&format!("{what}; 0"));
        let took = browser.work() - work;
        println!("{name}: {took:.2} s");
        assert!(took < 6.0, "{name}: {took} s");
        work += took;
    }
    println!("{} bytes, open in {opened:?}", page.len());
    assert!(browser.keep_picture("large", false) > 20_000);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
