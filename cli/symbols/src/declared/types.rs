//! Types as they were declared.

use std::collections::HashMap;

/// Arrays of arrays.
const DEEPEST: u32 = 16;

/// The number of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// With its namespaces; empty if it has none.
    pub name: String,
    /// Bytes of a value; 0 where it is not known, and of arrays, see [`Declared::size`].
    pub size: u64,
    /// What a value consists of.
    pub kind: Kind,
}

/// What a value consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number, a character, a value of an enumeration.
    Number,
    /// The address of a value; `None` if it does not say of what: `void *`, functions, what is not declared.
    Pointer(Option<TypeId>),
    /// So many of them; 0 where that is open, as at the end of a structure.
    Array(TypeId, u64),
    /// Members, bases too.
    Structure(Vec<Member>),
    /// One of them.
    Union(Vec<Member>),
    /// These members, or others: which ones, a word so far behind the beginning says. What these have there is theirs
    /// alone.
    Choice(u64, Vec<Member>),
    /// An array in a block of its own: a `Vec` of Rust.
    Vector(Vector),
    /// It is not known.
    Unknown,
}

/// Where the words of a `Vec` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// The type of its elements.
    pub of: TypeId,
    /// Their address.
    pub pointer: u64,
    /// How many there is room for.
    pub room: u64,
    /// How many there are.
    pub length: u64,
}

/// A part of a structure or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it begins.
    pub offset: u64,
    /// Its type.
    pub of: TypeId,
}

/// A variable that has one place for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Where it lies, as the file states it.
    pub at: u64,
    /// Its type.
    pub of: TypeId,
}

/// The language that most of a module is written in, as far as it matters for types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// C, or another one.
    #[default]
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
}

/// All that was read.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// By number.
    pub types: Vec<Type>,
    /// The variables.
    pub variables: Vec<Variable>,
    /// Structures by their whole name, as far as they were wanted.
    pub by_name: HashMap<String, TypeId>,
    /// Of the first unit.
    pub language: Language,
    /// Why something may be missing.
    pub missing: Option<&'static str>,
}

impl Declared {
    /// A type.
    pub fn get(&self, of: TypeId) -> Option<&Type> {
        self.types.get(usize::try_from(of.0).ok()?)
    }

    /// Bytes of a value; 0 where that is open or not known.
    pub fn size(&self, of: TypeId) -> u64 {
        let (mut of, mut times) = (of, 1_u64);
        for _ in 0..DEEPEST {
            match self.get(of) {
                Some(Type { kind: Kind::Array(inner, count), .. }) => {
                    (of, times) = (*inner, times.saturating_mul(*count));
                }
                own => return own.map_or(0, |own| own.size.saturating_mul(times)),
            }
        }
        0
    }
}
