//! What a getter of jemalloc's would answer, found by following its instructions over memory as it is.
//!
//! Every setting has a function that copies one variable to where its caller wants it. It calls nothing and
//! takes no lock, so a few dozen of its instructions, followed here, tell the value: of every release, with
//! any prefix, without symbols. Nothing runs in the target. What is not understood is no answer.

use std::collections::HashMap;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use crate::Moment;

/// Instructions that are followed.
const MOST: usize = 96;
/// Instructions are no longer.
const LONGEST: usize = 15;
/// Where the answer, its length and the stack are: no addresses of a program.
const ANSWER: u64 = 0xffff_8000_0000_0000;
const LENGTH: u64 = 0xffff_8000_0001_0000;
const STACK: u64 = 0xffff_8000_0002_0000;
/// Where the function returns to.
const RETURN: u64 = 0xffff_8000_0003_0000;
/// Where a thread has the word that guards its stack, and where it has it here.
const GUARD: u64 = 0x28;
const GUARDED: u64 = RETURN + 0x800;
const OWN: std::ops::RangeInclusive<u64> = ANSWER..=RETURN + 0x1000;

/// The answer of a getter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// Its bytes, the first lowest.
    pub word: u64,
    /// How many.
    pub bytes: u64,
    /// Where the last variable was that it looked at, if any.
    pub from: Option<u64>,
}

/// The answer of the function at an address.
pub fn get(moment: &Moment<'_>, function: u64) -> Option<Got> {
    // A caller has to know the length; a function that is told another one does not answer.
    [8, 4, 1].into_iter().find_map(|bytes| Run::new(moment, bytes).follow(function))
}

/// A function on its way.
struct Run<'a, 'm> {
    moment: &'a Moment<'m>,
    bytes: u64,
    registers: [Option<u64>; 16],
    /// What was written, byte by byte.
    written: HashMap<u64, u8>,
    flags: Option<Flags>,
    from: Option<u64>,
}

/// What a comparison left behind.
#[derive(Clone, Copy)]
struct Flags {
    left: u64,
    right: u64,
    result: u64,
    is_difference: bool,
    bits: u32,
}

impl<'a, 'm> Run<'a, 'm> {
    fn new(moment: &'a Moment<'m>, bytes: u64) -> Self {
        // Thread, name in numbers, their count, answer, its length, new value; the last argument, the new
        // value's length, lies on the stack: there is none.
        let mut run = Self {
            moment,
            bytes,
            registers: [None; 16],
            written: HashMap::new(),
            flags: None,
            from: None,
        };
        for (register, value) in [
            (Register::RDI, 0),
            (Register::RSI, 0),
            (Register::RDX, 0),
            (Register::RCX, ANSWER),
            (Register::R8, LENGTH),
            (Register::R9, 0),
            (Register::RSP, STACK),
        ] {
            run.registers[register.number()] = Some(value);
        }
        run.store(GUARDED, 0, 8);
        run.store(STACK, RETURN, 8);
        run.store(STACK + 8, 0, 8);
        run.store(LENGTH, bytes, 8);
        run
    }

