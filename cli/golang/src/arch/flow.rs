//! What the code of a function states along all of its ways: what variables are set to, what calls are given, what it
//! returns. What differs by the way on which a place is reached is not told.

use std::collections::{BTreeSet, HashMap};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Register,
};

use super::{
    call::ARGUMENTS,
    values::{Fact, State, Value},
};

/// Instructions that are followed in a function, those of loops again and again; to begin a part costs as many.
const MOST_STEPS: usize = 1 << 24;
const BEGIN: usize = 64;

/// The function that is looked at.
struct Flow<'k> {
    code: Vec<Instruction>,
    /// Where its parts begin, by the numbers of instructions; and by address.
    starts: Vec<usize>,
    parts: HashMap<u64, usize>,
    /// What holds where each begins, once it is reached.
    before: Vec<Option<State>>,
    keeps: &'k dyn Fn(u64) -> bool,
    infos: InstructionInfoFactory,
}

/// Follows the code that lies at an address, for so many steps as are `left`; `keeps` tells functions that keep registers.
pub(crate) fn facts(
    code: &[u8],
    at: u64,
    keeps: &dyn Fn(u64) -> bool,
    left: &mut usize,
    tell: &mut dyn FnMut(Fact),
) {
    let mut flow = Flow::of(code, at, keeps);
    if flow.run(left) {
        for part in 0..flow.starts.len() {
            if let Some(state) = flow.before[part].clone() {
                flow.part(part, state, tell);
            }
        }
    }
}

