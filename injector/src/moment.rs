//! One moment of a stopped target, for the question what leads where: its memory, its threads' registers,
//! and the calls that they are in the middle of.

pub use crate::{
    installation::in_call::InCall,
    snapshot::{
        Area, Exits, Image, Kept, Method, Pointer, Rules, Scene, SnapshotError, Standing, constant,
        sanitizer,
    },
};
