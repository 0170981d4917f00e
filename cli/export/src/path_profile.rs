//! A profile whose frames are no calls: steps of a path, for `go tool pprof`.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use flate2::{Compression, write::GzEncoder};

use super::{
    harmless,
    pprof::{field, protobuf::Message},
};

/// Texts by number.
#[derive(Default)]
struct Texts {
    numbers: HashMap<String, u64>,
    all: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(&known) = self.numbers.get(text) {
            return known;
        }
        let number = self.all.len() as u64;
        self.numbers.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }
}

/// The profile, as it is written.
pub struct PathProfile {
    profile: Message,
    texts: Texts,
    places: Texts,
}

impl PathProfile {
    /// With two values a sample: objects and bytes.
    pub fn new(objects: &str, bytes: &str) -> Self {
        let mut profile = Message::default();
        let (mut texts, places) = (Texts::default(), Texts::default());
        texts.number("");
        for (kind, unit) in [(objects, "count"), (bytes, "bytes")] {
            let mut message = Message::default();
            message.number(1, texts.number(kind));
            message.number(2, texts.number(unit));
            profile.message(field::SAMPLE_TYPE, &message);
        }
        profile.number(field::DEFAULT_SAMPLE_TYPE, texts.number(bytes));
        Self { profile, texts, places }
    }

    /// Adds a path, its innermost step first.
    pub fn add<'f>(&mut self, frames: impl Iterator<Item = &'f str>, values: [u64; 2]) {
        // No identity is 0.
        let ids: Vec<u64> =
            frames.map(|frame| self.places.number(&harmless::line(frame)) + 1).collect();
        let mut sample = Message::default();
        sample.numbers(1, ids);
        sample.numbers(2, values);
        self.profile.message(field::SAMPLE, &sample);
    }

    /// All of it, compressed.
    ///
    /// # Errors
    /// Never: it is written to memory.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        let Self { mut profile, mut texts, places } = self;
        for (id, place) in (1..).zip(&places.all) {
            let (mut line, mut location) = (Message::default(), Message::default());
            line.number(1, id);
            location.number(1, id);
            location.message(4, &line);
            profile.message(field::LOCATION, &location);
            let mut function = Message::default();
            function.number(1, id);
            // With a system name, too, pprof would take a path for a name of C++ and cut off its types.
            function.number(2, texts.number(place));
            profile.message(field::FUNCTION, &function);
        }
        for text in &texts.all {
            profile.bytes(field::STRING, text.as_bytes());
        }
        let mut out = GzEncoder::new(Vec::new(), Compression::fast());
        out.write_all(profile.as_bytes())?;
        out.finish()
    }
}
