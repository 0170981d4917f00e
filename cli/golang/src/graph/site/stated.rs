//! Types of variables and of closures, by the code that sets them: no program is without its code, stripped or not.
//!
//! ```text
//! variables of no known type, functions of closures -> functions of the program that refer to them
//!   -> what each sets them to: the result of a call that allocates, or of a function that returns such a one;
//!      a map that is given to the runtime with its type
//! ```
//!
//! What two places state differently is not told.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use super::{SiteType, Sites, callee::Tells};
use crate::{
    arch::{Fact, Value, facts},
    graph::{
        quick_hash::QuickSet,
        types::{Kind, Slot, What},
    },
};

/// Functions that are looked through, and calls within calls whose result is.
const MOST: usize = 1 << 14;
const DEEPEST: u32 = 6;
/// Steps through the code of all of them.
const STEPS: usize = 1 << 28;
/// So much code is read at once; more of it no program has.
const WINDOW: u64 = 1 << 20;
const MOST_CODE: u64 = 1 << 30;
/// A larger function is not looked through.
const LARGEST_FUNCTION: u64 = 1 << 19;

/// Functions of the runtime that are given a map, with its type; and some that keep the registers of their caller.
const MAPS: [&str; 7] =
    ["mapassign", "mapaccess", "mapdelete", "mapiterinit", "mapIterStart", "mapclear", "mapclone"];
const KEEP: [&str; 3] = ["runtime.gcWriteBarrier", "runtime.duffzero", "runtime.duffcopy"];

/// What the code states.
#[derive(Clone, Debug, Default)]
pub struct Stated {
    /// By variable: what it leads to.
    pub variables: HashMap<u64, Slot>,
    /// By the function of a closure: the type of the closure.
    pub closures: HashMap<u64, u64>,
}

/// Of one function.
#[derive(Clone, Default)]
struct Function {
    /// By where a call returns to: what it made.
    made: HashMap<u64, SiteType>,
    /// What a variable, or what a call made, must be, as the runtime is given it.
    maps: Vec<(Value, u64)>,
    stored: Vec<(u64, Value)>,
    begins: Vec<(u64, u64)>,
    returned: Vec<Value>,
}

/// Looks for it.
struct Look<'s, 'a, 'm> {
    sites: &'s Sites<'a, 'm>,
    /// By function: what it returns, if that is of one type.
    returns: RefCell<HashMap<u64, Option<SiteType>>>,
    left: RefCell<usize>,
    steps: RefCell<usize>,
}

/// What the code in `text` states of these variables, and of closures of these functions.
pub fn stated(sites: &Sites<'_, '_>, text: &Range<u64>, wanted: &[u64]) -> Stated {
    let (returns, left) = (RefCell::default(), RefCell::new(MOST));
    let look = Look { sites, returns, left, steps: RefCell::new(STEPS) };
    let wanted: QuickSet<u64> = wanted.iter().copied().collect();
    let mut variables: HashMap<u64, Option<Slot>> = HashMap::new();
    let mut closures: HashMap<u64, Option<u64>> = HashMap::new();
    for (start, end) in look.referring(text, &wanted) {
        let Some(own) = look.function(start..end, 0) else { break };
        let stored = own.stored.iter().filter_map(|(at, value)| Some((*at, own.slot(*value)?)));
        let given = own.maps.iter().filter_map(|(value, of)| match value {
            Value::Variable(at) => Some((*at, Slot { offset: 0, what: What::Map, of: *of })),
            _ => None,
        });
        for (at, slot) in stored.chain(given).filter(|(at, _)| wanted.contains(at)) {
            agree(&mut variables, at, slot);
        }
        for (made, with) in &own.begins {
            if let Some(SiteType::Value(of)) = own.made.get(made) {
                agree(&mut closures, *with, *of);
            }
        }
    }
    Stated { variables: certain(variables), closures: certain(closures) }
}

/// What was not stated otherwise before.
fn agree<T: PartialEq>(all: &mut HashMap<u64, Option<T>>, at: u64, own: T) {
    let own = Some(own);
    match all.get_mut(&at) {
        Some(known) if *known == own => {}
        Some(known) => *known = None,
        None => drop(all.insert(at, own)),
    }
}

fn certain<T>(all: HashMap<u64, Option<T>>) -> HashMap<u64, T> {
    all.into_iter().filter_map(|(at, own)| Some((at, own?))).collect()
}

impl Function {
    /// What a value leads to.
    fn slot(&self, value: Value) -> Option<Slot> {
        let Value::Result(made) = value else { return None };
        let (what, of) = match *self.made.get(&made)? {
            SiteType::Value(of) => (What::One, of),
            SiteType::Array(of) => (What::Many, of),
            SiteType::Map(of) => (What::Map, of),
            SiteType::Chan(of) => (What::Chan, of),
            SiteType::Text => (What::Text, 0),
            SiteType::Bytes
            | SiteType::Runes
            | SiteType::String
            | SiteType::Slice
            | SiteType::Number => return None,
        };
        Some(Slot { offset: 0, what, of })
    }
}

