//! Frames of an interpreter (CPython, PHP, Ruby, Perl, Lua, LuaJIT, V8): what a hook must know to walk them, and how they
//! are stored.
//!
//! A stack that leads through Python has an entry of its own in the table of stacks: its words are
//! the number of the native stack, then one word a Python frame, the innermost first. The code of a
//! function may be gone before the reader comes to that, so what is to be known of it is copied, once, and
//! the word of a frame says where to.

use core::mem::offset_of;

/// What the injector found out about the interpreter, in the control page.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Orders {
    /// Address of the interpreter's global state; 0: there is no Python. Written last.
    pub runtime: u64,
    /// The number of the process, as it knows itself.
    pub process: u64,
    /// In the global state: the first interpreter.
    pub interpreters: u64,
    /// In an interpreter: the next one.
    pub next_interpreter: u64,
    /// In an interpreter: its first thread.
    pub threads: u64,
    /// In the state of a thread: the next one.
    pub next_thread: u64,
    /// In the state of a thread: its thread pointer.
    pub thread_pointer: u64,
    /// In the state of a thread: its innermost frame, or where that is said.
    pub current: u64,
    /// Where that is only said: the frame in there, plus 1; else 0.
    pub current_in: u64,
    /// In a frame: its code object.
    pub code: u64,
    /// In a frame: the next one.
    pub previous: u64,
    /// In a frame: where it goes on.
    pub instruction: u64,
    /// In a frame: the byte that tells where a call of the interpreter's own loop begins.
    pub mark: u64,
    /// From this value of it on, a frame only marks that; 0: a frame with any other value is a real
    /// one, and the last of its loop.
    pub least_mark: u64,
    /// In a code object: its instructions.
    pub instructions: u64,
    /// In a code object: a word that another one at the same place would not have.
    pub identity: u64,
    /// 1: stacks are told apart by that, too, which is one look more at each frame.
    pub tells_apart: u64,
    /// In a code object: its name.
    pub name: u64,
    /// In a code object: its file.
    pub file: u64,
    /// In a code object: its table of lines.
    pub lines: u64,
    /// In that table: its length.
    pub length: u64,
    /// In that table: its bytes.
    pub bytes: u64,
    /// The bits of `mark` that count.
    pub mark_mask: u64,
    /// Where the innermost frame of all is said in the global state itself (PHP): in an instruction, its
    /// line, which is stored in place of its number, and `current` is in that state; else 0.
    pub line: u64,
    /// There, too: the first byte of code that is not a script's.
    pub foreign: u64,
    /// There, too: in a code object, its class.
    pub class: u64,
    /// In a class: its name, which is copied in place of a table of lines.
    pub class_name: u64,
    /// There, too: in a text, a word that other texts at its place would not have.
    pub text_hash: u64,
    /// Where frames lie one behind the other (Ruby), the bytes of one; else 0. What says which frames call the
    /// loop is led to by `mark` then, and has the bits of `foreign` if a frame is not a script's; `length` are the
    /// bytes of a row of the table of lines. If `thread_pointer` is not 0, `runtime` leads to the state of the thread that
    /// runs scripts (2.7), `threads` in that to its thread, and `thread_pointer` is in there.
    pub stride: u64,
    /// There, too: where, in what leads to a thread's variables, those of the interpreter's module are led to.
    pub variables: u64,
    /// There, too: among these variables, the one that leads to the state of the thread.
    pub variable: u64,
    /// There, too: in code, what leads to all that is known of it.
    pub body: u64,
    /// In what is known of code, the rows of the table of lines, and what leads from instructions to rows.
    pub rows: u64,
    /// The second of these.
    pub index: u64,
    /// Where statements say of which line and file they are (Perl): in the interpreter, the one that runs; else 0.
    /// `variable` is how far from the thread pointer the word is that leads to the interpreter then, and
    /// `current` where the innermost of its stacks of contexts is led to; `mark` is the number of the operation
    /// `require`.
    pub statement: u64,
    /// In the state of a thread of Lua: where its values begin; else 0. `foreign` are the bits of its second word that
    /// say that it is a thread that runs, then, `identity` the line on which code begins, `lines` and `length` the
    /// lines of instructions and how many, `index` and `rows` those that are told by themselves (5.4), `body` in a
    /// function its code, and `current_in` in the state where the innermost call is (5.1).
    pub values: u64,
    /// There, too: where they end.
    pub values_end: u64,
    /// There, too: its first call (5.1), which runs nothing.
    pub first_call: u64,
    /// Bytes of a call where calls lie one behind the other (5.1); else 0.
    pub step: u64,
    /// Bits of `mark` that a call of a script does not have, once those of `least_mark` are turned round.
    pub script_bits: u64,
    /// The same bits that a call has for which the loop was called.
    pub fresh_bits: u64,
    /// What says in the map of an object of V8 what it is, 16 bits each, from the lowest on: code shared by functions,
    /// a script, bytecode, a table of bytes; else 0. `code` is in a function what it shares, then, `name`, `file` and
    /// `identity` in that the scope, the script, and the flags that its number is behind; `lines` in bytecode the table of
    /// positions, `bytes` its first instruction, and `index` in a scope its first variable.
    pub kinds: u64,
    /// There, too: the same of a scope.
    pub scope: u64,
    /// The code of LuaJIT's machine, and its bytes; else 0. The rest of it is in [`crate::luajit`].
    pub machine: u64,
    /// The second of these.
    pub machine_bytes: u64,
    /// Where the C library begins; else 0. Not 0: each call of it by which the program may lose pages is hooked, so that
    /// what is known to be there is read directly.
    pub direct: u64,
    /// There, too: where it ends.
    pub direct_end: u64,
}

