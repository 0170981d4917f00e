//! Profiles of OpenTelemetry (`opentelemetry.proto.profiles.v1development`): the body of a request to
//! a collector.
//!
//! Four profiles of one value each, as its design for memory profiles has them: `alloc_space`,
//! `alloc_objects`, `inuse_space`, `inuse_objects`. All of them share one dictionary, whose tables begin
//! with an entry that stands for nothing. What is allocated is told of a span of time, what is in use of
//! its end: with a duration it would be taken for what came in that time.
//!
//! A stack begins with the call that caused the allocation, as in our pprof files. Threads are not told
//! apart: a backend makes a series of each.

mod dictionary;
mod stack;
#[cfg(test)]
mod tests;

use heapattach_ledger::{About, Ledger};
use sha2::{Digest, Sha256};

use crate::{
    harmless, notes,
    pprof::{Names, Place, StackRow, protobuf::Message, rows},
};
use dictionary::Dictionary;
use stack::Places;

/// What a request tells.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// Whose blocks in use are told.
    pub in_use: &'a Ledger,
    /// Whose allocations are told: those of the span below.
    pub allocated: &'a Ledger,
    /// When the span began, in nanoseconds since 1970.
    pub began_ns: u64,
    /// How long it lasted.
    pub lasted_ns: u64,
}

impl<'a> Sent<'a> {
    /// All of a session.
    pub fn of(ledger: &'a Ledger) -> Self {
        let About { began, lasted_ms, .. } = ledger.about;
        Self {
            in_use: ledger,
            allocated: ledger,
            began_ns: began.saturating_mul(1_000_000_000),
            lasted_ns: lasted_ms.saturating_mul(1_000_000),
        }
    }
}

/// One of the four.
struct Kind {
    is_of_span: bool,
    name: &'static str,
    unit: &'static str,
    /// Which of the values of a row.
    column: usize,
}

const KINDS: [Kind; 4] = [
    Kind { is_of_span: true, name: "alloc_space", unit: "bytes", column: 1 },
    Kind { is_of_span: true, name: "alloc_objects", unit: "count", column: 0 },
    Kind { is_of_span: false, name: "inuse_space", unit: "bytes", column: 3 },
    Kind { is_of_span: false, name: "inuse_objects", unit: "count", column: 2 },
];

/// What a request tells that is made of rows, as [`crate::rows`] has them: what was allocated, of the span.
#[derive(Clone, Copy, Debug)]
pub struct SentRows<'a> {
    /// Of which the stacks are.
    pub ledger: &'a Ledger,
    /// What is told.
    pub rows: &'a [StackRow],
    /// When the span began, in nanoseconds since 1970.
    pub began_ns: u64,
    /// How long it lasted.
    pub lasted_ns: u64,
    /// Who names code.
    pub names: Names,
}

/// The body of an `ExportProfilesServiceRequest`, not compressed; a `ProfilesData` has the same fields.
/// The resource is told with `labels`, and with the process and its program where these do not say so.
pub fn request(sent: &Sent<'_>, labels: &[(&str, &str)]) -> Vec<u8> {
    let Sent { began_ns, lasted_ns, .. } = *sent;
    let span = Span { began_ns, lasted_ns, names: Names::Ours };
    let in_use = rows(sent.in_use);
    if std::ptr::eq(sent.allocated, sent.in_use) {
        return put_together([(sent.in_use, &*in_use); 2], &span, labels);
    }
    let allocated = rows(sent.allocated);
    put_together([(sent.allocated, &*allocated), (sent.in_use, &*in_use)], &span, labels)
}

/// The same of rows.
pub fn request_rows(sent: &SentRows<'_>, labels: &[(&str, &str)]) -> Vec<u8> {
    let SentRows { ledger, rows, began_ns, lasted_ns, names } = *sent;
    put_together([(ledger, rows); 2], &Span { began_ns, lasted_ns, names }, labels)
}

/// The time that is told of, and who names code.
struct Span {
    began_ns: u64,
    lasted_ns: u64,
    names: Names,
}

