//! What the heap of a Go program is: objects by type, by what holds them, and goroutines that wait for ever.

use heapattach_reach::Amount;
use serde::{Deserialize, Serialize};

/// The heap of a Go program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GoHeapReport {
    /// The release: `go1.22.10`.
    pub version: String,
    /// Why nothing more can be said.
    pub error: Option<String>,
    /// Allocated objects; the same as HeapObjects and HeapAlloc of runtime.MemStats.
    pub allocated: Amount,
    /// Of these, those that are reached: the rest is garbage that was not collected yet.
    pub reached: Amount,
    /// Of these, those whose type is known.
    pub typed: Amount,
    /// Goroutines.
    pub goroutines: u64,
    /// Bytes of their stacks.
    pub stacks: u64,
    /// Goroutines that wait for ever on channels, by where they wait.
    pub leaked: Vec<GoLeak>,
    /// All of these together.
    pub leaked_goroutines: u64,
    /// What is kept beyond need, what keeps most first.
    #[serde(default)]
    pub excess: Vec<GoExcess>,
    /// What holds most, as a tree: each comes after the one that it goes on from.
    pub holders: Vec<GoHolder>,
    /// What holds the objects that were asked for.
    pub asked: Option<GoAsked>,
    /// Objects of the runtime's sampled profile: who allocated them, what they are, what holds them; those of
    /// most bytes first.
    pub sampled: Vec<GoSampled>,
    /// The sampled profile by the types that its stacks allocate, by the code alone; those of most bytes in use
    /// first.
    #[serde(default)]
    pub profile: Vec<GoProfiled>,
    /// Milliseconds that all of this took.
    pub took_ms: f64,
}

/// Memory that is kept beyond need, for a reason of Go's own.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GoExcess {
    /// The reason.
    pub why: GoExcessKind,
    /// The path to it.
    pub path: Vec<String>,
    /// Maps, slices, or objects with finalizers.
    pub number: u64,
    /// Entries of these maps; or bytes of these slices and strings by their lengths.
    pub used: u64,
    /// Entries that these maps have room for; or bytes of the arrays.
    pub room: u64,
    /// Tables of these maps; or arrays; or all that only these cycles lead to.
    pub kept: Amount,
}

/// Why memory is kept beyond need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GoExcessKind {
    /// Maps have far more room than entries: they do not shrink.
    #[default]
    Map,
    /// A slice or a string uses a small part of an array that nothing else leads to.
    Slice,
    /// Objects with finalizers lead back to themselves: they are never freed.
    Cycle,
}

/// Objects that one function allocated, of one type, held by one path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GoSampled {
    /// The function.
    pub allocated_by: String,
    /// The type, if it is known.
    pub class: Option<String>,
    /// The path, from the variable or the function on; its first four steps.
    pub held_by: Vec<String>,
    /// Samples.
    pub samples: u64,
    /// What they stand for: an estimate.
    pub estimate: Amount,
}

/// What is allocated of one type, by the sampled profile.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GoProfiled {
    /// The type, if the code states it.
    pub class: Option<String>,
    /// Stacks that allocate it.
    pub stacks: u64,
    /// In use: an estimate.
    pub live: Amount,
    /// Allocated since the program began to sample: an estimate.
    pub allocated: Amount,
}

/// Objects that were asked for: those of a type, or the one that has an address.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GoAsked {
    /// The type or the address.
    pub what: String,
    /// The type of the object that has the address.
    pub named: Option<String>,
    /// They, as far as they are reached.
    pub objects: Amount,
    /// The paths that they are held by, those of most bytes first.
    pub paths: Vec<GoPath>,
    /// How many different ones there are.
    pub different_paths: u64,
}

/// Objects that are held by one path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GoPath {
    /// From the variable or the function on.
    pub path: Vec<String>,
    /// They.
    pub objects: Amount,
}

/// Goroutines that wait for ever in one place.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GoLeak {
    /// The function that waits.
    pub function: String,
    /// The function that started them.
    pub created_by: String,
    /// How many.
    pub goroutines: u64,
    /// Objects that are reached by these alone.
    pub retained: Amount,
    /// Bytes of their stacks.
    pub stacks: u64,
}

/// What holds objects: a variable, or a function by its stack; and, from there, a field.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GoHolder {
    /// The index of what it goes on from, if it does.
    pub before: Option<u64>,
    /// What it is: `main.cache`, `users. ([]*main.user)`, `$mapval. (*main.user)`.
    pub name: String,
    /// Objects that are held right here.
    pub own: Amount,
    /// These, and all that is held from here on.
    pub all: Amount,
}
