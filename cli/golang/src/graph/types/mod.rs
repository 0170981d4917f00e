//! The runtime's own descriptors of types: they are there in every program, stripped or not.

mod descriptor;
mod flat;
mod mask;

pub use descriptor::{Descriptor, Kind, Modules, Types};
pub use flat::{Flat, Slot, What};
pub use mask::Mask;
