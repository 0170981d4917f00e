//! A file read again, for tests: only what we write.

use std::io::Read;

use flate2::read::GzDecoder;

use super::{
    Table, Value,
    column::{Kind, codec, encoding, page},
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
        match i32::try_from(about.number(4)).unwrap() {
            codec::NONE => content.extend(compressed),
            codec::GZIP => {
                GzDecoder::new(compressed).read_to_end(&mut content).unwrap();
            }
            other => panic!("codec {other}"),
        }
        assert_eq!(i64::try_from(content.len()).unwrap(), header.number(2));
        if header.number(1) == i64::from(page::DICTIONARY) {
            dictionary = Some(plain(&content, is_text));
            continue;
        }
        assert!(bytes.is_empty(), "one page of data");
        let of_data = header.get(5).unwrap();
        assert_eq!(of_data.number(1), about.number(5));
        let coded = i32::try_from(of_data.number(2)).unwrap();
        return match dictionary {
            None if coded == encoding::DELTA_BINARY_PACKED => differences(&content),
            None => {
                assert_eq!(coded, encoding::PLAIN);
                plain(&content, is_text)
            }
            Some(dictionary) => {
                assert_eq!(coded, encoding::RLE_DICTIONARY);
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

/// Numbers of so many bits each.
fn unpacked(content: &[u8], width: usize, count: usize) -> Vec<u64> {
    let bit = |at: usize| u64::from(content[at / 8] >> (at % 8) & 1);
    (0..count).map(|n| (0..width).map(|b| bit(n * width + b) << b).sum()).collect()
}

fn indices(mut content: &[u8], count: usize) -> Vec<usize> {
    let width = usize::from(byte(&mut content));
    let mut indices = Vec::new();
    while indices.len() < count {
        let head = usize::try_from(varint(&mut content)).unwrap();
        if head & 1 == 0 {
            let bytes = taken(&mut content, width.div_ceil(8));
            let index = bytes.iter().rev().fold(0, |index, &byte| index << 8 | usize::from(byte));
            indices.extend(std::iter::repeat_n(index, head >> 1));
        } else {
            let packed = taken(&mut content, (head >> 1) * width);
            let numbers = unpacked(packed, width, (head >> 1) * 8);
            indices.extend(numbers.into_iter().map(|index| usize::try_from(index).unwrap()));
        }
    }
    // The last group is filled up.
    assert!(content.is_empty() && indices.len() < count + 8);
    indices.truncate(count);
    indices
}

fn differences(mut content: &[u8]) -> Vec<Value> {
    let signed = |number: u64| (number >> 1).cast_signed() ^ -((number & 1).cast_signed());
    let [block, parts, count] = [0; 3].map(|_| usize::try_from(varint(&mut content)).unwrap());
    let mut number = signed(varint(&mut content));
    let mut numbers = vec![number];
    while numbers.len() < count {
        let least = signed(varint(&mut content));
        for width in taken(&mut content, parts).to_vec() {
            let length = block / parts;
            let rest = count - numbers.len();
            if rest == 0 {
                assert_eq!(width, 0);
                continue;
            }
            let packed = taken(&mut content, length * usize::from(width) / 8);
            for above in unpacked(packed, width.into(), length).into_iter().take(rest) {
                number = number.wrapping_add(least).wrapping_add(above.cast_signed());
                numbers.push(number);
            }
        }
    }
    assert!(content.is_empty());
    numbers.truncate(count);
    numbers.into_iter().map(Value::Number).collect()
}

#[test]
fn rows_come_back_as_they_were_over_many_groups() {
    let schema = [
        ("number", Kind::Number),
        ("name", Kind::Text),
        ("at", Kind::Time),
        ("run", Kind::Number),
        ("grows", Kind::Number),
    ];
    for count in [0, 1, 2, 7, 8, 9, 1000, super::ROWS, super::ROWS * 2 + 3] {
        let row = |n: usize| {
            let n = i64::try_from(n).unwrap();
            // Many values of the first, few of the second, one of the third.
            let name = format!("a\0\"'\u{fffd}{}", n % 5);
            let ends = if n / 100 % 7 == 0 { i64::MIN } else { i64::MAX >> (n / 300 % 5) };
            let numbers = [n.wrapping_mul(i64::MAX / 3), -7, ends, n * n / 64].map(Value::Number);
            let [number, at, run, grows] = numbers;
            [number, Value::Text(name), at, run, grows]
        };
        let mut file = Vec::new();
        let mut table = Table::new(&mut file, &schema).unwrap();
        (0..count).for_each(|n| table.row(row(n)).unwrap());
        table.finish(&[("key", "value")]).unwrap();
        let (names, rows) = read(&file);
        assert_eq!(names, ["number", "name", "at", "run", "grows"]);
        assert_eq!(rows.len(), count);
        assert!(rows.iter().enumerate().all(|(n, told)| told.as_slice() == row(n)), "{count}");
    }
}

#[test]
fn rows_of_a_group_are_sorted_where_that_is_wanted() {
    let schema = [("a", Kind::Number), ("name", Kind::Text), ("b", Kind::Number)];
    let row = |n: i64| [Value::Number(n % 3), Value::Text(n.to_string()), Value::Number(-(n / 10))];
    let mut file = Vec::new();
    let mut table = Table::new(&mut file, &schema).unwrap().sorted_by(&[0, 2]);
    (0..100).for_each(|n| table.row(row(n)).unwrap());
    table.finish(&[]).unwrap();
    let rows = read(&file).1;
    let mut expected: Vec<_> = (0..100).collect();
    expected.sort_by_key(|n| (n % 3, -(n / 10)));
    let expected: Vec<_> = expected.into_iter().map(|n| row(n).to_vec()).collect();
    assert_eq!(rows, expected);
}

#[test]
fn a_row_that_does_not_fit_is_refused() {
    let schema = [("number", Kind::Number), ("name", Kind::Text)];
    let mut table = Table::new(Vec::new(), &schema).unwrap();
    assert!(table.row([Value::Number(1)]).is_err());
    let mut table = Table::new(Vec::new(), &schema).unwrap();
    assert!(table.row([Value::from("a"), Value::Number(1)]).is_err());
}
