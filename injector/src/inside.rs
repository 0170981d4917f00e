//! What tests and fuzzers outside of this crate feed with hostile bytes. No interface: it changes as they
//! need it.

pub use crate::{
    home::{Change, ChangeKind, Header, ModuleRecord, free_range},
    module::{Module, find_symbol, identity_at, tables::Budget},
    records::stacks::Stacks,
    unwind::{Compiled, Tables, compile_bytes, compile_debug_frame, information, section},
};
