//! The direct branches of a function, by decoding it from its first byte.

use std::{collections::HashMap, ops::Range, rc::Rc};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use super::jump::is_near_branch;
use crate::{image::Image, zones::Zones};

/// Functions beyond this are left alone: they are interpreters' loops, not allocators.
const FUNCTION_MAX: u64 = 1 << 20;
/// All bytes one analysis may decode.
const BUDGET: u64 = 8 << 20;

/// A direct branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub site: u64,
    pub target: u64,
    pub kind: Kind,
    /// Where in the instruction its 32-bit field lies, or `None` for the short form.
    pub field: Option<u8>,
}

impl Branch {
    /// Where its 32-bit field lies.
    pub(crate) fn field_at(&self) -> Option<u64> {
        Some(self.site.wrapping_add(self.field?.into()))
    }
}

/// How a branch leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Call,
    Jump,
    Conditional,
}

/// The decoded functions of one image.
pub(crate) struct Disassembly<'a, 'f> {
    image: &'a Image<'f>,
    watched: Zones,
    done: HashMap<u64, Option<Rc<[Branch]>>>,
    left: u64,
}

impl<'a, 'f> Disassembly<'a, 'f> {
    /// Branches within a function are of no interest unless they lead to one of `watched`.
    pub(crate) fn new(image: &'a Image<'f>, watched: Zones) -> Self {
        Self { image, watched, done: HashMap::new(), left: BUDGET }
    }

    /// The branches of `function`, by ascending site; `None` if it is too large, or not code.
    pub(crate) fn branches(&mut self, function: &Range<u64>) -> Option<Rc<[Branch]>> {
        if let Some(done) = self.done.get(&function.start) {
            return done.clone();
        }
        let branches = self.decode(function);
        self.done.insert(function.start, branches.clone());
        branches
    }

    fn decode(&mut self, function: &Range<u64>) -> Option<Rc<[Branch]>> {
        let len = function.end.checked_sub(function.start).filter(|&len| len <= FUNCTION_MAX)?;
        self.left = self.left.checked_sub(len)?;
        let code = self.image.code_from(function.start)?.get(..usize::try_from(len).ok()?)?;
        let mut decoder = Decoder::with_ip(64, code, function.start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut branches = Vec::new();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() || !is_near_branch(&instruction) {
                continue;
            }
            let target = instruction.near_branch_target();
            if function.contains(&target) && !self.watched.contains(target) {
                continue;
            }
            branches.push(branch(&decoder, &instruction, target));
        }
        Some(branches.into())
    }
}

fn branch(decoder: &Decoder<'_>, instruction: &Instruction, target: u64) -> Branch {
    let kind = match instruction.flow_control() {
        FlowControl::Call => Kind::Call,
        FlowControl::UnconditionalBranch => Kind::Jump,
        _ => Kind::Conditional,
    };
    let field = decoder.get_constant_offsets(instruction);
    let field = (field.immediate_size() == 4).then(|| field.immediate_offset());
    let field = field.and_then(|offset| u8::try_from(offset).ok());
    Branch { site: instruction.ip(), target, kind, field }
}
