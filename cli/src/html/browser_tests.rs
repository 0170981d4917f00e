//! The page in a real browser: what a reader does with pointer and keys, and what then stands there.

use super::{browser::Browser, program};
use crate::ledger::Ledger;

#[test]
fn placeholder_pictures() {
    let Some(mut browser) = Browser::start("pictures") else { panic!() };
    let page = |ledger: &Ledger, base: Option<&Ledger>| {
        let mut page = Vec::new();
        super::write(ledger, base, &mut page).unwrap();
        page
    };
    let folder = std::env::var("HEAPATTACH_PICTURES").unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    let pages = [
        ("server", page(&program::server(3, 65_536), None)),
        ("exact", page(&program::server(3, 1), None)),
        ("diff", page(&program::server(9, 65_536), Some(&program::server(3, 65_536)))),
        ("large", page(&program::large(100_000, 1), None)),
        ("large-sampled", page(&program::large(100_000, 524_288), None)),
    ];
    for (name, page) in pages {
        std::fs::write(format!("{folder}/{name}.html"), &page).unwrap();
        println!("{name}: {} bytes, {:?}", page.len(), browser.open(&page));
        browser.keep_picture(name, true);
        println!("{:?}", browser.complaints());
    }
}
