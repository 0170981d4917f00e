//! Backends that profiles are sent to, as strict as the real ones: their rules, made from their field numbers.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use flate2::read::GzDecoder;
use serde_json::Value;

/// How a request is answered.
#[derive(Clone, Debug)]
pub enum Manner {
    /// As the real one does.
    Strict,
    /// With this status line, these header lines and this text; `{token}` is what the request had.
    Status(&'static str, &'static str, &'static str),
    /// As the real one does, after so long.
    Slow(Duration),
    /// A letter a second, without end.
    Trickle,
    /// Not at all, for as long as the other side waits.
    Silent,
    /// The connection breaks in the middle of it.
    Reset,
}

/// A request that was taken.
#[derive(Clone, Debug)]
pub struct Taken {
    pub head: String,
    pub labels: BTreeMap<String, String>,
    pub profiles: Vec<Pprof>,
}

/// A profile, read.
#[derive(Clone, Debug, Default)]
pub struct Pprof {
    /// The sum of each type.
    pub sums: BTreeMap<String, u64>,
    pub samples: usize,
    pub duration_nanos: u64,
    pub time_nanos: u64,
    pub names: Vec<String>,
    /// The message that it was read from: of OTLP the whole request.
    pub message: Vec<u8>,
}

/// A backend.
pub struct Stub {
    /// `127.0.0.1:PORT`.
    pub host: String,
    taken: Arc<Mutex<Vec<Taken>>>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    /// Answers the requests, by their numbers, as `manner` says.
    pub fn start(manner: impl Fn(usize) -> Manner + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a port"), manner)
    }

    /// The same on a port that is listened on.
    pub fn on(
        listener: TcpListener,
        manner: impl Fn(usize) -> Manner + Send + Sync + 'static,
    ) -> Self {
        let host = listener.local_addr().expect("an address").to_string();
        let stub = Self { host, taken: Arc::default(), refused: Arc::default() };
        let (taken, refused) = (stub.taken.clone(), stub.refused.clone());
        let (manner, number) = (Arc::new(manner), Arc::new(Mutex::new(0)));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (taken, refused) = (taken.clone(), refused.clone());
                let (manner, number) = (manner.clone(), number.clone());
                thread::spawn(move || {
                    let next = || {
                        let mut number = number.lock().expect("no panic");
                        *number += 1;
                        manner(*number - 1)
                    };
                    while let Some(result) = serve(&stream, &next) {
                        match result {
                            Ok(one) => taken.lock().expect("no panic").push(one),
                            Err(why) => refused.lock().expect("no panic").push(why),
                        }
                    }
                });
            }
        });
        stub
    }

    /// All that was taken.
    pub fn taken(&self) -> Vec<Taken> {
        self.taken.lock().expect("no panic").clone()
    }

    /// Why something was not.
    pub fn refused(&self) -> Vec<String> {
        self.refused.lock().expect("no panic").clone()
    }

    /// The sum of a type over all that was taken.
    pub fn sum(&self, kind: &str) -> u64 {
        let taken = self.taken();
        let profiles = taken.iter().flat_map(|one| &one.profiles);
        profiles.filter_map(|profile| profile.sums.get(kind)).sum()
    }

    /// A type in the last one that has it.
    pub fn last(&self, kind: &str) -> u64 {
        let taken = self.taken();
        let mut profiles = taken.iter().rev().flat_map(|one| &one.profiles);
        profiles.find_map(|profile| profile.sums.get(kind).copied()).unwrap_or(0)
    }
}

/// One request of a connection; nothing at its end.
fn serve(stream: &TcpStream, next: &dyn Fn() -> Manner) -> Option<Result<Taken, String>> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head += &line;
    }
    if head.starts_with("CONNECT ") {
        // A proxy that is a backend, too.
        (&*stream).write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
        return Some(Err("proxied".to_owned()));
    }
    let manner = next();
    let find = |name: &str| {
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    };
    let length: usize = find("content-length")?.parse().ok()?;
    if matches!(manner, Manner::Reset) {
        // What is not read makes of the end a reset.
        return None;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = |status: &str, lines: &str, text: &str| {
        let length = text.len();
        let answer = format!("HTTP/1.1 {status}\r\n{lines}Content-Length: {length}\r\n\r\n{text}");
        (&*stream).write_all(answer.as_bytes()).ok()
    };
    match manner {
        Manner::Reset => None,
        Manner::Trickle => {
            let mut letters = b"HTTP/1.1 200 OK\r\nX: ".iter().chain(std::iter::repeat(&b'x'));
            // Until the other side has enough of it.
            while (&*stream).write_all(&[*letters.next()?]).is_ok() {
                thread::sleep(Duration::from_secs(1));
            }
            None
        }
        Manner::Silent => {
            // Until the other side has enough of it.
            let _ = reader.read_to_end(&mut Vec::new());
            None
        }
        Manner::Status(status, lines, text) => {
            let token = find("authorization").unwrap_or_default();
            answer(status, lines, &text.replace("{token}", &token))?;
            Some(Err(status.to_owned()))
        }
        Manner::Strict | Manner::Slow(_) => {
            if let Manner::Slow(time) = manner {
                thread::sleep(time);
            }
            let result = match head.lines().next().and_then(|line| line.split(' ').nth(1)) {
                Some("/push.v1.PusherService/Push") => pyroscope(&head, &body),
                Some("/api/profiles/writeraw") => parca(&head, &body),
                Some("/v1development/profiles") => otlp(&head, &body),
                other => Err(format!("{other:?} is not a path")),
            };
            match &result {
                Ok(_) => answer("200 OK", "", "{}")?,
                Err(why) => answer("400 Bad Request", "", why)?,
            }
            Some(result)
        }
    }
}