impl<'k> Flow<'k> {
    fn of(code: &[u8], at: u64, keeps: &'k dyn Fn(u64) -> bool) -> Self {
        let decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
        let code: Vec<Instruction> = decoder.into_iter().collect();
        let mut leaders = BTreeSet::from([at]);
        let mut is_open = false;
        for one in &code {
            match one.flow_control() {
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => continue,
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    leaders.insert(one.near_branch_target());
                }
                FlowControl::IndirectBranch => is_open = true,
                _ => {}
            }
            leaders.insert(one.next_ip());
        }
        let numbered = code.iter().enumerate().filter(|(_, one)| leaders.contains(&one.ip()));
        let (starts, places): (Vec<_>, Vec<_>) =
            numbered.map(|(number, one)| (number, one.ip())).unzip();
        let parts: HashMap<u64, usize> =
            places.into_iter().enumerate().map(|(part, place)| (place, part)).collect();
        // A table may lead to each of them.
        let first = |part| (is_open || part == 0).then(State::default);
        let before = (0..starts.len()).map(first).collect();
        Self { code, starts, parts, before, keeps, infos: InstructionInfoFactory::new() }
    }

    /// Until nothing changes; whether it came to that with the steps that are `left`.
    fn run(&mut self, left: &mut usize) -> bool {
        let most = MOST_STEPS.min(*left);
        let reached = (0..self.starts.len()).filter(|part| self.before[*part].is_some());
        let mut queue: Vec<usize> = reached.collect();
        let mut steps = 0;
        while let Some(part) = queue.pop() {
            let Some(state) = self.before[part].clone() else { continue };
            let end = self.end(part);
            steps += BEGIN + end - self.starts[part];
            if steps > most {
                *left -= most;
                return false;
            }
            let after = self.part(part, state, &mut |_| {});
            for next in self.next(end) {
                let changed = match self.before.get_mut(next) {
                    Some(Some(own)) => own.meet(&after),
                    Some(own) => {
                        *own = Some(after.clone());
                        true
                    }
                    None => false,
                };
                if changed {
                    queue.push(next);
                }
            }
        }
        *left -= steps;
        true
    }

    fn end(&self, part: usize) -> usize {
        self.starts.get(part + 1).copied().unwrap_or(self.code.len())
    }

    /// The parts that follow the one that ends there.
    fn next(&self, end: usize) -> impl Iterator<Item = usize> + use<> {
        let last = end.checked_sub(1).and_then(|last| self.code.get(last));
        let part = |place: u64| self.parts.get(&place).copied();
        let (branch, behind) = last.map_or((None, None), |last| {
            let (branch, behind) = (part(last.near_branch_target()), part(last.next_ip()));
            match last.flow_control() {
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => (None, behind),
                FlowControl::ConditionalBranch => (branch, behind),
                FlowControl::UnconditionalBranch => (branch, None),
                _ => (None, None),
            }
        });
        branch.into_iter().chain(behind)
    }

    /// One part: what holds at its end.
    fn part(&mut self, part: usize, mut state: State, tell: &mut dyn FnMut(Fact)) -> State {
        for number in self.starts[part]..self.end(part) {
            let one = &self.code[number];
            match one.flow_control() {
                FlowControl::Next => {
                    if let Some(fact) = state.step(one, &mut self.infos) {
                        tell(fact);
                    }
                }
                FlowControl::Call if (self.keeps)(one.near_branch_target()) => state.interlude(),
                FlowControl::Call => {
                    let (back, target) = (one.next_ip(), one.near_branch_target());
                    let arguments = ARGUMENTS.map(|register| state.register(register));
                    tell(Fact::Call { back, target, arguments });
                    state.call(Value::Result(back));
                }
                FlowControl::IndirectCall => state.call(Value::Unknown),
                FlowControl::Return => tell(Fact::Returned(state.register(Register::RAX))),
                FlowControl::UnconditionalBranch
                    if !self.parts.contains_key(&one.near_branch_target()) =>
                {
                    tell(Fact::Returned(Value::Unknown));
                }
                _ => {}
            }
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `call` to 0x2000 from that place; or to 0x3000, which keeps registers.
    fn call(code: &mut Vec<u8>, target: u32) -> u64 {
        let next = 0x1000 + code.len() as u64 + 5;
        code.push(0xe8);
        code.extend((target - u32::try_from(next).unwrap()).to_le_bytes());
        next
    }

    fn told(code: &[u8]) -> Vec<Fact> {
        told_in(code, &mut (1 << 20))
    }

    fn told_in(code: &[u8], left: &mut usize) -> Vec<Fact> {
        let mut all = Vec::new();
        facts(code, 0x1000, &|target| target == 0x3000, left, &mut |fact| all.push(fact));
        all
    }

    #[test]
    fn all_functions_together_take_so_many_steps_and_what_is_beyond_is_not_told() {
        let code = [&LEA_RAX[..], &STORE, b"\xc3"].concat();
        let mut left = 2 * (BEGIN + 3) + 10;
        let told = [0; 3].map(|_| told_in(&code, &mut left).len());
        assert_eq!((told[0], told[2], left), (told[1], 0, 0));
        assert!(told[0] > 0);
    }

    const LEA_RAX: [u8; 7] = [0x48, 0x8d, 5, 0, 1, 0, 0];
    /// mov [rip+0x100], rax
    const STORE: [u8; 7] = [0x48, 0x89, 5, 0, 1, 0, 0];

    #[test]
    fn what_a_call_made_is_followed_through_the_frame_and_a_write_barrier_into_a_variable() {
        // lea rax, type; call; mov [rsp+8], rax; cmp eax, 0; jne +5; call barrier; mov rax, [rsp+8]; mov [rip+..], rax; ret
        let mut code = LEA_RAX.to_vec();
        let made = call(&mut code, 0x2000);
        code.extend([0x48, 0x89, 0x44, 0x24, 8, 0x83, 0xf8, 0, 0x75, 5]);
        call(&mut code, 0x3000);
        code.extend([0x48, 0x8b, 0x44, 0x24, 8]);
        let at = 0x1000 + code.len() as u64 + 7 + 0x100;
        code.extend(STORE);
        code.push(0xc3);
        let all = told(&code);
        let is_given = |fact: &Fact| {
            matches!(fact, Fact::Call { back, target: 0x2000, arguments }
                if *back == made && arguments[0] == Value::Address(0x1107))
        };
        assert!(all.iter().any(is_given), "{all:x?}");
        assert!(all.contains(&Fact::Stored { at, value: Value::Result(made) }), "{all:x?}");
        assert!(all.contains(&Fact::Returned(Value::Result(made))), "{all:x?}");
    }

    #[test]
    fn what_differs_by_the_way_is_not_known_and_nothing_is_of_any_type() {
        // test ecx, ecx; lea rax; jne over what changes it; then the store.
        for (other, value) in
            [(&[0x48, 0x89, 0xc8][..], Value::Unknown), (&[0x31, 0xc0][..], Value::Address(0x1109))]
        {
            let mut code = [&[0x85, 0xc9][..], &LEA_RAX].concat();
            code.extend([0x75, u8::try_from(other.len()).unwrap()]);
            code.extend(other);
            let at = 0x1000 + code.len() as u64 + 7 + 0x100;
            code.extend(STORE);
            assert!(told(&code).contains(&Fact::Stored { at, value }), "{other:x?}");
        }
        // A table of jumps may lead anywhere.
        let mut code = LEA_RAX.to_vec();
        code.extend([0x75, 2, 0xff, 0xe1]);
        let at = 0x1000 + code.len() as u64 + 7 + 0x100;
        code.extend(STORE);
        assert!(told(&code).contains(&Fact::Stored { at, value: Value::Unknown }));
    }

    #[test]
    fn the_function_that_a_closure_begins_with_is_told() {
        // call; lea rcx, function; mov [rax], rcx
        let mut code = Vec::new();
        let made = call(&mut code, 0x2000);
        code.extend([0x48, 0x8d, 0xd, 0, 2, 0, 0, 0x48, 0x89, 8]);
        let with = made + 7 + 0x200;
        assert!(told(&code).contains(&Fact::Begins { made, with }));
    }

    #[test]
    fn bytes_that_are_no_code_end_it() {
        for seed in 0..=255_u8 {
            let code: Vec<u8> =
                (0..=255_u8).map(|at| seed.wrapping_mul(at).rotate_left(3)).collect();
            told(&code);
        }
    }
}
