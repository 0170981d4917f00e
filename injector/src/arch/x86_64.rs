//! x86-64: registers and injected calls.
//!
//! # Safety
//! The one unsafe operation reads the time-stamp counter, which touches no memory.
#![allow(unsafe_code)]

mod answer;
mod aside;
mod brief_call;
mod client_requests;
mod dwarf;
mod errand;
mod leads;
mod leaves;
mod lsan_functions;
mod processor;
mod reads;
mod request_code;
mod requests;
mod rescue_frame;

use nix::errno::Errno;

use heapattach_process::addr::RemoteAddr;

pub use answer::{Step, answer_step};
pub use aside::{LEAVE_AND_RETURN, WAY_BACK, aside};
pub use brief_call::{end_brief_call, seize_briefly};
pub use client_requests::client_requests;
pub use dwarf::{
    DWARF_FRAME_POINTER, DWARF_KEPT, DWARF_RETURN_ADDRESS, DWARF_STACK_POINTER, linkage,
};
pub use errand::{PARKED, errand_code, gate, vector_room};
pub use leads::{LONGEST_LEAD, leads_to};
pub use leaves::{jumps_by_table, jumps_out, led_to};
pub use lsan_functions::{LsanWord, lsan_code, lsan_function_at};
pub use reads::{constants_added, first_address_taken, first_read_in, read_distances};
pub use request_code::{
    FAR_JUMP, FAR_JUMP_BYTES, REQUEST_ANSWERS, RequestWord, SITE_BYTES, SKIP_REQUEST, request_code,
    request_originals, request_site,
};
pub use requests::{VECTOR_STATE, VECTOR_STATE_LIMIT, breakpoint};
pub use rescue_frame::{FRAME_FREE, PLAIN_FRAME, RESCUE_FRAME_LIMIT, rescue_frame};

/// Where a hook's frame has the first argument of the call, until the original returns.
pub use heapattach_abi::frame::RDI as FRAME_FIRST_ARGUMENT;

/// The general registers of a stopped thread.
pub type Registers = libc::user_regs_struct;

/// What the machine is called.
pub const MACHINE: &str = "x86-64";

/// `ELFCLASS64` files of this machine are what we can work on.
pub const ELF_MACHINE: u16 = goblin::elf::header::EM_X86_64;

/// Where the memory of programs ends: one page below 47 bits. With page tables of five levels there
/// is more, but only for programs that ask for it by address.
pub const USER_SPACE_END: u64 = 0x7fff_ffff_f000;

/// Relocations that leave the address of a function in a word.
pub const RELOCATION_JUMP_SLOT: u32 = goblin::elf::reloc::R_X86_64_JUMP_SLOT;
/// See [`RELOCATION_JUMP_SLOT`].
pub const RELOCATION_GLOB_DAT: u32 = goblin::elf::reloc::R_X86_64_GLOB_DAT;
/// See [`RELOCATION_JUMP_SLOT`].
pub const RELOCATION_ADDRESS: u32 = goblin::elf::reloc::R_X86_64_64;

/// An instruction that jumps to itself: a place to wait at without a trap.
pub const SELF_JUMP: [u8; 2] = [0xeb, 0xfe];

/// Our own place for an injected call: should the tracer die meanwhile, the thread runs on into
/// `rt_sigreturn` with the rescue frame on its stack, and is where it was.
/// `syscall; mov $15, %eax; syscall; ud2`
pub const RESCUED_CALL: [u8; 11] = [0x0f, 0x05, 0xb8, 15, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b];

/// The same in two places of a libc: `syscall; ret`,
pub const CALL_AND_RETURN: [u8; 3] = [0x0f, 0x05, 0xc3];
/// and what signal handlers return to: `mov $15, %rax` or `%eax`, `syscall`.
pub const SIGNAL_RETURNS: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05], &[0xb8, 15, 0, 0, 0, 0x0f, 0x05]];

/// The same where the program has none of it: [`CALL_AND_RETURN`], a signal return at
/// [`BROUGHT_RETURN`], and [`LEAVE_AND_RETURN`] at [`BROUGHT_LEAVE`].
pub const BROUGHT_CODE: [u8; 12] = [0x0f, 0x05, 0xc3, 0xb8, 15, 0, 0, 0, 0x0f, 0x05, 0xc9, 0xc3];
/// See [`BROUGHT_CODE`].
pub const BROUGHT_RETURN: u64 = 3;
/// See [`BROUGHT_CODE`].
pub const BROUGHT_LEAVE: u64 = 10;