/// Offset of [`Orders`] in the control page.
pub const ORDERS_AT: usize = 1024;

/// A word of [`Orders`]: its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "as the fields")]
pub enum Order {
    Runtime = offset_of!(Orders, runtime),
    Process = offset_of!(Orders, process),
    Interpreters = offset_of!(Orders, interpreters),
    NextInterpreter = offset_of!(Orders, next_interpreter),
    Threads = offset_of!(Orders, threads),
    NextThread = offset_of!(Orders, next_thread),
    ThreadPointer = offset_of!(Orders, thread_pointer),
    Current = offset_of!(Orders, current),
    CurrentIn = offset_of!(Orders, current_in),
    Code = offset_of!(Orders, code),
    Previous = offset_of!(Orders, previous),
    Instruction = offset_of!(Orders, instruction),
    Mark = offset_of!(Orders, mark),
    LeastMark = offset_of!(Orders, least_mark),
    Instructions = offset_of!(Orders, instructions),
    Identity = offset_of!(Orders, identity),
    TellsApart = offset_of!(Orders, tells_apart),
    Name = offset_of!(Orders, name),
    File = offset_of!(Orders, file),
    Lines = offset_of!(Orders, lines),
    Length = offset_of!(Orders, length),
    Bytes = offset_of!(Orders, bytes),
    MarkMask = offset_of!(Orders, mark_mask),
    Line = offset_of!(Orders, line),
    Foreign = offset_of!(Orders, foreign),
    Class = offset_of!(Orders, class),
    ClassName = offset_of!(Orders, class_name),
    TextHash = offset_of!(Orders, text_hash),
    Stride = offset_of!(Orders, stride),
    Variables = offset_of!(Orders, variables),
    Variable = offset_of!(Orders, variable),
    Body = offset_of!(Orders, body),
    Rows = offset_of!(Orders, rows),
    Index = offset_of!(Orders, index),
    Statement = offset_of!(Orders, statement),
    Values = offset_of!(Orders, values),
    ValuesEnd = offset_of!(Orders, values_end),
    FirstCall = offset_of!(Orders, first_call),
    Step = offset_of!(Orders, step),
    ScriptBits = offset_of!(Orders, script_bits),
    FreshBits = offset_of!(Orders, fresh_bits),
    Kinds = offset_of!(Orders, kinds),
    Scope = offset_of!(Orders, scope),
    Machine = offset_of!(Orders, machine),
    MachineBytes = offset_of!(Orders, machine_bytes),
    Direct = offset_of!(Orders, direct),
    DirectEnd = offset_of!(Orders, direct_end),
}

/// Words of [`Orders`].
pub const ORDERS: usize = size_of::<Orders>() / 8;

