//! From variables and known objects on: each typed pointer names the block that it leads to, if nothing
//! contradicts it, and then the pointers of that block are followed.

use std::{collections::HashSet, time::Instant};

use heapattach_reach::Blocks;
use heapattach_symbols::declared::TypeId;

use crate::Moment;

pub use super::fit::Form;
use super::{
    fit::Fit,
    model::{Model, Slot},
};

/// All is looked at again without what pointers disagreed on, so often at most.
const ROUNDS: usize = 6;
/// Pointers into the middle of blocks that are kept.
const MOST_INSIDE: usize = 1 << 20;
/// A text may have a head of so many bytes, and pointers lead behind it.
const LONGEST_HEAD: u8 = 32;
/// The clock is looked at after so many blocks.
const BLOCKS: usize = 1024;
/// The same of elements of an array.
const ELEMENTS: u64 = 4096;

/// What was found.
#[derive(Debug, Default)]
pub struct Spread {
    /// By block; nothing counts of it unless it is sound.
    named: Vec<Named>,
    is_sound: bool,
    /// Blocks that pointers of different types lead to.
    pub disputed: u64,
    /// Why some are missing.
    pub missing: Option<&'static str>,
}

impl Spread {
    /// The type of a block, how it has it, and behind how many bytes.
    pub fn of(&self, block: u32) -> Option<(TypeId, Form, u64)> {
        match *self.named.get(block as usize).filter(|_| self.is_sound)? {
            Named::Of(of, form) => Some((of, form, 0)),
            Named::Behind(of, head) => Some((of, Form::Many, u64::from(head))),
            Named::None | Named::Certain | Named::Hidden | Named::Disputed => None,
        }
    }
}

/// Names blocks. `certain` are those whose class is known otherwise: nothing contradicts it; it leads on by the
/// declared type of this number, if there is one. `has_classes` says whether allocators have size classes.
pub fn spread(
    moment: &Moment<'_>,
    blocks: &Blocks,
    model: &Model,
    certain: &dyn Fn(u32) -> Option<Option<TypeId>>,
    has_classes: bool,
    end: Instant,
) -> Spread {
    let fit = Fit { moment, blocks, model, has_classes };
    let mut disputed: HashSet<u32> = HashSet::new();
    for round in 0..ROUNDS {
        let mut state = State {
            fit: &fit,
            named: vec![Named::None; blocks.len()],
            waiting: Vec::new(),
            inside: Vec::new(),
            disputed: &mut disputed,
            is_new: false,
            is_over: false,
            end,
        };
        state.run(certain);
        let State { named, is_new, is_over, .. } = state;
        if is_new && !is_over && round + 1 < ROUNDS {
            continue;
        }
        let missing = match (is_over, is_new) {
            (true, _) => Some("there was no time for all blocks"),
            (false, true) => Some("pointers disagree too often"),
            (false, false) => model.missing(),
        };
        // What disputed blocks led to may not be so.
        return Spread { named, is_sound: !is_new, disputed: disputed.len() as u64, missing };
    }
    Spread::default()
}

/// What is known of a block: two words of 32 bits, of which there may be tens of millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    None,
    /// It was named otherwise.
    Certain,
    Of(TypeId, Form),
    /// Bytes behind a head, of which alone pointers are known.
    Behind(TypeId, u8),
    /// Only `void *` leads to it: a pointer to a number does not name it.
    Hidden,
    Disputed,
}

struct State<'s, 'a, 'm> {
    fit: &'s Fit<'a, 'm>,
    named: Vec<Named>,
    /// Where values lie whose pointers were not followed yet, and how many there are side by side.
    waiting: Vec<(u64, TypeId, u64)>,
    /// Pointers into the middle of blocks.
    inside: Vec<(u32, u64, TypeId)>,
    disputed: &'s mut HashSet<u32>,
    /// Whether more blocks are disputed than before.
    is_new: bool,
    is_over: bool,
    end: Instant,
}