impl Look<'_, '_, '_> {
    /// Functions that refer to something wanted by their own place: where each begins and ends.
    fn referring(&self, text: &Range<u64>, wanted: &QuickSet<u64>) -> BTreeMap<u64, u64> {
        let mut found = BTreeMap::new();
        let (Some(first), Some(last)) = (wanted.iter().min(), wanted.iter().max()) else {
            return found;
        };
        let end = text.end.min(text.start.saturating_add(MOST_CODE));
        let mut at = text.start;
        while at < end {
            // A reference may lie across the end of what is read.
            let length = usize::try_from((end - at).min(WINDOW + 3)).unwrap_or(0);
            let bytes = self.sites.moment.bytes(at, length).unwrap_or_default();
            for (next, four) in (at + 4..).zip(bytes.windows(4)) {
                let four = [four[0], four[1], four[2], four[3]];
                let target = next.wrapping_add_signed(i64::from(i32::from_le_bytes(four)));
                if (*first..=*last).contains(&target)
                    && wanted.contains(&target)
                    && found.last_key_value().is_none_or(|(_, end)| *end < next)
                    && let Some(range) = (self.sites.code.range)(next - 4)
                {
                    found.insert(range.start, range.end);
                }
            }
            at += WINDOW;
        }
        found
    }

    /// What a function does; `depth` calls within calls.
    fn function(&self, range: Range<u64>, depth: u32) -> Option<Function> {
        let left = self.left.borrow().checked_sub(1)?;
        self.left.replace(left);
        let length = range.end.checked_sub(range.start).filter(|all| *all < LARGEST_FUNCTION);
        let code = length
            .and_then(|all| self.sites.moment.bytes(range.start, usize::try_from(all).ok()?))
            .unwrap_or_default();
        let mut own = Function::default();
        let mut calls = Vec::new();
        let mut used = QuickSet::default();
        let mut steps = self.steps.borrow_mut();
        facts(&code, range.start, &|target| self.keeps(target), &mut steps, &mut |fact| {
            let value = match fact {
                Fact::Call { back, target, arguments } => {
                    calls.push((back, target, arguments));
                    return;
                }
                Fact::Stored { at, value } => {
                    own.stored.push((at, value));
                    value
                }
                Fact::Begins { made, with } => {
                    own.begins.push((made, with));
                    Value::Result(made)
                }
                Fact::Returned(value) => {
                    own.returned.push(value);
                    value
                }
            };
            if let Value::Result(made) = value {
                used.insert(made);
            }
        });
        drop(steps);
        for (back, target, arguments) in calls {
            let Some(name) = self.sites.function(target) else { continue };
            if let Some(of) = self.map_of(&name, &arguments) {
                own.maps.push((arguments[1], of));
            } else if used.contains(&back) {
                let made = self.made(&name, &arguments);
                let made = made.or_else(|| self.returns(target, &name, depth));
                own.made.extend(made.map(|made| (back, made)));
            }
        }
        // A small map is made without its type.
        let made = own.maps.iter().filter_map(|(value, of)| match value {
            Value::Result(made) => Some((*made, SiteType::Map(*of))),
            _ => None,
        });
        own.made.extend(made.collect::<Vec<_>>());
        Some(own)
    }

    fn keeps(&self, target: u64) -> bool {
        let name = self.sites.function(target);
        name.is_some_and(|name| KEEP.iter().any(|own| name.starts_with(own)))
    }

    /// The type of the map that the runtime is given with it.
    fn map_of(&self, name: &str, arguments: &[Value]) -> Option<u64> {
        let name = name.strip_prefix("runtime.")?;
        let is_given = MAPS.iter().any(|own| name.starts_with(own));
        is_given.then(|| self.of_kind(arguments, 0, Kind::Map)).flatten()
    }

    /// What a function of the runtime allocates.
    fn made(&self, name: &str, arguments: &[Value]) -> Option<SiteType> {
        match Tells::of(name, self.sites.minor)? {
            Tells::Value(number) | Tells::ValueOrArray(number) => {
                self.typed(arguments, number).map(SiteType::Value)
            }
            Tells::Array(number) => self.typed(arguments, number).map(SiteType::Array),
            Tells::Map(number) if name.starts_with("runtime.makemap") => {
                self.of_kind(arguments, number, Kind::Map).map(SiteType::Map)
            }
            Tells::Map(_) => None,
            Tells::Chan(number) => self.of_kind(arguments, number, Kind::Chan).map(SiteType::Chan),
            Tells::Itself(own) => Some(own),
        }
    }

    fn typed(&self, arguments: &[Value], number: usize) -> Option<u64> {
        match arguments.get(number)? {
            Value::Address(at) if self.sites.types.modules.has_type(*at) => Some(*at),
            _ => None,
        }
    }

    fn of_kind(&self, arguments: &[Value], number: usize, kind: Kind) -> Option<u64> {
        let at = self.typed(arguments, number)?;
        self.sites.types.get(at).filter(|of| of.kind == kind).map(|of| of.at)
    }

    /// What another function returns.
    fn returns(&self, entry: u64, name: &str, depth: u32) -> Option<SiteType> {
        if depth >= DEEPEST || name.starts_with("runtime.") {
            return None;
        }
        if let Some(known) = self.returns.borrow().get(&entry) {
            return *known;
        }
        // One that calls itself adds nothing to what it returns.
        self.returns.borrow_mut().insert(entry, None);
        let range = (self.sites.code.range)(entry).filter(|range| range.start == entry)?;
        let own = self.function(range, depth + 1)?;
        let mut all = own.returned.iter().filter(|value| **value != Value::Zero);
        let one = |value: &Value| match value {
            Value::Result(made) => own.made.get(made).copied(),
            _ => None,
        };
        let first = all.next().and_then(one);
        let is_one = first.is_some() && all.all(|value| one(value) == first);
        let returned = first.filter(|_| is_one);
        self.returns.borrow_mut().insert(entry, returned);
        returned
    }
}