impl Orders {
    /// Nothing.
    pub const fn new() -> Self {
        Self {
            runtime: 0,
            process: 0,
            interpreters: 0,
            next_interpreter: 0,
            threads: 0,
            next_thread: 0,
            thread_pointer: 0,
            current: 0,
            current_in: 0,
            code: 0,
            previous: 0,
            instruction: 0,
            mark: 0,
            least_mark: 0,
            instructions: 0,
            identity: 0,
            tells_apart: 0,
            name: 0,
            file: 0,
            lines: 0,
            length: 0,
            bytes: 0,
            mark_mask: 0,
            line: 0,
            foreign: 0,
            class: 0,
            class_name: 0,
            text_hash: 0,
            stride: 0,
            variables: 0,
            variable: 0,
            body: 0,
            rows: 0,
            index: 0,
            statement: 0,
            values: 0,
            values_end: 0,
            first_call: 0,
            step: 0,
            script_bits: 0,
            fresh_bits: 0,
            kinds: 0,
            scope: 0,
            machine: 0,
            machine_bytes: 0,
            direct: 0,
            direct_end: 0,
        }
    }

    /// All words, in their order.
    pub const fn words(&self) -> [u64; ORDERS] {
        [
            self.runtime,
            self.process,
            self.interpreters,
            self.next_interpreter,
            self.threads,
            self.next_thread,
            self.thread_pointer,
            self.current,
            self.current_in,
            self.code,
            self.previous,
            self.instruction,
            self.mark,
            self.least_mark,
            self.instructions,
            self.identity,
            self.tells_apart,
            self.name,
            self.file,
            self.lines,
            self.length,
            self.bytes,
            self.mark_mask,
            self.line,
            self.foreign,
            self.class,
            self.class_name,
            self.text_hash,
            self.stride,
            self.variables,
            self.variable,
            self.body,
            self.rows,
            self.index,
            self.statement,
            self.values,
            self.values_end,
            self.first_call,
            self.step,
            self.script_bits,
            self.fresh_bits,
            self.kinds,
            self.scope,
            self.machine,
            self.machine_bytes,
            self.direct,
            self.direct_end,
        ]
    }
}

/// The end of an entry that tells of Python frames; no value of [`crate::stacks::End`].
pub const END: u8 = 7;
/// The same, and there were more frames.
pub const END_CUT: u8 = 8;

/// Frames of one stack at most: one word is the native stack.
pub const MOST_FRAMES: usize = crate::stacks::MAX_FRAMES - 1;

const CODE_SHIFT: u32 = 20;
const OUTERMOST: u64 = 1 << 19;
/// Where a word says which native frame it is ([`placed`]).
pub const PLACE_SHIFT: u32 = 56;
/// The instruction where it is not known.
pub const NOWHERE: u64 = OUTERMOST - 1;

/// A frame in a word: its code object, and the number of its instruction. The uppermost bits of an
/// address do not fit, and are zero in a program's. This is what stacks are told apart by.
pub const fn pack(code: u64, instruction: u64) -> u64 {
    let instruction = if instruction < NOWHERE { instruction } else { NOWHERE };
    code >> 3 << CODE_SHIFT | instruction
}

/// The same frame, as the outermost of one call of the interpreter's loop.
pub const fn outermost(word: u64) -> u64 {
    word | OUTERMOST
}

/// The code object of a word.
pub const fn code_of(word: u64) -> u64 {
    word >> CODE_SHIFT << 3
}

/// The same frame as it is stored: with the word that the copy of its code begins with, or 0.
pub const fn stored(word: u64, copy: u64) -> u64 {
    copy << CODE_SHIFT | word & ((1 << CODE_SHIFT) - 1)
}

/// The same frame, if it is itself one of the native stack's frames (V8): which one, counted from the innermost.
pub const fn placed(word: u64, place: u64) -> u64 {
    word | (place + 1) << PLACE_SHIFT
}

/// Which one of the native frames a stored frame is, and the frame without that.
pub const fn place_of(word: u64) -> (Option<u64>, u64) {
    ((word >> PLACE_SHIFT).checked_sub(1), word & ((1 << PLACE_SHIFT) - 1))
}

/// Of a stored frame: the copy of its code, if there is one; its instruction, if it is known; and
/// whether it is the outermost of its loop.
pub const fn unpack(word: u64) -> (u64, Option<u32>, bool) {
    let instruction = word & NOWHERE;
    #[allow(clippy::cast_possible_truncation, reason = "it was just masked")]
    let known = if instruction == NOWHERE { None } else { Some(instruction as u32) };
    (word >> CODE_SHIFT, known, word & OUTERMOST != 0)
}