impl State<'_, '_, '_> {
    fn run(&mut self, certain: &dyn Fn(u32) -> Option<Option<TypeId>>) {
        for (number, named) in (0..).zip(&mut self.named) {
            if certain(number).is_some() {
                *named = Named::Certain;
            } else if self.disputed.contains(&number) {
                *named = Named::Disputed;
            }
        }
        for variable in self.fit.model.variables() {
            self.waiting.push((variable.at, variable.of, 1));
        }
        // Those that are certain, the last first, whenever nothing else waits: a list would take more than all else.
        let Fit { model, blocks, .. } = *self.fit;
        let mut rest = blocks.all().iter().enumerate().rev().filter_map(|(number, block)| {
            let of = certain(u32::try_from(number).ok()?)??;
            (model.size(of) <= block.size).then_some((block.at, of, 1))
        });
        let mut seen = 0_usize;
        while let Some((at, of, count)) = self.waiting.pop().or_else(|| rest.next()) {
            seen += 1;
            if seen.is_multiple_of(BLOCKS) && Instant::now() > self.end {
                self.is_over = true;
                return;
            }
            self.follow(at, of, count);
            if self.is_over {
                return;
            }
        }
        self.check_inside();
    }

    /// Offers what the pointers of values lead to.
    fn follow(&mut self, at: u64, of: TypeId, count: u64) {
        let (slots, size) = (self.fit.model.slots(of), self.fit.model.size(of));
        for index in 0..count {
            if index % ELEMENTS == ELEMENTS - 1 && Instant::now() > self.end {
                self.is_over = true;
                return;
            }
            for slot in slots.iter() {
                let place = index.checked_mul(size).and_then(|from| from.checked_add(slot.offset));
                let place = place.and_then(|offset| at.checked_add(offset));
                let Some(word) = place.and_then(|at| self.fit.moment.word(at)) else { return };
                let Some(number) = self.fit.blocks.containing(word) else { continue };
                let block = *self.fit.blocks.get(number);
                let value = at.saturating_add(index.saturating_mul(size));
                match (slot.to, word.checked_sub(block.at)) {
                    (Some(to), Some(0)) if slot.array.is_some() => {
                        self.offer_array(number, slot, value, to);
                    }
                    (_, Some(_)) if slot.array.is_some() => {}
                    (Some(to), Some(0)) => self.offer(number, block.at, block.size, to),
                    (Some(to), Some(offset)) => self.offer_inside(number, offset, to),
                    (None, Some(0)) => self.hide(number),
                    _ => {}
                }
            }
        }
    }

    /// The elements of a `Vec`, if there is room for as many as it says.
    fn offer_array(&mut self, number: u32, slot: &Slot, value: u64, to: TypeId) {
        let (model, block) = (self.fit.model, *self.fit.blocks.get(number));
        let word = |offset: u64| self.fit.moment.word(value.checked_add(offset)?);
        let Some(array) = slot.array else { return };
        let (Some(room), Some(length)) = (word(array.room), word(array.length)) else { return };
        let bytes = room.checked_mul(model.size(to)).filter(|bytes| *bytes > 0);
        let fits = bytes.is_some_and(|bytes| self.fit.is_room_of(bytes, block.size));
        // Bytes can be a text.
        if !fits || length > room || model.is_byte(to) || !model.names(to) {
            return;
        }
        match self.named[number as usize] {
            Named::Certain | Named::Disputed => return,
            Named::Of(of, _) if model.is_same(of, to) => return,
            // To its first element's first member.
            Named::Of(of, _) if model.has(to, 0, of) => {}
            Named::Of(..) => return self.dispute(number),
            Named::None | Named::Hidden | Named::Behind(..) => {}
        }
        self.named[number as usize] = Named::Of(to, Form::Many);
        if !model.slots(to).is_empty() {
            self.waiting.push((block.at, to, length));
        }
    }

    /// `void *`, or a member of a union, leads to it.
    fn hide(&mut self, number: u32) {
        let model = self.fit.model;
        let named = &mut self.named[number as usize];
        match *named {
            Named::None | Named::Behind(..) => *named = Named::Hidden,
            Named::Of(of, _) if model.is_number(of) => *named = Named::Hidden,
            _ => {}
        }
    }

    fn offer(&mut self, number: u32, at: u64, size: u64, to: TypeId) {
        let model = self.fit.model;
        let form = match self.named[number as usize] {
            Named::Certain | Named::Disputed => return,
            Named::Hidden if model.is_number(to) => return,
            Named::None | Named::Hidden | Named::Behind(..) => self.fit.of(at, size, to),
            Named::Of(of, _) if model.is_same(of, to) || model.has(of, 0, to) => return,
            // A byte can be the first of anything.
            Named::Of(of, _) if model.is_byte(to) && !model.is_number(of) => return,
            Named::Of(of, _) => match self.fit.of(at, size, to) {
                Some(form) if model.has(to, 0, of) || model.is_byte(of) => Some(form),
                Some(_) => return self.dispute(number),
                // What the block is not long enough for, or too long, is no rival, but for a structure that
                // has no part like it.
                None => return self.dispute_unless_void(number, to),
            },
        };
        let Some(form) = form else {
            // If it is named later, it must have this at its beginning.
            if model.names(to) && !model.is_number(to) && self.inside.len() < MOST_INSIDE {
                self.inside.push((number, 0, to));
            }
            return;
        };
        self.named[number as usize] = Named::Of(to, form);
        if let Some((offset, element)) = model.open_end(to).filter(|_| form == Form::One)
            && !model.slots(element).is_empty()
        {
            let rest = size.saturating_sub(offset);
            let count = rest.checked_div(model.size(element)).unwrap_or(0);
            self.waiting.push((at.saturating_add(offset), element, count));
        }
        if !model.slots(to).is_empty() {
            let count = match form {
                Form::One => 1,
                Form::Many => size.checked_div(model.size(to)).unwrap_or(0),
            };
            self.waiting.push((at, to, count));
        }
    }

    /// A pointer of another structure's type leads to it, which it cannot be: one of both is wrong.
    fn dispute_unless_void(&mut self, number: u32, to: TypeId) {
        if self.fit.model.names(to) && !self.fit.model.is_number(to) {
            self.dispute(number);
        }
    }

    fn dispute(&mut self, number: u32) {
        self.named[number as usize] = Named::Disputed;
        self.is_new |= self.disputed.insert(number);
    }

    fn offer_inside(&mut self, number: u32, offset: u64, to: TypeId) {
        let model = self.fit.model;
        if model.is_byte(to) {
            let near = u8::try_from(offset).ok().filter(|offset| *offset <= LONGEST_HEAD);
            let named = &mut self.named[number as usize];
            match (*named, near) {
                (Named::None, Some(offset)) => *named = Named::Behind(to, offset),
                (Named::Behind(of, head), _) if Some(head) != near || !model.is_same(of, to) => {
                    *named = Named::Hidden;
                }
                _ => {}
            }
        } else if model.names(to) && self.inside.len() < MOST_INSIDE {
            self.inside.push((number, offset, to));
        }
    }

    /// What has a name has also what pointers into it say.
    fn check_inside(&mut self) {
        let model = self.fit.model;
        for (number, offset, to) in std::mem::take(&mut self.inside) {
            let agrees = match self.named[number as usize] {
                Named::Of(of, form) => {
                    let size = model.size(of).max(1);
                    let within = match form {
                        Form::One => offset,
                        Form::Many => offset % size,
                    };
                    // Behind the value there may be more.
                    within >= size || model.has(of, within, to)
                }
                Named::Behind(..) => false,
                Named::None | Named::Certain | Named::Hidden | Named::Disputed => true,
            };
            if !agrees {
                self.dispute(number);
            }
        }
    }
}
