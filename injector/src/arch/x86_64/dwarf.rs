//! The registers as DWARF numbers them, and what only linkers for this processor write.

use gimli::{Operation, Reader};

/// The registers of [`super::kept`],
pub const DWARF_KEPT: [u16; 6] = [3, 6, 12, 13, 14, 15];
/// what functions that keep a frame pointer find their frame by,
pub const DWARF_FRAME_POINTER: u16 = 6;
/// the stack pointer,
pub const DWARF_STACK_POINTER: u16 = 7;
/// and where a function returns to.
pub const DWARF_RETURN_ADDRESS: u16 = 16;

/// The way to the caller out of the procedure linkage table, where each entry has a push in its middle:
/// `rsp + 8 + ((rip & 15) >= n) * 8`, of which this answers n.
pub fn linkage<R: Reader<Offset = usize>>(expression: &[Operation<R>]) -> Option<u32> {
    const STACK: gimli::Register = gimli::Register(DWARF_STACK_POINTER);
    const PLACE: gimli::Register = gimli::Register(DWARF_RETURN_ADDRESS);
    let [
        Operation::RegisterOffset { register: STACK, offset: 8, .. },
        Operation::RegisterOffset { register: PLACE, offset: 0, .. },
        Operation::UnsignedConstant { value: 15 } | Operation::SignedConstant { value: 15 },
        Operation::And,
        byte,
        Operation::Ge,
        Operation::UnsignedConstant { value: 3 } | Operation::SignedConstant { value: 3 },
        Operation::Shl,
        Operation::Plus,
    ] = expression
    else {
        return None;
    };
    match byte {
        Operation::UnsignedConstant { value } => u32::try_from(*value).ok(),
        Operation::SignedConstant { value } => u32::try_from(*value).ok(),
        _ => None,
    }
}
