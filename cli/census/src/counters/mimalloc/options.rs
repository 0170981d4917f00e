//! The table of options: each has its value, its own number and its name.

use std::collections::BTreeMap;

use crate::{Image, Moment, RegionKind, Window, counters::statistics::Value};

/// Bytes of an option: value, state and number in half a word each, name, former name.
const ROW: u64 = 32;
/// So many in a row with numbers that follow each other are the table.
const LEAST: u64 = 15;
/// There are no more.
const MOST: u64 = 200;
/// No name is longer.
const LONGEST: usize = 64;

/// The table.
#[derive(Debug)]
pub struct Options {
    at: u64,
    names: Vec<String>,
}

impl Options {
    /// In the variables of a module.
    pub fn find(moment: &Moment<'_>, image: &Image) -> Option<Self> {
        // They are set from the start: in that part of the variables that is mapped from the file.
        let own = moment.regions().iter().filter(|region| {
            region.kind == RegionKind::File
                && region.writable
                && image.range.start <= region.range.start
                && region.range.end <= image.range.end
        });
        own.flat_map(|region| moment.present(&region.range)).find_map(|part| {
            let mut window = Window::new(moment, part.clone(), 1 << 16);
            part.step_by(8).find_map(|at| {
                // The second one's number is 1, and the first one's 0.
                let is_likely = window.word(at + ROW + 8)? >> 32 == 1 && window.word(at + 8)? < 3;
                is_likely.then(|| Self::read(moment, image, at))?
            })
        })
    }

    fn read(moment: &Moment<'_>, image: &Image, at: u64) -> Option<Self> {
        let names = (0..MOST).map_while(|number| {
            let words = moment.words(at + ROW * number, 3)?;
            let is_row = words[1] >> 32 == number
                && words[1] & 0xffff_ffff < 3
                && image.range.contains(&words[2]);
            is_row.then(|| name(moment, words[2]))?
        });
        let names: Vec<_> = names.collect();
        let is_table = names.len() as u64 >= LEAST && names.iter().any(|name| name == "verbose");
        is_table.then_some(Self { at, names })
    }

    /// All of them as they are now.
    pub fn settings(&self, moment: &Moment<'_>) -> BTreeMap<String, Value> {
        let rows = (0..).zip(&self.names);
        let values = rows.filter_map(|(number, name)| {
            let word = moment.words(self.at + ROW * number, 1)?[0];
            Some((name.clone(), super::value(word)))
        });
        values.collect()
    }
}

fn name(moment: &Moment<'_>, at: u64) -> Option<String> {
    let mut bytes = [0; LONGEST];
    let length = moment.read(at, &mut bytes);
    let name = bytes.get(..length)?.split(|byte| *byte == 0).next()?;
    let is_name = !name.is_empty()
        && name.len() < LONGEST
        && name
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_');
    is_name.then(|| String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::*;

    #[test]
    fn options_are_found_by_their_numbers_and_names() {
        let mut memory = Synthetic::default();
        memory.region(0x40_0000..0x41_0000, RegionKind::File, "/program");
        for number in 0..20_u64 {
            let (at, text) = (0x40_0108 + ROW * number, 0x40_8000 + 16 * number);
            memory.write(at, number + 100);
            memory.write(at + 8, number << 32 | 1);
            memory.write(at + 16, text);
            let name = if number == 2 { "verbose".to_owned() } else { format!("option_{number}") };
            memory.write_bytes(text, name.as_bytes());
        }
        let moment = memory.moment();
        let settings = Options::find(&moment, &moment.images()[0]).unwrap().settings(&moment);
        assert_eq!((settings.len(), &settings["verbose"]), (20, &Value::Number(102)));
        memory.write(0x40_0108 + ROW * 9 + 8, 7 << 32);
        let moment = memory.moment();
        assert!(Options::find(&moment, &moment.images()[0]).is_none());
    }
}
