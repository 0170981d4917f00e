//! A profile read again, for tests.

use std::{collections::HashMap, io::Read};

use flate2::read::GzDecoder;

use super::{
    field,
    protobuf::{BYTES, EIGHT_BYTES, NUMBER},
    write,
};
use heapattach_ledger::{Ledger, Metric};

/// The fields of a message: numbers, and bytes.
pub fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        number
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        if key & 7 == EIGHT_BYTES {
            let (number, rest) = bytes.split_first_chunk().unwrap();
            fields.push((key >> 3, u64::from_le_bytes(*number), &[][..]));
            bytes = rest;
            continue;
        }
        let number = varint(&mut bytes);
        let (content, rest) = match key & 7 {
            BYTES => bytes.split_at(usize::try_from(number).unwrap()),
            kind => (&[][..], if kind == NUMBER { bytes } else { panic!("kind {kind}") }),
        };
        fields.push((key >> 3, number, content));
        bytes = rest;
    }
    fields
}

/// The numbers in a packed field.
pub fn unpacked(bytes: &[u8]) -> Vec<u64> {
    let mut numbered = Vec::new();
    for group in bytes.split_inclusive(|byte| byte & 0x80 == 0) {
        let digits = group.iter().rev();
        numbered.push(digits.fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f)));
    }
    numbered
}

/// A message's fields of one number.
pub fn all(message: &[u8], field: u64) -> Vec<Vec<u8>> {
    let found = fields(message).into_iter().filter(|(number, ..)| *number == field);
    found.map(|(_, _, bytes)| bytes.to_vec()).collect()
}

pub fn number(message: &[u8], field: u64) -> u64 {
    let found = fields(message).into_iter().find(|(number, ..)| *number == field);
    found.map_or(0, |(_, number, _)| number)
}

pub struct Decoded {
    /// The message.
    pub profile: Vec<u8>,
}

impl Decoded {
    pub fn new(ledger: &Ledger, metric: Metric) -> Self {
        let mut file = Vec::new();
        write(ledger, metric, &mut file).unwrap();
        Self::of(&file)
    }

    pub fn of(file: &[u8]) -> Self {
        let mut profile = Vec::new();
        GzDecoder::new(file).read_to_end(&mut profile).unwrap();
        Self { profile }
    }

    pub fn text(&self, index: u64) -> String {
        let strings = all(&self.profile, field::STRING);
        String::from_utf8(strings[usize::try_from(index).unwrap()].clone()).unwrap()
    }

    pub fn types(&self) -> Vec<String> {
        let types = all(&self.profile, field::SAMPLE_TYPE);
        types.iter().map(|kind| self.text(number(kind, 1))).collect()
    }

    /// The functions of a sample, and its values.
    pub fn sample(&self, index: usize) -> (Vec<String>, Vec<u64>) {
        let sample = &all(&self.profile, field::SAMPLE)[index];
        let [by_id_location, by_id_function] = [field::LOCATION, field::FUNCTION].map(|kind| {
            let found = all(&self.profile, kind).into_iter();
            found.map(|one| (number(&one, 1), one)).collect::<HashMap<_, _>>()
        });
        let locations = unpacked(&all(sample, 1)[0]);
        let lines = locations.iter().flat_map(|id| all(&by_id_location[id], 4));
        let name = |line: Vec<u8>| self.text(number(&by_id_function[&number(&line, 1)], 2));
        (lines.map(name).collect(), unpacked(&all(sample, 2)[0]))
    }

    pub fn labels(&self, sample: usize) -> Vec<(String, String, u64)> {
        let labels = all(&all(&self.profile, field::SAMPLE)[sample], 3);
        let told = labels.iter().map(|label| {
            (self.text(number(label, 1)), self.text(number(label, 2)), number(label, 3))
        });
        told.collect()
    }
}
