//! A file read again, for tests: only what we write.

use std::io::Read;

use flate2::read::GzDecoder;

use super::{
    Table, Value,
    column::{Kind, encoding, page},
};

/// A value of Thrift.
#[derive(Clone, Debug)]
enum Told {
    Number(i64),
    Text(Vec<u8>),
    List(Vec<Told>),
    Struct(Vec<(u8, Told)>),
}

impl Told {
    fn get(&self, field: u8) -> Option<&Self> {
        let Self::Struct(fields) = self else { panic!("not a struct: {self:?}") };
        fields.iter().find(|(number, _)| *number == field).map(|(_, told)| told)
    }

    fn number(&self, field: u8) -> i64 {
        let Some(Self::Number(number)) = self.get(field) else { panic!("{field}: {self:?}") };
        *number
    }

    fn list(&self, field: u8) -> &[Self] {
        let Some(Self::List(list)) = self.get(field) else { panic!("{field}: {self:?}") };
        list
    }
}

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

fn byte(bytes: &mut &[u8]) -> u8 {
    let (first, rest) = bytes.split_first().unwrap();
    *bytes = rest;
    *first
}

fn taken<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (first, rest) = bytes.split_at(len);
    *bytes = rest;
    first
}

fn told(bytes: &mut &[u8], kind: u8) -> Told {
    match kind {
        5 | 6 => {
            let number = varint(bytes);
            Told::Number((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
        }
        8 => {
            let len = usize::try_from(varint(bytes)).unwrap();
            Told::Text(taken(bytes, len).to_vec())
        }
        9 => {
            let head = byte(bytes);
            let len = if head >> 4 == 15 { varint(bytes) } else { u64::from(head >> 4) };
            Told::List((0..len).map(|_| told(bytes, head & 15)).collect())
        }
        12 => {
            let (mut fields, mut last) = (Vec::new(), 0);
            loop {
                let head = byte(bytes);
                if head == 0 {
                    return Told::Struct(fields);
                }
                last += head >> 4;
                fields.push((last, told(bytes, head & 15)));
            }
        }
        kind => panic!("kind {kind}"),
    }
}

/// The names of the columns, and the rows.
pub fn read(file: &[u8]) -> (Vec<String>, Vec<Vec<Value>>) {
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    let (rest, len) = file[..file.len() - 4].split_last_chunk().unwrap();
    let footer = &rest[rest.len() - u32::from_le_bytes(*len) as usize..];
    let footer = told(&mut &footer[..], 12);
    let elements = &footer.list(2)[1..];
    let name = |element: &Told| match element.get(4) {
        Some(Told::Text(name)) => String::from_utf8(name.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    let mut rows = Vec::new();
    for group in footer.list(4) {
        let columns = group.list(1).iter().zip(elements).map(|(chunk, element)| {
            let about = chunk.get(3).unwrap();
            values(file, about, element.number(1) == 6)
        });
        let columns: Vec<_> = columns.collect();
        let count = usize::try_from(group.number(3)).unwrap();
        rows.extend((0..count).map(|row| columns.iter().map(|c| c[row].clone()).collect()));
    }
    assert_eq!(footer.number(3), i64::try_from(rows.len()).unwrap());
    (elements.iter().map(name).collect(), rows)
}

/// The values of a column.
fn values(file: &[u8], about: &Told, is_text: bool) -> Vec<Value> {
    let at = |field| usize::try_from(about.number(field)).unwrap();
    let begin = if about.get(11).is_some() { at(11) } else { at(9) };
    let mut bytes = &file[begin..begin + at(7)];
    let mut dictionary = None;
    loop {
        let header = told(&mut bytes, 12);
        let compressed = taken(&mut bytes, usize::try_from(header.number(3)).unwrap());
        let mut content = Vec::new();
        GzDecoder::new(compressed).read_to_end(&mut content).unwrap();
        assert_eq!(i64::try_from(content.len()).unwrap(), header.number(2));
        if header.number(1) == i64::from(page::DICTIONARY) {
            dictionary = Some(plain(&content, is_text));
            continue;
        }
        assert!(bytes.is_empty(), "one page of data");
        let of_data = header.get(5).unwrap();
        assert_eq!(of_data.number(1), about.number(5));
        return match dictionary {
            None => plain(&content, is_text),
            Some(dictionary) => {
                assert_eq!(of_data.number(2), i64::from(encoding::RLE_DICTIONARY));
                let indices = indices(&content, at(5));
                indices.into_iter().map(|index| dictionary[index].clone()).collect()
            }
        };
    }
}

fn plain(mut content: &[u8], is_text: bool) -> Vec<Value> {
    let mut values = Vec::new();
    while !content.is_empty() {
        values.push(if is_text {
            let len = u32::from_le_bytes(taken(&mut content, 4).try_into().unwrap());
            let text = taken(&mut content, len as usize);
            Value::Text(String::from_utf8(text.to_vec()).unwrap())
        } else {
            Value::Number(i64::from_le_bytes(taken(&mut content, 8).try_into().unwrap()))
        });
    }
    values
}

fn indices(mut content: &[u8], count: usize) -> Vec<usize> {
    let width = usize::from(byte(&mut content));
    let head = usize::try_from(varint(&mut content)).unwrap();
    if head & 1 == 0 {
        assert_eq!(head >> 1, count);
        return vec![content[0].into(); count];
    }
    let bit = |at: usize| usize::from(content[at / 8] >> (at % 8) & 1);
    let index = |n: usize| (0..width).map(|b| bit(n * width + b) << b).sum();
    (0..count).map(index).collect()
}

#[test]
fn rows_come_back_as_they_were_over_many_groups() {
    let schema = [("number", Kind::Number), ("name", Kind::Text), ("at", Kind::Time)];
    for count in [0, 1, 2, 7, 8, 9, 1000, super::ROWS, super::ROWS * 2 + 3] {
        let row = |n: usize| {
            let n = i64::try_from(n).unwrap();
            // Many values of the first, few of the second, one of the third.
            let name = format!("a\0\"'\u{fffd}{}", n % 5);
            [Value::Number(n.wrapping_mul(i64::MAX / 3)), Value::Text(name), Value::Number(-7)]
        };
        let mut file = Vec::new();
        let mut table = Table::new(&mut file, &schema).unwrap();
        (0..count).for_each(|n| table.row(row(n)).unwrap());
        table.finish(&[("key", "value")]).unwrap();
        let (names, rows) = read(&file);
        assert_eq!(names, ["number", "name", "at"]);
        assert_eq!(rows.len(), count);
        assert!(rows.iter().enumerate().all(|(n, told)| told.as_slice() == row(n)), "{count}");
    }
}

#[test]
fn a_row_that_does_not_fit_is_refused() {
    let schema = [("number", Kind::Number), ("name", Kind::Text)];
    let mut table = Table::new(Vec::new(), &schema).unwrap();
    assert!(table.row([Value::Number(1)]).is_err());
    let mut table = Table::new(Vec::new(), &schema).unwrap();
    assert!(table.row([Value::from("a"), Value::Number(1)]).is_err());
}