/// Code objects that are copied at most: entries of a table by hash.
pub const CODES: usize = 1 << 15;
/// Size of an entry: hash, then one more than the first word of the copy.
pub const CODE_ENTRY_BYTES: usize = 16;
/// Size of the table.
pub const CODES_BYTES: usize = CODES * CODE_ENTRY_BYTES;
/// Entries that are looked at for one code object.
pub const CODE_PROBES: usize = 16;
/// Words of all copies, at most.
pub const COPIED_WORDS: u64 = 1 << 21;

/// A copy begins with the code object's own first words.
pub const OBJECT_BYTES: usize = 208;
/// Where in a copy its name begins: a string as the interpreter has it.
pub const NAME_AT: usize = OBJECT_BYTES;
/// Bytes of that.
pub const NAME_BYTES: usize = 256;
/// Where the file begins, in the same way.
pub const FILE_AT: usize = NAME_AT + NAME_BYTES;
/// Bytes of that.
pub const FILE_BYTES: usize = 320;
/// Of a text of Ruby, the head is copied, and behind it what lies elsewhere of it.
pub const RUBY_HEAD_BYTES: usize = 40;
/// Names of Perl's frames that are of no function, in place of the first word of a copy; 0: it is a function.
pub const PERL_FILE: u64 = 1;
/// Code that was compiled by `eval`.
pub const PERL_EVAL: u64 = 2;
/// A file that `require` or `do` runs.
pub const PERL_REQUIRED: u64 = 3;
/// The block of a `sort`.
pub const PERL_SORT: u64 = 4;
/// Of code of V8, in place of its own first words: its first line, where in its script it begins, where it ends, bytes of its
/// table of positions, and whether a letter of its text, which is behind that table, has two bytes.
pub const V8_CODE_WORDS: usize = 5;
/// Of a text of V8 the first word: how many bytes of it were copied, twice, and 1 if a letter has two; its uppermost
/// bit says that there are more.
pub const V8_TEXT_CUT: u64 = 1 << 63;
/// Where the length of the table of lines is.
pub const LENGTH_AT: usize = FILE_AT + FILE_BYTES;
/// Where that table begins.
pub const LINES_AT: usize = LENGTH_AT + 8;
/// Bytes of it at most; a longer one is left out.
pub const LINES_BYTES: u64 = 1 << 13;
/// The same of Ruby, whose tables have a row for nearly every instruction.
pub const RUBY_LINES_BYTES: u64 = 1 << 16;

/// The hash of a code object, never 0.
pub const fn hash_code(code: u64, identity: u64) -> u64 {
    crate::stacks::hash_words(crate::stacks::hash_step(code, identity), 0, 0)
}

const _: () = assert!(ORDERS_AT + size_of::<Orders>() <= crate::control::CONTROL_BYTES);
const _: () = assert!(OBJECT_BYTES.is_multiple_of(8) && LINES_AT.is_multiple_of(8));
const _: () = assert!(crate::stacks::STACK_WORDS <= 1 << (PLACE_SHIFT - CODE_SHIFT));
const _: () = assert!(crate::stacks::MAX_FRAMES < 1 << (64 - PLACE_SHIFT));
const _: () = assert!(ORDERS_AT >= size_of::<crate::control::Control>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_told_as_it_was() {
        let code = 0x7fff_1234_5678;
        let told = |word| (code_of(word), unpack(stored(word, 99)));
        assert_eq!(told(pack(code, 77)), (code, (99, Some(77), false)));
        assert_eq!(told(outermost(pack(code, 0))), (code, (99, Some(0), true)));
        assert_eq!(told(pack(code, u64::MAX)), (code, (99, None, false)));
        assert_eq!(told(outermost(pack(code, NOWHERE))), (code, (99, None, true)));
        let word = stored(pack(code, 77), 99);
        assert_eq!(place_of(placed(word, 254)), (Some(254), word));
        assert_eq!(place_of(word), (None, word));
    }

    #[test]
    fn every_order_is_where_its_name_says() {
        let orders = Orders { runtime: 1, current: 2, text_hash: 3, index: 4, ..Orders::default() };
        let word = |order: Order| orders.words()[order as usize / 8];
        assert_eq!((word(Order::Runtime), word(Order::Current)), (1, 2));
        assert_eq!((word(Order::TextHash), word(Order::Index)), (3, 4));
        assert_eq!(ORDERS, Order::DirectEnd as usize / 8 + 1);
    }
}
