//! Pages for people.

use std::fmt::Write;

use super::{Sources, unknown};
use crate::{
    answer::{Answer, kind},
    target::Target,
};

/// What a page may do: nothing but what is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The page of a recording, as it is now.
pub fn of(target: &Target) -> Answer {
    match target.ledger() {
        Err(why) => unknown(&why),
        Ok(ledger) => {
            let mut page = Vec::new();
            let _ = heapattach_export::html::write(&ledger, None, &mut page);
            Answer::ok(kind::HTML, page).with("Content-Security-Policy", POLICY)
        }
    }
}

/// Where the pages of several are.
pub fn list(sources: &Sources) -> Answer {
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><title>heapattach</title>\
         <h1>heapattach</h1><ul>",
    );
    for target in &sources.targets {
        let (pid, name) = (target.pid, harmless(&target.name));
        let _ = write!(page, "<li><a href=\"/p/{pid}/\">{name} ({pid})</a></li>");
    }
    page += "</ul></html>\n";
    Answer::ok(kind::HTML, page).with("Content-Security-Policy", POLICY)
}

/// Text as a page has it.
fn harmless(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