fn pyroscope(head: &str, body: &[u8]) -> Result<Taken, String> {
    check(head.to_lowercase().contains("content-type: application/proto\r\n"), "content type")?;
    let [series] = &all(body, 1)?[..] else { return Err("one series".to_owned()) };
    let mut labels = BTreeMap::new();
    for label in all(series, 1)? {
        let text = |field| {
            Ok::<_, String>(String::from_utf8_lossy(&all(&label, field)?.concat()).into_owned())
        };
        labels.insert(text(1)?, text(2)?);
    }
    check(labels.len() <= 30, "30 labels")?;
    check(labels.get("__name__").is_some_and(|name| name == "memory"), "__name__")?;
    check(labels.get("__delta__").is_some_and(|delta| delta == "false"), "__delta__")?;
    check(labels.contains_key("service_name"), "service_name")?;
    let [sample] = &all(series, 2)?[..] else { return Err("one sample".to_owned()) };
    check(all(sample, 2)?.concat().len() == 36, "an ID")?;
    let profile = Pprof::read(&all(sample, 1)?.concat())?;
    check(profile.samples <= 16_000, "16000 samples")?;
    profile.is_young()?;
    Ok(Taken { head: head.to_owned(), labels, profiles: vec![profile] })
}

fn parca(head: &str, body: &[u8]) -> Result<Taken, String> {
    let json: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let series = &json["series"][0];
    let labels = series["labels"]["labels"].as_array().ok_or("labels")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels: BTreeMap<_, _> =
        labels.iter().map(|label| (text(&label["name"]), text(&label["value"]))).collect();
    check(labels.get("__name__").is_some_and(|name| name == "memory"), "__name__")?;
    let mut profiles = Vec::new();
    for sample in series["samples"].as_array().ok_or("samples")? {
        let profile = Pprof::read(&base64(&text(&sample["rawProfile"]))?)?;
        // With a duration every type becomes one of what happened in it.
        let is_delta = profile.duration_nanos > 0;
        for kind in profile.sums.keys() {
            let is_live = kind.starts_with("inuse") || kind.starts_with("mapped_live");
            check(is_live != is_delta, &format!("{kind} is a delta: {is_delta}"))?;
        }
        profile.is_young()?;
        profiles.push(profile);
    }
    Ok(Taken { head: head.to_owned(), labels, profiles })
}

/// Four profiles of one value each, with one dictionary.
fn otlp(head: &str, body: &[u8]) -> Result<Taken, String> {
    let lines = head.to_lowercase();
    check(lines.contains("content-type: application/x-protobuf\r\n"), "content type")?;
    check(lines.contains("content-encoding: gzip\r\n"), "content encoding")?;
    let mut bytes = Vec::new();
    GzDecoder::new(body).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let names: Vec<_> = all(&all(&bytes, 2)?.concat(), 5)?.iter().map(|name| text(name)).collect();
    check(names.first().is_some_and(String::is_empty), "the first entry is nothing")?;
    let resources = all(&bytes, 1)?.concat();
    let mut labels = BTreeMap::new();
    for attribute in all(&all(&resources, 1)?.concat(), 1)? {
        let value = all(&attribute, 2)?.concat();
        let number = fields(&value)?.iter().find(|field| field.0 == 3).map(|field| field.1);
        let value = number.map_or(text(&all(&value, 1)?.concat()), |number| number.to_string());
        labels.insert(text(&all(&attribute, 1)?.concat()), value);
    }
    let number = |message: &[u8], field| {
        let found = fields(message)?.into_iter().find(|(number, ..)| *number == field);
        Ok::<_, String>(found.map_or(0, |(_, number, _)| number))
    };
    let mut profiles = Vec::new();
    for profile in all(&all(&resources, 2)?.concat(), 2)? {
        let [kind] = &all(&profile, 1)?[..] else { return Err("rule: one type".to_owned()) };
        let kind = names.get(usize::try_from(number(kind, 1)?).unwrap_or(0)).ok_or("a name")?;
        let mut sum = 0;
        let samples = all(&profile, 2)?;
        for sample in &samples {
            let values = varints(&all(sample, 4)?.concat())?;
            check(values.len() == 1, "one value")?;
            sum += values[0];
        }
        let (time_nanos, duration_nanos) = (number(&profile, 3)?, number(&profile, 4)?);
        check(kind.starts_with("inuse") != (duration_nanos > 0), "what is in use has no duration")?;
        let (sums, samples) = (BTreeMap::from([(kind.clone(), sum)]), samples.len());
        let (names, message) = (names.clone(), bytes.clone());
        profiles.push(Pprof { sums, samples, duration_nanos, time_nanos, names, message });
    }
    check(profiles.len() == 4, "four profiles")?;
    Ok(Taken { head: head.to_owned(), labels, profiles })
}

