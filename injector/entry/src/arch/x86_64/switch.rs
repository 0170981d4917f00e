//! Jump tables: the branches that only data knows of. A function whose table leads into its own
//! first instructions (a loop around a switch, with no prologue before it) must be left alone.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Register};

use crate::image::Image;

/// No compiler makes a larger table for a function of the size looked at.
const TABLE_MAX: usize = 4096;
/// Tables of one function that are looked at.
const TABLES_MAX: usize = 256;

/// A table that compilers make.
#[derive(Clone, Copy)]
enum Table {
    /// 32-bit distances from the table itself, whose address a lea gives.
    Relative(u64),
    /// Addresses, as code that is not position-independent has them.
    Absolute(u64),
}

/// The first table through which `function` may jump to an address within `inside`.
pub(crate) fn table_into(
    image: &Image<'_>,
    function: &Range<u64>,
    inside: &Range<u64>,
) -> Option<u64> {
    tables(image, function).into_iter().find_map(|table| match table {
        Table::Relative(at) => {
            let (rows, _) = image.bytes_from(at)?.as_chunks();
            let target = |row: &[u8; 4]| at.wrapping_add_signed(i32::from_le_bytes(*row).into());
            leads(rows.iter().map(target), function, inside).then_some(at)
        }
        Table::Absolute(at) => {
            let (rows, _) = image.bytes_from(at)?.as_chunks();
            leads(rows.iter().map(|row| u64::from_le_bytes(*row)), function, inside).then_some(at)
        }
    })
}

/// Whether a table with these targets leads inside; it ends where it leaves the function.
fn leads(targets: impl Iterator<Item = u64>, function: &Range<u64>, inside: &Range<u64>) -> bool {
    let rows = targets.take(TABLE_MAX).take_while(|target| function.contains(target));
    rows.into_iter().any(|target| inside.contains(&target))
}

/// What may be a table, if the function jumps through one at all.
fn tables(image: &Image<'_>, function: &Range<u64>) -> Vec<Table> {
    let len = function.end.checked_sub(function.start).and_then(|len| usize::try_from(len).ok());
    let code = len.and_then(|len| image.code_from(function.start)?.get(..len)).unwrap_or(&[]);
    let mut decoder = Decoder::with_ip(64, code, function.start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let (mut tables, mut jumps) = (Vec::new(), false);
    while decoder.can_decode() && tables.len() < TABLES_MAX {
        decoder.decode_out(&mut instruction);
        if instruction.flow_control() == FlowControl::IndirectBranch {
            jumps = true;
            if instruction.memory_base() == Register::None
                && instruction.memory_index() != Register::None
            {
                tables.push(Table::Absolute(instruction.memory_displacement64()));
            }
        } else if instruction.mnemonic() == iced_x86::Mnemonic::Lea
            && instruction.is_ip_rel_memory_operand()
        {
            tables.push(Table::Relative(instruction.ip_rel_memory_address()));
        }
    }
    if jumps { tables } else { Vec::new() }
}
