//! Functions that do nothing of their own but call another one: an operator delete that is a jump to
//! free. To hook both would be to hook one call twice.

use std::collections::HashSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl};

use super::{jump::is_near_branch, stub::Stubs};
use crate::{function_ranges::FunctionRanges, image::Image};

/// Wrappers are short.
const LOOKS: usize = 256;

/// The hooked function that the one at `entry` calls on every way that returns.
pub(crate) fn always_calls(
    image: &Image<'_>,
    functions: &FunctionRanges<'_, '_>,
    is_hooked: &dyn Fn(u64) -> bool,
    stubs: &Stubs<'_, '_>,
    entry: u64,
) -> Option<u64> {
    let extent = functions.containing(entry)?;
    let hooked = |target: u64| {
        let direct = is_hooked(target).then_some(target);
        direct.or_else(|| stubs.hooked(target).map(|(function, _)| function))
    };
    let mut ways = vec![(entry, extent.end)];
    let (mut seen, mut callee) = (HashSet::new(), None);
    // A cold part has an end of its own.
    let end_at = |at: u64, end: u64| functions.containing(at).map_or(end, |part| part.end);
    while let Some((at, end)) = ways.pop() {
        // Behind the last instruction: what stands before it does not come back.
        if at == end || !seen.insert(at) {
            continue;
        }
        if seen.len() > LOOKS {
            return None;
        }
        let code = image.code_from(at)?;
        let instruction = Decoder::with_ip(64, code, at, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return None;
        }
        let target = is_near_branch(&instruction).then(|| instruction.near_branch_target());
        if let Some(found) = target.filter(|&t| t != entry).and_then(hooked) {
            callee.get_or_insert(found);
            if instruction.flow_control() == FlowControl::ConditionalBranch {
                ways.push((instruction.next_ip(), end));
            }
            continue;
        }
        match (instruction.flow_control(), target) {
            (FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall, _) => {
                ways.push((instruction.next_ip(), end));
            }
            (FlowControl::UnconditionalBranch, Some(target)) => {
                ways.push((target, end_at(target, end)));
            }
            (FlowControl::ConditionalBranch, Some(target)) => {
                ways.extend([(instruction.next_ip(), end), (target, end_at(target, end))]);
            }
            (FlowControl::Exception | FlowControl::Interrupt, _) => {}
            _ => return None,
        }
    }
    callee
}

#[cfg(test)]
mod tests {
    use crate::{
        Family, Role,
        model::{Model, at, branch},
    };

    /// xor %rdi,%rax; mov %rsi,%rdx; ret.
    const PLAIN: &[u8] = b"\x48\x31\xf8\x48\x89\xf2\xc3";

    fn callee(code: &[u8]) -> Option<u64> {
        let model = Model::default().exports(0x100, PLAIN).exports(0x200, code);
        let hooked = [(0x100, Family::Heap), (0x200, Family::Heap)];
        let analysis = model.analyse(&hooked, Role::Executable);
        let calls = analysis.entry(at(0x200)).unwrap().calls;
        calls.map(|callee| callee.get() - at(0).get())
    }

    #[test]
    fn a_jump_to_another_is_a_wrapper() {
        assert_eq!(callee(&branch(b"\xe9", 0x200, 0x100)), Some(0x100));
        assert_eq!(callee(PLAIN), None);
    }

    #[test]
    fn a_function_that_calls_another_on_some_ways_only_is_none() {
        let call = branch(b"\xe8", 0x206, 0x100);
        // test %rdi,%rdi; je to the ret; nop; call; ret
        let some = [b"\x48\x85\xff\x74\x06\x90", &call[..], b"\xc3"].concat();
        assert_eq!(callee(&some), None);
        // The same, but the other way traps.
        let trap = [b"\x48\x85\xff\x74\x06\x90", &call[..], b"\xc3"].concat();
        let trap = [&trap[..4], &[7_u8], &trap[5..], b"\x0f\x0b"].concat();
        assert_eq!(callee(&trap), Some(0x100));
    }

    #[test]
    fn a_loop_around_the_call_is_followed_once() {
        // call; test; je back to the call; ret
        let call = branch(b"\xe8", 0x200, 0x100);
        let code = [&call[..], b"\x48\x85\xc0\x74\xf6\xc3"].concat();
        assert_eq!(callee(&code), Some(0x100));
    }
}