/// Of the first part what was allocated, of the second what is in use.
fn put_together<'a>(
    parts: [(&Ledger, &'a [StackRow]); 2],
    span: &Span,
    labels: &[(&str, &str)],
) -> Vec<u8> {
    let about = &parts[1].0.about;
    let mut dictionary = Dictionary::default();
    let mut scope = Message::default();
    scope.bytes(1, b"heapattach");
    scope.bytes(2, harmless::line(&about.version).as_bytes());
    let mut profiles = Message::default();
    profiles.message(1, &scope);
    let mut tell = |(ledger, rows): (&Ledger, &'a [StackRow])| -> Told<'a> {
        let mut places = Places::new(ledger, span.names);
        let placed = rows.iter().map(|row| {
            let stack = match row.place {
                Place::Stack(stack) => Some(stack),
                Place::NotKept | Place::Other => None,
            };
            (places.stack(&mut dictionary, stack), row)
        });
        let placed = placed.collect();
        (placed, comment(&mut dictionary, &ledger.about), ledger.about.every)
    };
    let allocated = tell(parts[0]);
    let is_same = std::ptr::eq(parts[0].0, parts[1].0) && std::ptr::eq(parts[0].1, parts[1].1);
    let in_use = if is_same { None } else { Some(tell(parts[1])) };
    let in_use = in_use.as_ref().unwrap_or(&allocated);
    for kind in KINDS {
        let told = if kind.is_of_span { &allocated } else { in_use };
        let time = Time::of(span, kind.is_of_span);
        profiles.message(2, &profile(&mut dictionary, &kind, told, time));
    }
    let mut resources = Message::default();
    resources.message(1, &resource(about, labels));
    resources.message(2, &profiles);
    // Of a million stacks each of these is large.
    drop(profiles);
    let mut request = Message::default();
    request.message(1, &resources);
    drop(resources);
    request.message(2, &dictionary.finish());
    request.into_bytes()
}

/// Of when a profile is.
struct Time {
    at_ns: u64,
    lasted_ns: u64,
}

impl Time {
    fn of(span: &Span, is_of_span: bool) -> Self {
        let Span { began_ns, lasted_ns, .. } = *span;
        match is_of_span {
            true => Self { at_ns: began_ns, lasted_ns },
            false => Self { at_ns: began_ns.saturating_add(lasted_ns), lasted_ns: 0 },
        }
    }
}

/// Samples with their stacks, what is said of them, and the mean distance between records.
type Told<'a> = (Vec<(u64, &'a StackRow)>, u64, u64);

fn profile(dictionary: &mut Dictionary, kind: &Kind, told: &Told<'_>, time: Time) -> Message {
    let (rows, comment, every) = told;
    let mut profile = Message::default();
    profile.message(1, &value_type(dictionary, kind.name, kind.unit));
    let mut one = Message::default();
    for (stack, row) in rows {
        let value = row.values.get(kind.column).copied().unwrap_or(0);
        if value != 0 {
            one.clear();
            one.number(1, *stack);
            // A number with a sign there: what is greater is no memory.
            one.numbers(4, [value.min(i64::MAX.unsigned_abs())]);
            profile.message(2, &one);
        }
    }
    profile.fixed(3, time.at_ns);
    profile.number(4, time.lasted_ns);
    profile.message(5, &value_type(dictionary, "space", "bytes"));
    // A backend takes a period of 0 for none.
    profile.number(6, (*every).max(1).min(i64::MAX.unsigned_abs()));
    let digest = Sha256::digest(profile.as_bytes());
    profile.bytes(7, &digest[..16]);
    profile.numbers(11, [*comment]);
    profile
}

fn value_type(dictionary: &mut Dictionary, name: &str, unit: &str) -> Message {
    let mut kind = Message::default();
    kind.number(1, dictionary.text(name));
    kind.number(2, dictionary.text(unit));
    kind
}

/// How it was looked at, and what is missing: the attribute that conversions from pprof use.
fn comment(dictionary: &mut Dictionary, about: &About) -> u64 {
    let mut notes_of = Message::default();
    for note in notes::all(about) {
        notes_of.message(1, &text(&harmless::line(&note)));
    }
    let mut value = Message::default();
    value.message(5, &notes_of);
    dictionary.attribute("pprof.profile.comment", &value)
}

fn resource(about: &About, labels: &[(&str, &str)]) -> Message {
    let mut resource = Message::default();
    let mut add = |name: &str, value: &Message| {
        let mut attribute = Message::default();
        attribute.bytes(1, name.as_bytes());
        attribute.message(2, value);
        resource.message(1, &attribute);
    };
    let is_said = |name: &str| labels.iter().any(|(said, _)| *said == name);
    if !is_said("service.name") {
        add("service.name", &text(&harmless::line(program(&about.command))));
    }
    if !is_said("process.pid") {
        let mut pid = Message::default();
        pid.number(3, u64::from(about.pid.unsigned_abs()));
        add("process.pid", &pid);
    }
    for (name, value) in labels {
        add(&harmless::line(name), &text(&harmless::line(value)));
    }
    resource
}

/// The name of a program in a command line. The convention for a service without a name is the word.
fn program(command: &str) -> &str {
    let path = command.split(' ').next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    if name.is_empty() { "unknown_service" } else { name }
}

/// A value that is text.
fn text(text: &str) -> Message {
    let mut value = Message::default();
    value.bytes(1, text.as_bytes());
    value
}
