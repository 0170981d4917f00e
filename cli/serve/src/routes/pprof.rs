//! Profiles in pprof's format, under the names that Go's programs have for them.

use std::sync::Arc;

use heapattach_export::{Format, write, write_difference, write_slot};
use heapattach_ledger::{Ledger, Metric};

use super::{seconds, unknown};
use crate::{
    answer::{Answer, Status, kind},
    http::Request,
    stop::Stop,
    target::{Target, without_live},
};

/// What is in use and what was allocated since the attach; `seconds`: what became more and less meanwhile.
pub fn heap(target: &Target, request: &Request, stop: &Stop) -> Answer {
    profile(target, request, stop, Metric::Live)
}

/// The same, what was allocated first.
pub fn allocs(target: &Target, request: &Request, stop: &Stop) -> Answer {
    profile(target, request, stop, Metric::Allocated)
}

fn profile(target: &Target, request: &Request, stop: &Stop, first: Metric) -> Answer {
    let time = match seconds(request) {
        Ok(time) => time,
        Err(answer) => return answer,
    };
    let is_text = request.query.get("debug").is_some_and(|debug| debug != "0");
    let before = match time.map(|_| target.ledger()).transpose() {
        Ok(before) => before,
        Err(why) => return unknown(&why),
    };
    if let Some(time) = time {
        stop.wait(time);
    }
    match (target.ledger(), before) {
        (Err(why), _) => unknown(&why),
        (Ok(now), _) if is_text => {
            let mut text = Vec::new();
            let _ = write(&now, Format::Heapprofile, first, &mut text);
            Answer::ok(kind::TEXT, text)
        }
        (Ok(now), before) => file(&now, before.as_deref(), first),
    }
}

/// What was allocated in `seconds`, or since this was asked for the last time, with what is in use now.
pub fn delta_heap(target: &Target, request: &Request, stop: &Stop) -> Answer {
    let ledgers = match seconds(request) {
        Err(answer) => return answer,
        Ok(None) => target.since_told(),
        Ok(Some(time)) => target.ledger().and_then(|before| {
            stop.wait(time);
            Ok((target.ledger()?, Some(before)))
        }),
    };
    let (now, before): (Arc<Ledger>, Option<Arc<Ledger>>) = match ledgers {
        Ok(ledgers) => ledgers,
        Err(why) => return unknown(&why),
    };
    let before = before.map(|before| without_live(&before));
    file(&now, before.as_ref(), Metric::Live)
}

/// Of one that is watched for a slot: what was allocated in it until now, and what of that survived.
pub fn slot(target: &Target, request: &Request) -> Answer {
    for option in ["seconds", "debug"] {
        if request.query.get(option).is_some_and(|value| value != "0") {
            return Answer::no(Status::BadRequest, format!("a slot is told without `{option}`"));
        }
    }
    match target.ledger() {
        Err(why) => unknown(&why),
        Ok(ledger) => {
            let mut bytes = Vec::new();
            let _ = write_slot(&ledger, &mut bytes);
            attachment(bytes)
        }
    }
}

fn file(now: &Ledger, before: Option<&Ledger>, first: Metric) -> Answer {
    let mut bytes = Vec::new();
    // To memory: nothing can go wrong.
    let _ = match before {
        None => write(now, Format::Pprof, first, &mut bytes),
        Some(before) => write_difference(now, before, Format::Pprof, first, &mut bytes),
    };
    attachment(bytes)
}

fn attachment(bytes: Vec<u8>) -> Answer {
    let name = "attachment; filename=\"heap.pb.gz\"";
    Answer::ok(kind::BYTES, bytes).with("Content-Disposition", name)
}