/// A place to make `clone` at: the clone finds its own end behind the call, should it ever run; the
/// caller goes on as at [`RESCUED_CALL`].
/// `syscall; test %eax, %eax; jne 1f; mov $231, %eax; xor %edi, %edi; syscall;
/// 1: mov $15, %eax; syscall; ud2`
pub const CLONING_CALL: [u8; 24] = [
    0x0f, 0x05, 0x85, 0xc0, 0x75, 0x09, 0xb8, 231, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05, 0xb8, 15, 0, 0,
    0, 0x0f, 0x05, 0x0f, 0x0b,
];

/// Functions may use so much below the stack pointer.
pub const RED_ZONE: u64 = 128;

/// A resident stub: `jmp *2(%rip)`, padding, then the cell that holds where to.
pub const STUB_JUMP: [u8; 8] = [0xff, 0x25, 2, 0, 0, 0, 0xcc, 0xcc];

const TRAP_FLAG: u64 = 1 << 8;
const DIRECTION_FLAG: u64 = 1 << 10;
const NO_CALL: u64 = u64::MAX;

const ERESTART_RESTARTBLOCK: i64 = -516;
const ERESTARTNOHAND: i64 = -514;
const ERESTARTSYS: i64 = -512;

/// What the stop found a thread doing; the order is our preference for a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Running its own code.
    User,
    /// In a call the kernel restarts unseen.
    Restarts,
    /// In a call the kernel restarts through its restart block.
    RestartBlock,
    /// In a call that answers EINTR to any stop; it has the answer already.
    Interrupted,
}

/// What this thread was doing.
pub fn activity(registers: &Registers) -> Activity {
    if registers.orig_rax == NO_CALL {
        return Activity::User;
    }
    match registers.rax.cast_signed() {
        ERESTART_RESTARTBLOCK => Activity::RestartBlock,
        ERESTARTNOHAND..=ERESTARTSYS => Activity::Restarts,
        _ => Activity::Interrupted,
    }
}

/// The number of the system call it is in, if it is in one.
pub fn call_number(registers: &Registers) -> Option<i64> {
    (registers.orig_rax != NO_CALL).then_some(registers.orig_rax.cast_signed())
}

/// Where the thread is.
pub fn program_counter(registers: &Registers) -> RemoteAddr {
    RemoteAddr::new(registers.rip)
}

/// Where its stack ends.
pub fn stack_pointer(registers: &Registers) -> RemoteAddr {
    RemoteAddr::new(registers.rsp)
}

/// What functions that keep a frame pointer find their frame by.
pub fn frame_pointer(registers: &Registers) -> u64 {
    registers.rbp
}

/// The registers that calls keep: rbx, rbp, r12, r13, r14, r15.
pub fn kept(registers: &Registers) -> [u64; 6] {
    let r = registers;
    [r.rbx, r.rbp, r.r12, r.r13, r.r14, r.r15]
}

/// Where its thread-local variables end and the C library's record of it begins: what it has told the
/// kernel to find its own data by; 0 before it has.
pub fn thread_pointer(registers: &Registers) -> RemoteAddr {
    RemoteAddr::new(registers.fs_base)
}

/// The registers of a thread, as a core has them.
pub fn registers_of_core(words: &[u64; 27]) -> Registers {
    let [r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, rest @ ..] =
        *words;
    let [orig_rax, rip, cs, eflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs] = rest;
    Registers {
        r15,
        r14,
        r13,
        r12,
        rbp,
        rbx,
        r11,
        r10,
        r9,
        r8,
        rax,
        rcx,
        rdx,
        rsi,
        rdi,
        orig_rax,
        rip,
        cs,
        eflags,
        rsp,
        ss,
        fs_base,
        gs_base,
        ds,
        es,
        fs,
        gs,
    }
}

/// All words of the general registers that can be pointers of the program's.
pub fn words(registers: &Registers) -> [u64; 16] {
    let r = registers;
    [
        r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
        r.r14, r.r15, r.gs_base,
    ]
}

/// How many bytes after a saved program counter [`is_saved_by_signal`] wants to see.
pub const SIGNAL_FRAME_TAIL: usize = 16;

/// Whether the words after a saved program counter are those of a signal frame: the flags, then the
/// selectors, of which the kernel always saves the user's code segment.
pub fn is_saved_by_signal(after: &[u8]) -> bool {
    const USER_CODE_SEGMENT: u16 = 0x33;
    after.get(8..10).is_some_and(|cs| cs == USER_CODE_SEGMENT.to_le_bytes())
}

/// The registers with the program counter elsewhere.
pub fn moved_to(registers: &Registers, place: RemoteAddr) -> Registers {
    Registers { rip: place.get(), ..*registers }
}