fn check(is_right: bool, what: &str) -> Result<(), String> {
    is_right.then_some(()).ok_or_else(|| format!("rule: {what}"))
}

impl Pprof {
    fn read(file: &[u8]) -> Result<Self, String> {
        let mut bytes = Vec::new();
        GzDecoder::new(file).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        check(bytes.len() <= 4 << 20, "4 MiB")?;
        let names: Vec<_> =
            all(&bytes, 6)?.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let name = |index: u64| names.get(usize::try_from(index).ok()?).cloned();
        let number = |message: &[u8], field| {
            let found = fields(message)?.into_iter().find(|(number, ..)| *number == field);
            Ok::<_, String>(found.map_or(0, |(_, number, _)| number))
        };
        let mut kinds = Vec::new();
        for kind in all(&bytes, 1)? {
            kinds.push(name(number(&kind, 1)?).ok_or("a name of a type")?);
        }
        let mut sums: BTreeMap<_, u64> = kinds.iter().map(|kind| (kind.clone(), 0)).collect();
        let samples = all(&bytes, 2)?;
        for sample in &samples {
            check(all(sample, 3)?.is_empty(), "no labels of samples")?;
            let values = varints(&all(sample, 2)?.concat())?;
            check(values.len() == kinds.len(), "a value for each type")?;
            for (kind, value) in kinds.iter().zip(values) {
                check(i64::try_from(value).is_ok(), "nothing is less than nothing")?;
                *sums.entry(kind.clone()).or_default() += value;
            }
        }
        let (time_nanos, duration_nanos) = (number(&bytes, 9)?, number(&bytes, 10)?);
        let samples = samples.len();
        Ok(Self { sums, samples, duration_nanos, time_nanos, names, message: bytes })
    }

    /// Older than an hour it is not taken.
    fn is_young(&self) -> Result<(), String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age = now.saturating_sub(Duration::from_nanos(self.time_nanos));
        check(age < Duration::from_secs(3600), "an hour old")
    }
}

pub type Field<'a> = (u64, u64, &'a [u8]);

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or("a number ends early")?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number without end".to_owned())
}

fn varints(mut bytes: &[u8]) -> Result<Vec<u64>, String> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        all.push(varint(&mut bytes)?);
    }
    Ok(all)
}

/// The fields of a message: numbers, and bytes.
pub fn fields(mut bytes: &[u8]) -> Result<Vec<Field<'_>>, String> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        if key & 7 == 1 {
            let number = bytes.get(..8).ok_or("a number ends early")?;
            let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
            bytes = &bytes[8..];
            all.push((key >> 3, number, &[][..]));
            continue;
        }
        let number = varint(&mut bytes)?;
        let length = match key & 7 {
            0 => 0,
            2 => usize::try_from(number).map_err(|error| error.to_string())?,
            other => return Err(format!("wire type {other}")),
        };
        let content = bytes.get(..length).ok_or("a field ends early")?;
        bytes = &bytes[length..];
        all.push((key >> 3, number, content));
    }
    Ok(all)
}

pub fn all(message: &[u8], field: u64) -> Result<Vec<Vec<u8>>, String> {
    let found = fields(message)?.into_iter().filter(|(number, ..)| *number == field);
    Ok(found.map(|(_, _, bytes)| bytes.to_vec()).collect())
}

fn base64(text: &str) -> Result<Vec<u8>, String> {
    const SIGNS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    check(text.len().is_multiple_of(4), "whole groups of base64")?;
    let (mut out, mut bits, mut have) = (Vec::new(), 0_usize, 0);
    for sign in text.trim_end_matches('=').chars() {
        bits = (bits << 6 | SIGNS.find(sign).ok_or("a sign of base64")?) & 0xffff;
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have).to_le_bytes()[0]);
        }
    }
    Ok(out)
}
