//! What is allocated at a place of a program, by its code alone: the type is an argument of the runtime's function that
//! allocates, and the code before the call states it. So it is told of stripped programs as of others.
//!
//! ```text
//! stack of a bucket -> the call that entered the runtime -> its argument -> descriptor of the type -> agrees in size?
//! ```
//!
//! A type that the code does not state - it comes from a caller, or from `reflect` - is not told, nor one that does not
//! agree with the size of the objects.

mod by_type;
mod callee;
mod stated;

use std::{cell::RefCell, collections::HashMap, ops::Range};

use heapattach_census::Moment;

use super::{
    class::object_size,
    types::{Descriptor, Kind, Types},
};
use crate::arch::{Call, call_before};
pub use by_type::{Estimated, OfType, by_type};
use callee::Tells;
pub use stated::{Stated, stated};

/// A larger function is not looked through.
const LARGEST_FUNCTION: u64 = 1 << 20;
/// Calls of the runtime below the one of the program.
const DEEPEST: usize = 32;
/// Objects with pointers above this size have a type before them, since go1.22.
const WITH_HEADS: u32 = 22;
/// Small values without pointers share a block of this size.
const TINY: u64 = 16;

/// What a place allocates; types by the addresses of their descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteType {
    /// Values of a type, each alone.
    Value(u64),
    /// Arrays of values.
    Array(u64),
    /// What belongs to maps of a type.
    Map(u64),
    /// What belongs to channels of a type.
    Chan(u64),
    /// The bytes of strings.
    Text,
    /// Bytes.
    Bytes,
    /// Characters.
    Runes,
    /// A string in an interface: its head.
    String,
    /// A slice in an interface: its head.
    Slice,
    /// A number in an interface.
    Number,
}

/// The functions of a program, by an address in each.
#[derive(Clone, Copy)]
pub struct Code<'a> {
    /// What it is called.
    pub name: &'a dyn Fn(u64) -> Option<String>,
    /// Where it lies.
    pub range: &'a dyn Fn(u64) -> Option<Range<u64>>,
}

/// Places that were looked at.
pub struct Sites<'a, 'm> {
    moment: &'a Moment<'m>,
    code: Code<'a>,
    types: &'a Types<'a, 'm>,
    minor: u32,
    calls: RefCell<HashMap<u64, Option<Call>>>,
    names: RefCell<HashMap<u64, Option<String>>>,
}

impl<'a, 'm> Sites<'a, 'm> {
    /// Of a program of a minor release.
    pub fn new(
        moment: &'a Moment<'m>,
        code: Code<'a>,
        types: &'a Types<'a, 'm>,
        minor: u32,
    ) -> Self {
        let (calls, names) = Default::default();
        Self { moment, code, types, minor, calls, names }
    }

    /// What a stack allocates in objects of a size: innermost return address first.
    pub fn allocates(&self, stack: &[u64], size: u64) -> Option<SiteType> {
        let own = stack.iter().take(DEEPEST).position(|back| !self.is_runtime(*back));
        let calls = &stack[..own.map_or(stack.len().min(DEEPEST), |own| own + 1)];
        // The outermost says most: what a map needs is the map's.
        calls.iter().rev().find_map(|back| self.by_call(*back, size))
    }

    /// The same, only as far as the program's own call states it: what the runtime needs besides is not told.
    pub fn allocates_itself(&self, stack: &[u64], size: u64) -> Option<SiteType> {
        let own = stack.iter().take(DEEPEST).find(|back| !self.is_runtime(**back))?;
        self.by_call(*own, size)
    }

    /// The name of what a place allocates, as a program writes it.
    pub fn name(&self, of: SiteType) -> Option<String> {
        let own = |at| self.types.name(&self.types.get(at)?);
        Some(match of {
            SiteType::Value(at) | SiteType::Map(at) | SiteType::Chan(at) => own(at)?,
            SiteType::Array(at) => format!("[]{}", own(at)?),
            SiteType::Text => "string (bytes)".to_owned(),
            SiteType::Bytes => "[]uint8".to_owned(),
            SiteType::Runes => "[]int32".to_owned(),
            SiteType::String => "string".to_owned(),
            SiteType::Slice => "slice".to_owned(),
            SiteType::Number => "number".to_owned(),
        })
    }

    fn is_runtime(&self, back: u64) -> bool {
        let name = self.function(back.saturating_sub(1)).unwrap_or_default();
        ["runtime.", "internal/runtime/", "internal/bytealg."]
            .iter()
            .any(|own| name.starts_with(own))
    }

    fn function(&self, code: u64) -> Option<String> {
        let look = || (self.code.name)(code);
        self.names.borrow_mut().entry(code).or_insert_with(look).clone()
    }

    fn by_call(&self, back: u64, size: u64) -> Option<SiteType> {
        let call = self.call(back)?;
        let typed = |number| {
            let at = call.argument(number).filter(|at| self.types.modules.has_type(*at))?;
            self.types.get(at)
        };
        match Tells::of(&self.function(call.target)?, self.minor)? {
            Tells::Value(number) => {
                typed(number).filter(|of| self.is_value(of, size)).map(|of| SiteType::Value(of.at))
            }
            Tells::Array(number) => {
                typed(number).filter(|of| of.size <= size).map(|of| SiteType::Array(of.at))
            }
            Tells::ValueOrArray(number) => {
                let of = typed(number).filter(|of| of.size <= size)?;
                let is_value = self.is_value(&of, size);
                Some(if is_value { SiteType::Value(of.at) } else { SiteType::Array(of.at) })
            }
            Tells::Map(number) => {
                typed(number).filter(|of| of.kind == Kind::Map).map(|of| SiteType::Map(of.at))
            }
            Tells::Chan(number) => {
                typed(number).filter(|of| of.kind == Kind::Chan).map(|of| SiteType::Chan(of.at))
            }
            Tells::Itself(own) => Some(own),
        }
    }

    /// Whether an object of the size is one value of the type.
    fn is_value(&self, of: &Descriptor, size: u64) -> bool {
        let has_pointers = of.pointer_bytes > 0;
        let is_tiny = !has_pointers && of.size < TINY && size == TINY;
        is_tiny || object_size(of.size, has_pointers, self.minor >= WITH_HEADS) == size
    }

    fn call(&self, back: u64) -> Option<Call> {
        *self.calls.borrow_mut().entry(back).or_insert_with(|| {
            let range = (self.code.range)(back.checked_sub(1)?)?;
            let length =
                range.end.checked_sub(range.start).filter(|all| *all < LARGEST_FUNCTION)?;
            let code = self.moment.bytes(range.start, usize::try_from(length).ok()?)?;
            call_before(&code, range.start, back)
        })
    }
}