/// The registers after the function just entered has returned to `place`.
pub fn returned_to(registers: &Registers, place: RemoteAddr) -> Registers {
    Registers {
        rip: place.get(),
        rsp: registers.rsp.wrapping_add(8),
        orig_rax: NO_CALL,
        ..*registers
    }
}

/// The processor's time-stamp counter.
pub fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has the counter, and reading it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Finds a `syscall` instruction in the text of the vDSO.
pub fn find_syscall(text: &[u8]) -> Option<usize> {
    text.windows(2).position(|w| w == [0x0f, 0x05])
}

/// Registers that make the call `number` at the instruction `gadget`, on the stack `stack`.
pub fn call_registers(
    saved: &Registers,
    gadget: RemoteAddr,
    stack: Option<RemoteAddr>,
    number: i64,
    arguments: [u64; 6],
) -> Registers {
    let [rdi, rsi, rdx, r10, r8, r9] = arguments;
    Registers {
        rip: gadget.get(),
        rsp: stack.map_or(saved.rsp, RemoteAddr::get),
        rax: number.cast_unsigned(),
        // Else the kernel would take our call for the interrupted one and move rip back by two.
        orig_rax: NO_CALL,
        eflags: saved.eflags & !(TRAP_FLAG | DIRECTION_FLAG),
        rdi,
        rsi,
        rdx,
        r10,
        r8,
        r9,
        ..*saved
    }
}

/// What the call answered.
///
/// # Errors
/// The call's own errno.
pub fn call_result(registers: &Registers) -> Result<u64, Errno> {
    let value = registers.rax.cast_signed();
    match i32::try_from(value) {
        Ok(error @ -4095..=-1) => Err(Errno::from_raw(-error)),
        _ => Ok(registers.rax),
    }
}

/// What the loader of a program does at the end of a system call, as far as it tells how far the
/// loader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoaderCall {
    /// It opened the file of this name.
    Opened(RemoteAddr),
    /// It set the thread pointer: what it needs is mapped, nothing is relocated yet.
    ThreadPointer,
    /// It unmapped something.
    Unmapped,
    /// Something else, or without success.
    Other,
}

/// Reads the registers at the end of a system call.
pub fn loader_call(registers: &Registers) -> LoaderCall {
    const ARCH_SET_FS: u64 = 0x1002;
    let failed = registers.rax.cast_signed() < 0;
    match i64::try_from(registers.orig_rax) {
        Ok(_) if failed => LoaderCall::Other,
        Ok(libc::SYS_openat) => LoaderCall::Opened(RemoteAddr::new(registers.rsi)),
        Ok(libc::SYS_open) => LoaderCall::Opened(RemoteAddr::new(registers.rdi)),
        Ok(libc::SYS_arch_prctl) if registers.rdi == ARCH_SET_FS => LoaderCall::ThreadPointer,
        Ok(libc::SYS_munmap) => LoaderCall::Unmapped,
        _ => LoaderCall::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn at(rip: u64, rax: i64, orig_rax: u64) -> Registers {
        // All registers are plain numbers.
        let mut registers = blank();
        (registers.rip, registers.rax, registers.orig_rax) = (rip, rax.cast_unsigned(), orig_rax);
        registers
    }

    fn blank() -> Registers {
        Registers {
            r15: 0,
            r14: 0,
            r13: 0,
            r12: 0,
            rbp: 0,
            rbx: 0,
            r11: 0,
            r10: 0,
            r9: 0,
            r8: 0,
            rax: 0,
            rcx: 0,
            rdx: 0,
            rsi: 0,
            rdi: 0,
            orig_rax: 0,
            rip: 0,
            cs: 0x33,
            eflags: 0x202,
            rsp: 0,
            ss: 0x2b,
            fs_base: 0,
            gs_base: 0,
            ds: 0,
            es: 0,
            fs: 0,
            gs: 0,
        }
    }

    #[test]
    fn knows_what_a_stopped_thread_was_doing() {
        assert_eq!(activity(&at(1, 5, NO_CALL)), Activity::User);
        assert_eq!(activity(&at(1, -512, 0)), Activity::Restarts);
        assert_eq!(activity(&at(1, -514, 34)), Activity::Restarts);
        assert_eq!(activity(&at(1, -516, 35)), Activity::RestartBlock);
        assert_eq!(activity(&at(1, -4, 232)), Activity::Interrupted);
    }

    #[test]
    fn only_small_negative_numbers_are_errors() {
        assert_eq!(call_result(&at(0, -12, 0)), Err(Errno::ENOMEM));
        assert_eq!(call_result(&at(0, -4096, 0)), Ok((-4096_i64).cast_unsigned()));
        assert_eq!(call_result(&at(0, 0x7f00_0000_0000, 0)), Ok(0x7f00_0000_0000));
    }
}