    fn follow(mut self, function: u64) -> Option<Got> {
        let mut at = function;
        for _ in 0..MOST {
            let (code, length) = code(self.moment, at);
            let mut decoder = Decoder::with_ip(64, code.get(..length)?, at, DecoderOptions::NONE);
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return None;
            }
            at = self.step(&instruction)?;
            if at == RETURN {
                let is_done = self.registers[0]? & 0xffff_ffff == 0;
                let word = is_done.then(|| self.own(ANSWER, self.bytes))??;
                return Some(Got { word, bytes: self.bytes, from: self.from });
            }
        }
        None
    }

    /// Answers where it goes on.
    fn step(&mut self, own: &Instruction) -> Option<u64> {
        let next = own.next_ip();
        match own.mnemonic() {
            Mnemonic::Endbr64 | Mnemonic::Nop => {}
            Mnemonic::Mov | Mnemonic::Movzx => {
                let value = self.value(own, 1)?;
                self.set(own, value)?;
            }
            Mnemonic::Movsxd | Mnemonic::Movsx => {
                let (value, bits) = (self.value(own, 1)?, self.bits(own, 1));
                self.set(own, sign(value, bits))?;
            }
            Mnemonic::Lea => {
                let address = self.address(own)?;
                self.set(own, address)?;
            }
            Mnemonic::Xor
                if own.op0_register() == own.op1_register()
                    && own.op1_kind() == OpKind::Register =>
            {
                self.set(own, 0)?;
                self.compare(own, 0, 0, false);
            }
            Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Add | Mnemonic::Sub => {
                let (left, right) = (self.value(own, 0)?, self.value(own, 1)?);
                let result = match own.mnemonic() {
                    Mnemonic::And => left & right,
                    Mnemonic::Or => left | right,
                    Mnemonic::Xor => left ^ right,
                    Mnemonic::Add => left.wrapping_add(right),
                    _ => left.wrapping_sub(right),
                };
                if own.mnemonic() == Mnemonic::Add {
                    self.flags = None;
                } else {
                    self.compare(own, left, right, own.mnemonic() == Mnemonic::Sub);
                    self.flags = self.flags.map(|flags| Flags { result, ..flags });
                }
                self.set(own, result)?;
            }
            Mnemonic::Test | Mnemonic::Cmp => {
                let (left, right) = (self.value(own, 0)?, self.value(own, 1)?);
                self.compare(own, left, right, own.mnemonic() == Mnemonic::Cmp);
            }
            Mnemonic::Push => {
                let value = self.value(own, 0).unwrap_or(0);
                let top = self.registers[Register::RSP.number()]?.wrapping_sub(8);
                self.registers[Register::RSP.number()] = Some(top);
                self.store(top, value, 8);
            }
            Mnemonic::Pop => {
                let value = self.pop()?;
                self.set(own, value)?;
            }
            Mnemonic::Ret => return self.pop(),
            Mnemonic::Jmp if own.op0_kind() == OpKind::NearBranch64 => {
                return Some(own.near_branch64());
            }
            _ if own.is_jcc_short_or_near() => {
                let is_taken = self.flags?.holds(own.condition_code())?;
                return Some(if is_taken { own.near_branch64() } else { next });
            }
            _ if matches!(own.condition_code(), iced_x86::ConditionCode::None) => return None,
            _ => {
                let holds = self.flags?.holds(own.condition_code())?;
                if own.op_count() == 1 {
                    self.set(own, u64::from(holds))?;
                } else {
                    let value = self.value(own, if holds { 1 } else { 0 })?;
                    self.set(own, value)?;
                }
            }
        }
        Some(next)
    }

    fn pop(&mut self) -> Option<u64> {
        let top = self.registers[Register::RSP.number()]?;
        self.registers[Register::RSP.number()] = Some(top.wrapping_add(8));
        self.own(top, 8)
    }

    fn compare(&mut self, own: &Instruction, left: u64, right: u64, is_difference: bool) {
        let result = if is_difference { left.wrapping_sub(right) } else { left & right };
        let bits = self.bits(own, 0);
        self.flags = Some(Flags { left, right, result, is_difference, bits });
    }

    /// The bits of an operand.
    fn bits(&self, own: &Instruction, operand: u32) -> u32 {
        let bytes = match own.op_kind(operand) {
            OpKind::Register => own.op_register(operand).size(),
            OpKind::Memory => own.memory_size().size(),
            _ => 8,
        };
        u32::try_from(bytes * 8).unwrap_or(64)
    }

    /// The value of an operand, without sign.
    fn value(&mut self, own: &Instruction, operand: u32) -> Option<u64> {
        match own.op_kind(operand) {
            OpKind::Register => {
                let register = own.op_register(operand);
                let is_known = register.is_gpr() && !is_high(register);
                let word =
                    is_known.then(|| self.registers[register.full_register().number()])??;
                Some(word & mask(self.bits(own, operand)))
            }
            OpKind::Memory => {
                let bytes = u64::from(self.bits(own, operand) / 8);
                self.load(self.address(own)?, bytes)
            }
            OpKind::NearBranch64 => None,
            _ => Some(own.immediate(operand) & mask(self.bits(own, 0))),
        }
    }

    /// Sets the first operand.
    fn set(&mut self, own: &Instruction, value: u64) -> Option<()> {
        let bits = self.bits(own, 0);
        let value = value & mask(bits);
        match own.op_kind(0) {
            OpKind::Register => {
                let register = own.op_register(0);
                if !register.is_gpr() || is_high(register) {
                    return None;
                }
                let old = &mut self.registers[register.full_register().number()];
                // Half words clear the upper half, smaller ones leave it.
                *old = match bits {
                    32 | 64 => Some(value),
                    _ => Some(old.unwrap_or(0) & !mask(bits) | value),
                };
            }
            OpKind::Memory => {
                let at = self.address(own)?;
                OWN.contains(&at).then_some(())?;
                self.store(at, value, u64::from(bits / 8));
            }
            _ => return None,
        }
        Some(())
    }

    fn address(&self, own: &Instruction) -> Option<u64> {
        if own.is_ip_rel_memory_operand() {
            return Some(own.ip_rel_memory_address());
        }
        match own.segment_prefix() {
            Register::None => {}
            // What guards the stack: any value will do.
            Register::FS
                if own.memory_base() == Register::None
                    && own.memory_index() == Register::None
                    && own.memory_displacement64() == GUARD =>
            {
                return Some(GUARDED);
            }
            _ => return None,
        }
        let of = |register: Register| match register {
            Register::None => Some(0),
            register => self.registers[register.full_register().number()],
        };
        let index = of(own.memory_index())?.wrapping_mul(u64::from(own.memory_index_scale()));
        let base = of(own.memory_base())?;
        Some(base.wrapping_add(index).wrapping_add(own.memory_displacement64()))
    }

    fn store(&mut self, at: u64, value: u64, bytes: u64) {
        for (offset, byte) in (0..bytes).zip(value.to_le_bytes()) {
            self.written.insert(at.wrapping_add(offset), byte);
        }
    }

    /// What was written there.
    fn own(&self, at: u64, bytes: u64) -> Option<u64> {
        let mut word = [0; 8];
        for (offset, byte) in (0..bytes).zip(&mut word) {
            *byte = *self.written.get(&at.wrapping_add(offset))?;
        }
        Some(u64::from_le_bytes(word))
    }

    fn load(&mut self, at: u64, bytes: u64) -> Option<u64> {
        if OWN.contains(&at) {
            return self.own(at, bytes);
        }
        self.from = Some(at);
        let mut word = [0; 8];
        let wanted = word.get_mut(..usize::try_from(bytes).ok()?)?;
        (self.moment.read(at, wanted) == wanted.len()).then_some(u64::from_le_bytes(word))
    }
}

