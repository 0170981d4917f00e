//! What a module itself says of how to go on from a place in its code (`.eh_frame`), as one of the
//! rules that tables have. For the moments until the injector has made a table of it.
//!
//! The bytes may be anything: every step goes on in them, and their number is bounded.

mod cursor;
mod state;

use heapattach_abi::unwind::{NONE, Rule};

pub(crate) use cursor::Source;
use cursor::{AS_WIDE_AS_ADDRESSES, Cursor};
use state::{
    AT, AT_OFFSET, BEGUN, BY_EXPRESSION, BY_FRAME, BY_STACK, CODE_UNIT, DATA_UNIT, DISTANCE,
    ENCODING, END, FLAGS, FRAME_ADDRESS, HAS_DATA, IS_SIGNAL, KINDS, OTHER, RBP, REMEMBERED,
    RETURN_ADDRESS, RSP, SAME, SAVED, STATE_WORDS, STATES, UNDEFINED, as_rule, copy, restore, set,
    set_kind,
};

/// Words that the caller may put aside meanwhile begin here.
pub(crate) const FREE: usize = state::WORDS;

/// Functions of a module at most.
const FUNCTIONS: u64 = 1 << 22;
/// Instructions for one function at most.
const INSTRUCTIONS: usize = 4096;
/// The rule for a place in code, packed; [`NONE`] if the information does not tell. `header` is the
/// table that it is found by (`.eh_frame_hdr`), `end` the end of the segment that it is in.
pub(crate) fn rule<S: Source>(source: &mut S, header: u64, end: u64, place: u64) -> u32 {
    find(&mut Cursor { source, at: header, end }, header, end, place).unwrap_or(NONE)
}

fn find<S: Source>(code: &mut Cursor<'_, S>, header: u64, end: u64, place: u64) -> Option<u32> {
    let function = function_at(code, header, place)?;
    record(code, function, end)?;
    let here = code.at;
    let distance = code.unsigned(4)?;
    let (entry, entry_end) = (code.at, code.end);
    cie(code, here.checked_sub(distance)?, end)?;
    (code.at, code.end) = (entry, entry_end);
    let encoding = code.source.aside(ENCODING) as u8;
    let start = code.pointer(encoding, header)?;
    let length = code.number(encoding)?;
    let offset = place.checked_sub(start).filter(|&offset| offset < length)?;
    if code.source.aside(FLAGS) & IS_SIGNAL != 0 {
        return Some(Rule::Signal.pack());
    }
    if code.source.aside(FLAGS) & HAS_DATA != 0 {
        let length = code.long()?;
        code.at = code.at.checked_add(length)?;
    }
    let (entry, entry_end) = (code.at, code.end);
    (code.at, code.end) = (code.source.aside(AT), code.source.aside(END));
    code.source.put_aside(KINDS, OTHER);
    code.source.put_aside(DISTANCE, 0);
    code.source.put_aside(SAVED, 0);
    copy(code.source, KINDS, BEGUN);
    run(code, u64::MAX)?;
    copy(code.source, KINDS, BEGUN);
    (code.at, code.end) = (entry, entry_end);
    run(code, offset)?;
    Some(as_rule(code))
}

