//! The page without a pointer, in a real browser: every control is reached, and what a key does is told.

use heapattach_ledger::{EndReason, Ledger, sample};
use serde_json::json;

use super::{
    committed_tests::kept,
    program,
    reader::{crumbs, showing},
};

/// What has the focus, in one word.
const FOCUSED: &str = "(() => { const e = document.activeElement; return e.id || e.dataset.metric || e.dataset.value || \
     e.closest('[data-call]')?.dataset.call || e.closest('[data-column]')?.dataset.column || \
     e.getAttribute('aria-label') || e.textContent; })()";

#[test]
fn every_control_is_reached_in_the_order_of_the_page() {
    let Some(mut browser) = showing("tab", &program::server(3, 65_536), None) else { return };
    let all = "(() => { const all = [...document.querySelectorAll('a, button, input, select, summary, \
        [tabindex=\"0\"]')].filter((e) => e.getClientRects().length > 0 && !e.disabled); \
        globalThis.reached = new Set(); globalThis.wanted = all; return all.length; })()";
    let number = browser.tell(all).as_u64().unwrap();
    assert!(number > 40, "{number}");
    let mut last = json!(-1.0);
    for _ in 0..number {
        browser.key("Tab");
        browser.tell("globalThis.reached.add(document.activeElement); 0");
        let at = browser.tell("wanted.indexOf(document.activeElement)");
        assert!(at.as_f64() > last.as_f64(), "{at} after {last}: {}", browser.tell(FOCUSED));
        // It is seen where the focus is.
        let is_seen = "document.activeElement.id === 'flame' || document.activeElement.closest('.handle') \
            !== null || getComputedStyle(document.activeElement).outlineStyle !== 'none'";
        assert_eq!(browser.tell(is_seen), true, "{}", browser.tell(FOCUSED));
        last = at;
    }
    assert_eq!(browser.tell("wanted.filter((e) => !reached.has(e)).length"), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn arrow_keys_move_in_tables_and_the_help_lists_them() {
    let Some(mut browser) = showing("table-keys", &sample::ledger(), None) else { return };
    browser.tell("document.querySelector('#sites th button').focus()");
    let name = "document.activeElement.textContent";
    browser.key("ArrowDown");
    assert_eq!(browser.tell(name), "main");
    browser.key("End");
    assert_eq!(browser.tell(name), "work<int>");
    browser.key("ArrowRight");
    assert_eq!(browser.tell("document.querySelectorAll('#sites .open').length"), 1);
    assert_eq!(browser.tell(name), "work<int>");
    browser.key("ArrowLeft");
    assert_eq!(browser.tell("document.querySelectorAll('#sites .open').length"), 0);
    browser.key("Home");
    assert_eq!(browser.tell(name), "make_node");
    browser.tell("document.querySelector('#sites-head button').focus()");
    browser.key("ArrowRight");
    browser.key("ArrowRight");
    assert_eq!(browser.tell(FOCUSED), "1");
    browser.tell("document.querySelector('#tiles button').focus()");
    browser.key("End");
    assert_eq!(browser.tell(FOCUSED), "5");
    browser.key("?");
    assert_eq!(browser.tell("byId('help').open"), true);
    for key in ["Arrow keys", "Enter", "Escape", "Home", "search"] {
        assert!(browser.text("#help").contains(key), "{key}");
    }
    browser.key("Escape");
    browser.until("!byId('help').open");
    assert_eq!(browser.tell(FOCUSED), "5", "the focus is where it was");
    // In a field of text it is a letter.
    browser.key("/");
    browser.key("?");
    assert_eq!(browser.tell("byId('help').open"), false);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_picture_is_there_as_text_and_zooms() {
    let Some(mut browser) = showing("text", &sample::ledger(), None) else { return };
    browser.click("#flame-text summary");
    let told = "[...document.querySelectorAll('#flame-text tbody tr')].map((e) => \
        e.innerText.replace(/\\s+/g, ' '))";
    browser.until(&format!("{told}.length > 0"));
    let rows = browser.tell(told);
    assert_eq!(rows[0], "level 0: all stacks 103 KiB 100 %");
    assert_eq!(rows[3], "level 3: make_node 62.5 KiB 61 %", "{rows}");
    browser.tell("document.querySelectorAll('#flame-text tbody button')[2].focus()");
    browser.key("Enter");
    assert_eq!(crumbs(&mut browser), "All > main > grow_list");
    browser.until(&format!("{told}[0].startsWith('level 0: grow_list')"));
    assert_eq!(browser.tell("document.activeElement.textContent"), "level 0: grow_list");
    let course = browser.tell("document.querySelector('#timeline svg').getAttribute('aria-label')");
    let course = course.as_str().unwrap();
    assert!(course.contains("RSS: 9.54 MiB at the beginning, 9.73 MiB at the end"), "{course}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn nothing_moves_by_itself() {
    let style = include_str!("style.css");
    for moving in ["transition", "animation", "@keyframes", "scroll-behavior"] {
        assert!(!style.contains(moving), "{moving}: ask for prefers-reduced-motion");
    }
}

#[test]
fn calls_of_an_interpreter_are_left_out_where_its_code_is_known() {
    let Some(mut browser) = showing("interpreter", &kept("python"), None) else { return };
    browser.click("[data-metric='1']");
    let names = "[...new Set(graph.picture.rectangles.filter((r) => !r.rest && r.frame.parent) \
        .map((r) => nameOf(graph.sorted, r.frame)))].join()";
    let frames = "graph.picture.rectangles.length";
    let (hidden, number) = (browser.tell(names), browser.tell(frames).as_u64().unwrap());
    browser.click("#interpreters");
    let (shown, more) = (browser.tell(names), browser.tell(frames).as_u64().unwrap());
    assert!(more > number && shown.as_str().unwrap().contains("PyEval_EvalCode"), "{shown}");
    assert!(!hidden.as_str().unwrap().contains("PyEval_EvalCode"), "{hidden}");
    let roots =
        "graph.sorted.children(graph.sorted.root()).map((f) => nameOf(graph.sorted, f)).join()";
    assert_eq!(browser.tell(roots), "_start", "where a program begins is no interpreter's");
    // The sums are the same: frames are left out, not stacks.
    let weight = "rowWeights().reduce((a, b) => a + b, 0)";
    let all = browser.tell(weight);
    browser.click("#interpreters");
    assert_eq!(browser.tell(weight), all);
    assert!(browser.text("#about-list").contains("functions that an interpreter runs"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let Some(mut browser) = showing("no-interpreter", &sample::ledger(), None) else { return };
    assert_eq!(browser.tell("byId('interpreters')"), json!(null));
}

/// V8 and Java put what they generate into one module, the program's functions and their own.
#[test]
fn generated_code_of_the_engine_is_left_out_beside_that_of_the_script() {
    let mut ledger: Ledger = sample::ledger();
    ledger.modules[0].path = "[anonymous]".to_owned();
    let main = ledger.functions.iter().position(|function| function.name == "main").unwrap();
    ledger.functions[main].name = "Builtin:JSEntry".to_owned();
    let Some(mut browser) = showing("generated", &ledger, None) else { return };
    // One stack has nothing but the engine's calls: there they stay.
    let roots =
        "graph.sorted.children(graph.sorted.root()).map((f) => nameOf(graph.sorted, f)).join()";
    let hidden = browser.tell(roots);
    let hidden = hidden.as_str().unwrap();
    assert!(hidden.contains("grow_list") && hidden.contains("Builtin:JSEntry"), "{hidden}");
    browser.click("#interpreters");
    let shown = browser.tell(roots);
    let shown = shown.as_str().unwrap();
    assert!(!shown.contains("grow_list") && shown.contains("Builtin:JSEntry"), "{shown}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn what_is_no_function_is_explained_where_it_is_met() {
    let mut ledger: Ledger = sample::ledger();
    ledger.stacks.edit(0, |stack| stack.end = EndReason::NoTable);
    ledger.about.ends = [(EndReason::Outermost, 3), (EndReason::NoTable, 1)].into();
    ledger.functions[3].name = "list+0x2200".to_owned();
    let Some(mut browser) = showing("marks", &ledger, None) else { return };
    let why = "in code without unwind information";
    assert!(browser.text("#legend").contains(&format!("[cut: no unwind table]: stacks cut {why}")));
    for name in
        ["[cut: no unwind table]: stacks cut", "module+0x123: a function without debug symbols"]
    {
        assert!(browser.text("#about-list").contains(name), "{name}");
    }
    let tips =
        browser.tell("graph.picture.rectangles.map((r) => describe(r).join('; ')).join('\\n')");
    let tips = tips.as_str().unwrap();
    assert!(tips.contains(&format!("Not a function: the stack is cut here, {why}.")), "{tips}");
    assert!(tips.contains("No debug symbols: the number is the offset in the module."), "{tips}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_control_group_has_an_axis_of_its_own_that_is_off_at_first() {
    let Some(mut browser) = showing("group", &program::server(3, 65_536), None) else { return };
    let lines = "document.querySelectorAll('#timeline .of-cgroup').length";
    assert_eq!(browser.tell(lines), 0);
    assert!(!browser.text("#window-text").contains("control group"));
    let height = browser.tell("byId('timeline').clientHeight").as_f64();
    browser.click("#group");
    assert!(browser.tell(lines).as_u64() > Some(0));
    assert!(browser.tell("byId('timeline').clientHeight").as_f64() > height);
    assert!(browser.text("#window-text").contains("control group"));
    browser.until("location.hash === '#group=1'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let Some(mut browser) = showing("no-group", &sample::ledger(), None) else { return };
    assert_eq!(browser.tell("byId('group')"), json!(null));
}
