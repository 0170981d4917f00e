//! Pages for people.

use std::{fmt::Write as _, io};

use heapattach_export::html::{SourceFile, write_data, write_live};
use heapattach_ledger::Ledger;

use super::{Sources, unknown};
use crate::{
    answer::{Answer, kind},
    page_source::Shown,
    stop::Stop,
    target::Target,
};

/// What a page may do: nothing but what is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The page of a recording, as it is now; it asks for what comes by itself.
pub fn of(target: &Target, stop: &Stop) -> Answer {
    written(target, stop, kind::HTML, write_live).with("Content-Security-Policy", POLICY)
}

/// A page that is whole.
pub fn fixed(page: &[u8]) -> Answer {
    Answer::ok(kind::HTML, page).with("Content-Security-Policy", POLICY)
}

/// What the page shows, as it is now.
pub fn data(target: &Target, stop: &Stop) -> Answer {
    written(target, stop, kind::JSON, write_data)
}

/// How a page, or what it shows, is written.
type Write = fn(
    &Ledger,
    bool,
    &mut dyn FnMut(&str) -> Option<SourceFile>,
    &mut dyn io::Write,
) -> io::Result<()>;

fn written(target: &Target, stop: &Stop, kind: &'static str, write: Write) -> Answer {
    match target.shown(stop) {
        Err(why) => unknown(&why),
        Ok(Shown { ledger, is_over }) => {
            let mut read = |file: &str| target.source(file, ledger.about.began);
            let mut bytes = Vec::new();
            // To memory: nothing can go wrong.
            let _ = write(&ledger, is_over, &mut read, &mut bytes);
            Answer::ok(kind, bytes)
        }
    }
}

/// Where the pages of several are.
pub fn list(sources: &Sources) -> Answer {
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><title>heapattach</title>\
         <h1>heapattach</h1><ul>",
    );
    for target in sources.targets.now() {
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
