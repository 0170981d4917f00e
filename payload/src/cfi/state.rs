//! What is known of a frame at a place of a function, and the rule that it comes to.

use heapattach_abi::unwind::Rule;

use super::cursor::{Cursor, Source};

pub(super) const RBP: u64 = 6;
pub(super) const RSP: u64 = 7;
pub(super) const RETURN_ADDRESS: u64 = 16;

/// How something is found.
pub(super) const SAME: u64 = 0;
pub(super) const BY_STACK: u64 = 1;
pub(super) const BY_FRAME: u64 = 2;
pub(super) const AT_OFFSET: u64 = 3;
pub(super) const BY_EXPRESSION: u64 = 4;
pub(super) const UNDEFINED: u64 = 5;
pub(super) const OTHER: u64 = 6;

/// What is known at a place of a function: words that are put aside, since compilers copy anything
/// larger by vector registers, which are not ours.
///
/// How the frame address, the frame pointer and the return address are found; then the distance, or
/// place and length of an expression; then the same of the frame pointer.
pub(super) const KINDS: usize = 0;
pub(super) const DISTANCE: usize = 1;
pub(super) const SAVED: usize = 2;
pub(super) const STATE_WORDS: usize = 3;
/// The state at the beginning of a function, and those that are remembered.
pub(super) const BEGUN: usize = STATE_WORDS;
pub(super) const REMEMBERED: usize = 2 * STATE_WORDS;
pub(super) const STATES: usize = 4;
/// What all functions of one kind have in common.
pub(super) const CODE_UNIT: usize = REMEMBERED + STATES * STATE_WORDS;
pub(super) const DATA_UNIT: usize = CODE_UNIT + 1;
pub(super) const ENCODING: usize = CODE_UNIT + 2;
pub(super) const FLAGS: usize = CODE_UNIT + 3;
pub(super) const AT: usize = CODE_UNIT + 4;
pub(super) const END: usize = CODE_UNIT + 5;
/// All of these words.
pub(super) const WORDS: usize = CODE_UNIT + 6;

pub(super) const HAS_DATA: u64 = 1;
pub(super) const IS_SIGNAL: u64 = 2;

/// The parts of [`KINDS`].
pub(super) const FRAME_ADDRESS: u32 = 0;
pub(super) const FRAME_POINTER: u32 = 8;
pub(super) const RETURNS: u32 = 16;

pub(super) fn kind<S: Source>(source: &S, state: usize, part: u32) -> u64 {
    source.aside(state + KINDS) >> part & 0xff
}

#[inline(never)]
pub(super) fn set_kind<S: Source>(source: &mut S, part: u32, how: u64) {
    let others = source.aside(KINDS) & !(0xff << part);
    source.put_aside(KINDS, others | how << part);
}

#[inline(never)]
pub(super) fn set<S: Source>(source: &mut S, register: u64, how: u64, value: u64) {
    match register {
        RBP => {
            set_kind(source, FRAME_POINTER, how);
            source.put_aside(SAVED, value);
        }
        // It is always the word below the frame address, or we do not follow.
        RETURN_ADDRESS => {
            let is_other = how == AT_OFFSET && value.cast_signed() != -8;
            set_kind(source, RETURNS, if is_other { OTHER } else { how });
        }
        _ => {}
    }
}

#[inline(never)]
pub(super) fn restore<S: Source>(source: &mut S, register: u64) {
    match register {
        RBP => {
            set_kind(source, FRAME_POINTER, kind(source, BEGUN, FRAME_POINTER));
            source.put_aside(SAVED, source.aside(BEGUN + SAVED));
        }
        RETURN_ADDRESS => set_kind(source, RETURNS, kind(source, BEGUN, RETURNS)),
        _ => {}
    }
}

#[inline(never)]
pub(super) fn copy<S: Source>(source: &mut S, from: usize, to: usize) {
    for word in 0..STATE_WORDS {
        source.put_aside(to + word, source.aside(from + word));
    }
}

pub(super) fn as_rule<S: Source>(code: &mut Cursor<'_, S>) -> u32 {
    match kind(code.source, KINDS, RETURNS) {
        UNDEFINED => return Rule::Outermost.pack(),
        AT_OFFSET => {}
        _ => return Rule::Unknown.pack(),
    }
    let (distance, saved) = (code.source.aside(DISTANCE), code.source.aside(SAVED));
    let frame_address = kind(code.source, KINDS, FRAME_ADDRESS);
    if frame_address == BY_EXPRESSION {
        return by_expression(code, distance, saved).unwrap_or(Rule::Unknown.pack());
    }
    let saved = match kind(code.source, KINDS, FRAME_POINTER) {
        SAME | UNDEFINED => Some(0),
        AT_OFFSET => words(saved.wrapping_neg()).filter(|&saved| saved != 0),
        _ => None,
    };
    let (Some(distance), Some(saved)) = (words(distance), saved) else {
        return Rule::Unknown.pack();
    };
    match frame_address {
        BY_STACK => Rule::Stack { distance, saved }.pack(),
        BY_FRAME => Rule::Frame { distance, saved }.pack(),
        _ => Rule::Unknown.pack(),
    }
}

/// Bytes as words, if they are some.
fn words(bytes: u64) -> Option<u32> {
    let fits = bytes.is_multiple_of(8) && bytes >> 35 == 0;
    fits.then_some((bytes / 8) as u32)
}

/// The two expressions that compilers and linkers make: see the injector, which makes tables.
#[inline(never)]
fn by_expression<S: Source>(code: &mut Cursor<'_, S>, address: u64, saved: u64) -> Option<u32> {
    code.go_to_expression(address);
    match code.byte()? {
        // An address stored near the frame pointer.
        0x76 => {
            let offset = code.long_signed()?.cast_signed();
            let is_known = code.byte()? == 0x06 && code.at == code.end && offset % 8 == 0;
            let distance = (offset / 8) as i32;
            if !is_known || i64::from(distance) != offset / 8 {
                return None;
            }
            let saves = match kind(code.source, KINDS, FRAME_POINTER) {
                SAME => false,
                BY_EXPRESSION => {
                    code.go_to_expression(saved);
                    let is_known = code.byte()? == 0x76 && code.byte()? == 0 && code.at == code.end;
                    is_known.then_some(true)?
                }
                _ => return None,
            };
            Some(Rule::Stored { distance, saves }.pack())
        }
        // rsp + 8 + ((rip & 15) >= n) * 8
        0x77 => {
            let is_begun = code.unsigned(3)? == 0x00_80_08 && code.unsigned(2)? == 0x1a_3f;
            let byte = code.byte()?.checked_sub(0x30).filter(|&byte| byte < 32)?;
            let is_known = code.unsigned(4)? == 0x22_24_33_2a && code.at == code.end;
            (is_begun && is_known).then_some(Rule::Linkage(byte as u32).pack())
        }
        _ => None,
    }
}