/// The record of the last function that begins at or before a place.
#[inline(never)]
fn function_at<S: Source>(head: &mut Cursor<'_, S>, header: u64, place: u64) -> Option<u64> {
    let encodings = head.unsigned(4)?;
    // Version 1; the number as four bytes, and the table sorted, relative to the header.
    if encodings & 0xff != 1 || encodings >> 16 != 0x3b03 {
        return None;
    }
    head.pointer((encodings >> 8) as u8, header)?;
    let functions = head.unsigned(4)?;
    let table = head.at;
    if functions > FUNCTIONS || functions * 8 > head.end.checked_sub(table)? {
        return None;
    }
    let (mut low, mut high) = (0, functions);
    while low < high {
        let middle = low + (high - low) / 2;
        head.at = table + middle * 8;
        if header.wrapping_add(head.signed_4()?) <= place {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    head.at = table + low.checked_sub(1)? * 8 + 4;
    Some(header.wrapping_add(head.signed_4()?))
}

/// Goes to a record of the information, behind its length.
#[inline(never)]
fn record<S: Source>(code: &mut Cursor<'_, S>, at: u64, end: u64) -> Option<()> {
    (code.at, code.end) = (at, end);
    let length = code.unsigned(4)?;
    let stop = code.at.checked_add(length)?;
    // Longer ones have another form, which no linker makes here.
    if length == 0 || length >= 0xffff_fff0 || stop > end {
        return None;
    }
    code.end = stop;
    Some(())
}

#[inline(never)]
fn cie<S: Source>(entry: &mut Cursor<'_, S>, at: u64, end: u64) -> Option<()> {
    record(entry, at, end)?;
    let is_common = entry.unsigned(4)? == 0;
    let version = entry.byte()?;
    if !is_common || !matches!(version, 1 | 3) {
        return None;
    }
    // What the letters stand for comes later.
    let mut letters = 0_u64;
    for number in 0..=8 {
        match entry.byte()? {
            0 => break,
            _ if number == 8 => return None,
            letter => letters |= letter << (8 * number),
        }
    }
    let unit = entry.long()?;
    entry.source.put_aside(CODE_UNIT, unit);
    let unit = entry.long_signed()?;
    entry.source.put_aside(DATA_UNIT, unit);
    let register = if version == 1 { entry.byte()? } else { entry.long()? };
    let has_data = letters & 0xff == u64::from(b'z');
    if register != RETURN_ADDRESS || (letters != 0 && !has_data) {
        return None;
    }
    let (mut encoding, mut flags) = (AS_WIDE_AS_ADDRESSES, 0);
    if has_data {
        flags = HAS_DATA;
        let length = entry.long()?;
        let behind = entry.at.checked_add(length).filter(|&behind| behind <= entry.end)?;
        letters >>= 8;
        while letters != 0 {
            match letters as u8 {
                b'R' => encoding = entry.byte()? as u8,
                b'S' => flags |= IS_SIGNAL,
                b'L' => _ = entry.byte()?,
                b'P' => {
                    let encoding = entry.byte()? as u8;
                    entry.number(encoding)?;
                }
                _ => return None,
            }
            letters >>= 8;
        }
        entry.at = behind;
    }
    entry.source.put_aside(ENCODING, u64::from(encoding));
    entry.source.put_aside(FLAGS, flags);
    entry.source.put_aside(AT, entry.at);
    entry.source.put_aside(END, entry.end);
    Some(())
}

/// Runs instructions up to the place so far behind the beginning of the function.
fn run<S: Source>(code: &mut Cursor<'_, S>, offset: u64) -> Option<()> {
    let (mut here, mut remembered) = (0_u64, 0_usize);
    for _ in 0..INSTRUCTIONS {
        if code.at >= code.end {
            return Some(());
        }
        let byte = code.byte()?;
        let steps = match (byte >> 6, byte) {
            (1, _) => byte & 0x3f,
            (0, 2) => code.unsigned(1)?,
            (0, 3) => code.unsigned(2)?,
            (0, 4) => code.unsigned(4)?,
            (0, 10) => {
                if remembered == STATES {
                    return None;
                }
                copy(code.source, KINDS, REMEMBERED + remembered * STATE_WORDS);
                remembered += 1;
                0
            }
            (0, 11) => {
                remembered = remembered.checked_sub(1)?;
                copy(code.source, REMEMBERED + remembered * STATE_WORDS, KINDS);
                0
            }
            _ => {
                one(code, byte)?;
                0
            }
        };
        here = here.checked_add(steps.checked_mul(code.source.aside(CODE_UNIT))?)?;
        if here > offset {
            return Some(());
        }
    }
    None
}

/// An instruction that says how something is found.
#[inline(never)]
fn one<S: Source>(code: &mut Cursor<'_, S>, byte: u64) -> Option<()> {
    let small = byte & 0x3f;
    let unit = code.source.aside(DATA_UNIT);
    match (byte >> 6, byte) {
        (2, _) => {
            let value = code.long()?.wrapping_mul(unit);
            set(code.source, small, AT_OFFSET, value);
        }
        (3, _) => restore(code.source, small),
        (_, 0) => {}
        (_, 0x05) => {
            let register = code.long()?;
            let value = code.long()?.wrapping_mul(unit);
            set(code.source, register, AT_OFFSET, value);
        }
        (_, 0x06) => {
            let register = code.long()?;
            restore(code.source, register);
        }
        (_, 0x07 | 0x08) => {
            let register = code.long()?;
            set(code.source, register, if byte == 0x07 { UNDEFINED } else { SAME }, 0);
        }
        (_, 0x09 | 0x14 | 0x15) => {
            let register = code.long()?;
            code.long()?;
            set(code.source, register, OTHER, 0);
        }
        (_, 0x0c) => {
            by_register(code)?;
            let distance = code.long()?;
            code.source.put_aside(DISTANCE, distance);
        }
        (_, 0x0d) => by_register(code)?,
        (_, 0x0e) => {
            let distance = code.long()?;
            code.source.put_aside(DISTANCE, distance);
        }
        (_, 0x0f) => {
            let expression = code.expression()?;
            set_kind(code.source, FRAME_ADDRESS, BY_EXPRESSION);
            code.source.put_aside(DISTANCE, expression);
        }
        (_, 0x10) => {
            let register = code.long()?;
            let expression = code.expression()?;
            set(code.source, register, BY_EXPRESSION, expression);
        }
        (_, 0x11) => {
            let register = code.long()?;
            let value = code.long_signed()?.wrapping_mul(unit);
            set(code.source, register, AT_OFFSET, value);
        }
        (_, 0x12) => {
            by_register(code)?;
            let distance = code.long_signed()?.wrapping_mul(unit);
            code.source.put_aside(DISTANCE, distance);
        }
        (_, 0x13) => {
            let distance = code.long_signed()?.wrapping_mul(unit);
            code.source.put_aside(DISTANCE, distance);
        }
        (_, 0x16) => {
            let register = code.long()?;
            code.expression()?;
            set(code.source, register, OTHER, 0);
        }
        (_, 0x2e) => _ = code.long()?,
        _ => return None,
    }
    Some(())
}

/// The frame address is found by the register that comes next.
fn by_register<S: Source>(code: &mut Cursor<'_, S>) -> Option<()> {
    let how = match code.long()? {
        RSP => BY_STACK,
        RBP => BY_FRAME,
        _ => OTHER,
    };
    set_kind(code.source, FRAME_ADDRESS, how);
    Some(())
}
