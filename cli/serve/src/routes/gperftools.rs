//! What google-pprof and jeprof ask for.

use std::{collections::BTreeMap, fmt::Write};

use heapattach_export::write_addresses;
use heapattach_ledger::{Ledger, Memory};

use super::unknown;
use crate::{
    answer::{Answer, Status, kind},
    http::{Method, Request},
    target::Target,
};

/// So many addresses are looked up in one go.
const MOST: usize = 100_000;

/// What is in use, by addresses.
pub fn heap(target: &Target) -> Answer {
    text(target, |ledger| ledger)
}

/// What was mapped, and still is.
pub fn growth(target: &Target) -> Answer {
    text(target, |ledger| ledger.of(Memory::Mapped))
}

fn text(target: &Target, of: impl FnOnce(Ledger) -> Ledger) -> Answer {
    match target.ledger() {
        Err(why) => unknown(&why),
        Ok(ledger) => {
            let mut text = Vec::new();
            let ledger = of((*ledger).clone());
            let _ = write_addresses(&ledger, &mut text);
            Answer::ok(kind::BYTES, text)
        }
    }
}

/// Which program it is; its arguments may be secret.
pub fn cmdline(target: &Target, show_args: bool, between: char) -> Answer {
    match target.ledger() {
        Err(why) => unknown(&why),
        Ok(ledger) => {
            let words: Vec<_> = ledger.about.command.split(' ').collect();
            let told = if show_args { &words[..] } else { &words[..1] };
            Answer::ok(kind::TEXT, told.join(&between.to_string()))
        }
    }
}

/// The names of addresses, `0x1234+0x5678`; without any: that there are names.
pub fn symbol(target: &Target, request: &Request) -> Answer {
    if request.method != Method::Post {
        return Answer::ok(kind::TEXT, "num_symbols: 1\n");
    }
    let Ok(asked) = std::str::from_utf8(&request.body) else {
        return Answer::no(Status::BadRequest, "these are no addresses");
    };
    let ledger = match target.ledger() {
        Ok(ledger) => ledger,
        Err(why) => return unknown(&why),
    };
    let names = names(&ledger);
    let mut out = String::new();
    for word in asked.trim().split('+').take(MOST) {
        let address = u64::from_str_radix(word.trim().trim_start_matches("0x"), 16).ok();
        // Readers ask for the call, one byte before the address that it returns to.
        let find = |address: u64| names.get(&address).or_else(|| names.get(&(address + 1)));
        if let Some(name) = address.filter(|address| *address < u64::MAX).and_then(find) {
            let _ = writeln!(out, "{word}\t{name}");
        }
    }
    Answer::ok(kind::TEXT, out)
}

/// By address, the function and those that are inlined there.
fn names(ledger: &Ledger) -> BTreeMap<u64, String> {
    let name = |function: u32| ledger.functions.get(function as usize).map_or("?", |f| &f.name);
    let named = ledger.locations.iter().map(|location| {
        let names = location.lines.iter().rev().map(|line| name(line.function));
        let names: Vec<_> = names.collect();
        (location.address, names.join("--").replace(['\t', '\n', '\r'], " "))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn addresses_have_the_names_of_the_ledger() {
        let ledger = sample::ledger();
        let names = names(&ledger);
        let location = &ledger.locations[0];
        let last = location.lines.last().unwrap().function as usize;
        assert!(names[&location.address].starts_with(&ledger.functions[last].name));
    }
}
