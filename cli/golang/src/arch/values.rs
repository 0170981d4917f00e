//! What registers and words of a frame have at a place of the code, as far as the code states it.

use std::collections::BTreeMap;

use iced_x86::{Code, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

use super::call::ARGUMENTS;

/// Words of a frame that are followed.
const MOST_WORDS: usize = 256;

/// What a register, or a word of the frame, has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Value {
    /// It is not known.
    #[default]
    Unknown,
    /// Nothing: a pointer of any type.
    Zero,
    /// An address that the code states.
    Address(u64),
    /// What the variable at an address has.
    Variable(u64),
    /// The first result of the call that returns to an address.
    Result(u64),
}

impl Value {
    /// What is known where two ways meet: types are followed, and no pointer has each of them.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (own, Self::Zero) => own,
            (Self::Zero, other) => other,
            (own, other) if own == other => own,
            _ => Self::Unknown,
        }
    }
}

/// What the code does with such values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// It calls a function with these arguments; `back` is where that returns to.
    Call { back: u64, target: u64, arguments: [Value; ARGUMENTS.len()] },
    /// A variable is set.
    Stored { at: u64, value: Value },
    /// The first word of what a call made is set to an address.
    Begins { made: u64, with: u64 },
    /// The function returns this first.
    Returned(Value),
}

/// At a place of the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    registers: [Value; 16],
    /// By the distance from the stack pointer.
    frame: BTreeMap<i64, Value>,
}

impl State {
    /// Only what is known of both; whether that is less than before.
    pub(super) fn meet(&mut self, other: &Self) -> bool {
        let before = self.clone();
        for (own, other) in self.registers.iter_mut().zip(other.registers) {
            *own = own.or(other);
        }
        self.frame.retain(|place, own| {
            *own = own.or(other.frame.get(place).copied().unwrap_or_default());
            *own != Value::Unknown
        });
        *self != before
    }

    pub(super) fn register(&self, register: Register) -> Value {
        let is_known = register.is_gpr64();
        let own = is_known.then(|| self.registers.get(register.number()).copied()).flatten();
        own.unwrap_or_default()
    }

    fn set(&mut self, register: Register, value: Value) {
        let full = register.full_register();
        if full == Register::RSP {
            self.frame.clear();
        } else if full.is_gpr64()
            && let Some(own) = self.registers.get_mut(full.number())
        {
            *own = value;
        }
    }

    /// A function was called that keeps no register.
    pub(super) fn call(&mut self, result: Value) {
        self.registers = Default::default();
        self.set(Register::RAX, result);
    }

    /// The runtime was called for the garbage collector, in the midst of a function: registers stay.
    pub(super) fn interlude(&mut self) {
        for register in [Register::RDI, Register::RSI, Register::R11] {
            self.set(register, Value::Unknown);
        }
    }

    /// What an instruction does that leads nowhere else.
    pub(super) fn step(
        &mut self,
        instruction: &Instruction,
        infos: &mut InstructionInfoFactory,
    ) -> Option<Fact> {
        let (to, from) = (instruction.op0_register(), instruction.op1_register());
        let kinds = (instruction.op0_kind(), instruction.op1_kind());
        let is_move = matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64);
        match kinds {
            (OpKind::Register, OpKind::Memory) if instruction.code() == Code::Lea_r64_m => {
                let is_address = instruction.is_ip_rel_memory_operand();
                let value = Value::Address(instruction.ip_rel_memory_address());
                self.set(to, if is_address { value } else { Value::Unknown });
                None
            }
            (OpKind::Register, OpKind::Memory) if is_move => {
                let own = || self.frame.get(&in_frame(instruction)?).copied();
                let value = match instruction.is_ip_rel_memory_operand() {
                    true => Value::Variable(instruction.ip_rel_memory_address()),
                    false => own().unwrap_or_default(),
                };
                self.set(to, value);
                None
            }
            (OpKind::Register, OpKind::Register) if is_move => {
                self.set(to, self.register(from));
                None
            }
            (OpKind::Register, OpKind::Register)
                if matches!(instruction.code(), Code::Xor_r32_rm32 | Code::Xor_rm32_r32)
                    && to == from =>
            {
                self.set(to, Value::Zero);
                None
            }
            (OpKind::Memory, OpKind::Register) if is_move => self.store(instruction, from),
            _ => {
                self.forget(instruction, infos);
                None
            }
        }
    }

    fn store(&mut self, instruction: &Instruction, from: Register) -> Option<Fact> {
        let value = self.register(from);
        if instruction.is_ip_rel_memory_operand() {
            return Some(Fact::Stored { at: instruction.ip_rel_memory_address(), value });
        }
        if let Some(place) = in_frame(instruction) {
            self.write(place, 8);
            if value != Value::Unknown && self.frame.len() < MOST_WORDS {
                self.frame.insert(place, value);
            }
            return None;
        }
        let is_first = instruction.memory_index() == Register::None
            && instruction.memory_displacement64() == 0;
        match (self.register(instruction.memory_base()), value) {
            (Value::Result(made), Value::Address(with)) if is_first => {
                Some(Fact::Begins { made, with })
            }
            _ => None,
        }
    }

    /// Whatever else is written is not known.
    fn forget(&mut self, instruction: &Instruction, infos: &mut InstructionInfoFactory) {
        let info = infos.info(instruction);
        let is_read = |access| matches!(access, OpAccess::Read | OpAccess::CondRead);
        for used in info.used_registers().iter().filter(|used| !is_read(used.access())) {
            self.set(used.register(), Value::Unknown);
        }
        let written = info.used_memory().iter().filter(|used| !is_read(used.access()));
        for used in written.filter(|used| used.base() == Register::RSP) {
            let size = i64::try_from(used.memory_size().size()).unwrap_or(8);
            self.write(used.displacement().cast_signed(), size.max(8));
        }
    }

    fn write(&mut self, place: i64, size: i64) {
        let range = place.saturating_sub(7)..place.saturating_add(size);
        self.frame.retain(|own, _| !range.contains(own));
    }
}

/// Where in the frame the word lies that an instruction refers to.
fn in_frame(instruction: &Instruction) -> Option<i64> {
    let is_plain =
        instruction.memory_base() == Register::RSP && instruction.memory_index() == Register::None;
    is_plain.then(|| instruction.memory_displacement64().cast_signed())
}