impl Flags {
    fn holds(self, condition: iced_x86::ConditionCode) -> Option<bool> {
        use iced_x86::ConditionCode as C;
        let Self { left, right, result, is_difference, bits } = self;
        let (left, right) = (left & mask(bits), right & mask(bits));
        let is_zero = result & mask(bits) == 0;
        let is_below = is_difference && left < right;
        Some(match condition {
            C::e => is_zero,
            C::ne => !is_zero,
            C::b => is_below,
            C::ae => !is_below,
            C::be => is_below || is_zero,
            C::a => !(is_below || is_zero),
            C::s => result & mask(bits) & !(mask(bits) >> 1) != 0,
            C::ns => result & mask(bits) & !(mask(bits) >> 1) == 0,
            _ => return None,
        })
    }
}

/// The bytes of an instruction and of what follows it, and how many there are. Pages of words are kept: a
/// function is read once.
fn code(moment: &Moment<'_>, at: u64) -> ([u8; LONGEST], usize) {
    let (mut bytes, mut length) = ([0; LONGEST], 0);
    while let Some(byte) = bytes.get_mut(length) {
        let place = at.wrapping_add(length as u64);
        let Some(word) = moment.word(place & !7) else { break };
        *byte = word.to_le_bytes()[usize::try_from(place & 7).unwrap_or(0)];
        length += 1;
    }
    (bytes, length)
}

fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

fn sign(value: u64, bits: u32) -> u64 {
    let shift = 64_u32.saturating_sub(bits);
    (value << shift).cast_signed().wrapping_shr(shift).cast_unsigned()
}

/// The second byte of a register.
fn is_high(register: Register) -> bool {
    matches!(register, Register::AH | Register::BH | Register::CH | Register::DH)
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::*;

    fn memory(code: &[u8]) -> Synthetic {
        let mut memory = Synthetic::default();
        memory.map(0x10000..0x20000);
        memory.write_bytes(0x10000, code);
        memory.write(0x11000, 0x2710);
        memory
    }

    #[test]
    fn a_getter_that_knows_its_length_answers() {
        // or r9,[rsp+8]; jne end; lea rdx,[0x11000]; mov esi,[rdx]; cmp qword [r8],4; jne end; mov [rcx],esi;
        // xor eax,eax; ret; end: mov eax,1; ret
        let code = [
            0x4c, 0x0b, 0x4c, 0x24, 0x08, 0x75, 0x16, 0x48, 0x8d, 0x15, 0xf2, 0x0f, 0x00, 0x00,
            0x8b, 0x32, 0x49, 0x83, 0x38, 0x04, 0x75, 0x07, 0x89, 0x31, 0x31, 0xc0, 0xc3, 0x90,
            0x90, 0xb8, 0x01, 0x00, 0x00, 0x00, 0xc3,
        ];
        let memory = memory(&code);
        assert_eq!(
            get(&memory.moment(), 0x10000),
            Some(Got { word: 0x2710, bytes: 4, from: Some(0x11000) })
        );
    }

    #[test]
    fn code_that_calls_or_never_ends_is_no_answer() {
        for code in [&[0xe8, 0, 0, 0, 0, 0xc3][..], &[0xeb, 0xfe], &[0xff, 0xff], &[0xc3]] {
            assert_eq!(get(&memory(code).moment(), 0x10000), None, "{code:x?}");
        }
        assert_eq!(get(&memory(&[]).moment(), 0x30000), None);
    }

    proptest::proptest! {
        #[test]
        fn no_code_makes_it_panic(code in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = get(&memory(&code).moment(), 0x10000);
        }
    }
}
