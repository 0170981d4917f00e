//! Proof that nothing enters a window but at its start.
//!
//! Five ways in are looked for: branches with 32 bits, from anywhere ([`crate::arch::scan`]); branches
//! with 8 bits, from the code within their reach; addresses the loader writes; names that begin
//! there; jump tables of the function itself.

use std::{collections::BTreeMap, ops::Range};

use crate::{
    Family, Refusal,
    arch::{disassembly::Disassembly, scan::Hit, switch},
    draft::{Drafts, Part},
    function_ranges::FunctionRanges,
    image::Image,
};
use heapattach_process::addr::ImageAddr;

/// How far from its target the first byte of a short branch can be, prefix included.
const SHORT_REACH: u64 = 132;

/// Refuses every function that a branch with 32 bits enters past its start.
pub(super) fn by_long_branch(drafts: &mut Drafts, hits: &[Hit]) {
    for hit in hits {
        refuse_if_inside(drafts, hit.target, hit.field.wrapping_sub(1));
    }
}

/// Refuses every function past whose start something begins that can be named.
pub(super) fn by_name(drafts: &mut Drafts, functions: &FunctionRanges<'_, '_>) {
    for (entry, window) in drafts.windows() {
        let inside = window.inside();
        let hooked = inside.clone().find(|&at| drafts.contains(at));
        let begins = |at: &u64| functions.exports_any_of(&(*at..*at + 1));
        if let Some(at) = hooked.or_else(|| inside.clone().find(begins)) {
            drafts.refuse(entry, Refusal::EnteredInside(ImageAddr::new(at)));
        }
    }
}

/// Refuses the function past whose start a word of data leads.
pub(super) fn by_word(drafts: &mut Drafts, word: u64, leads_to: u64) {
    refuse_if_inside(drafts, leads_to, word);
}

/// Refuses every function whose own jump tables lead past its start.
pub(super) fn by_table(drafts: &mut Drafts, image: &Image<'_>, functions: &FunctionRanges<'_, '_>) {
    for (entry, window) in drafts.windows() {
        let Some(function) = functions.containing(entry) else { continue };
        if let Some(table) = switch::table_into(image, &function, &window.inside()) {
            drafts.refuse(entry, Refusal::EnteredInside(ImageAddr::new(table)));
        }
    }
}

/// Refuses every function that a short branch of its surroundings enters past its start; and every
/// one that a short branch `of_ours` leads to the start of, since that cannot be made to bypass the hook.
pub(super) fn by_short_branch(
    drafts: &mut Drafts,
    image: &Image<'_>,
    functions: &FunctionRanges<'_, '_>,
    code: &mut Disassembly<'_, '_>,
    of_ours: impl Fn(&Range<u64>, Family) -> bool,
) {
    let mut near = BTreeMap::new();
    for (entry, window) in drafts.windows() {
        let limit = window.inside().end.saturating_add(SHORT_REACH);
        let mut at = entry.saturating_sub(SHORT_REACH);
        while at < limit {
            let Some(function) = functions.containing(at) else {
                if let Some(target) = short_branch_at(image, at) {
                    refuse_if_inside(drafts, target, at);
                }
                at += 1;
                continue;
            };
            at = function.end.max(at + 1);
            if code.branches(&function).is_none() {
                drafts.refuse(entry, Refusal::TooLarge);
            }
            near.insert(function.start, function);
        }
    }
    for function in near.values() {
        let Some(branches) = code.branches(function) else { continue };
        for branch in branches.iter().filter(|branch| branch.field.is_none()) {
            refuse_if_inside(drafts, branch.target, branch.site);
            let Some((entry, Part::Entry)) = drafts.at(branch.target) else { continue };
            // A loop of the window to its own start moves with it, and stays past the hook.
            let moves = drafts.at(branch.site).is_some_and(|(owner, _)| owner == entry);
            if moves {
                continue;
            }
            drafts.set_called_directly(entry);
            if drafts.family(entry).is_some_and(|family| of_ours(function, family)) {
                drafts.refuse(entry, Refusal::ShortBranch(ImageAddr::new(branch.site)));
            }
        }
    }
}

fn refuse_if_inside(drafts: &mut Drafts, target: u64, from: u64) {
    if let Some((entry, Part::Inside)) = drafts.at(target) {
        drafts.refuse(entry, Refusal::EnteredInside(ImageAddr::new(from)));
    }
}

/// Where the byte at `at` would lead if it were the opcode of a short branch: bytes that belong to
/// no function are padding, but hand-written code may be among them.
fn short_branch_at(image: &Image<'_>, at: u64) -> Option<u64> {
    let &[0x70..=0x7f | 0xe0..=0xe3 | 0xeb, displacement, ..] = image.code_from(at)? else {
        return None;
    };
    Some(at.checked_add(2)?.wrapping_add_signed(displacement.cast_signed().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CODE, DATA, Model, at, branch};

    /// xor %rdi,%rax; mov %rsi,%rdx; ret: a window of six bytes.
    const HOOKED: &[u8] = b"\x48\x31\xf8\x48\x89\xf2\xc3";

    fn model() -> Model {
        Model::default().exports(0x100, HOOKED)
    }

    fn entered(from: u64) -> Option<Refusal> {
        Some(Refusal::EnteredInside(at(from)))
    }

    #[test]
    fn nothing_found_is_no_refusal() {
        assert_eq!(model().refusal(0x100), None);
    }

    #[test]
    fn a_long_branch_from_anywhere_into_the_window_refuses() {
        for (opcode, last) in [(&b"\xe8"[..], 0), (b"\xe9", 0), (b"\x0f\x84", 1), (b"\xc7\xf8", 1)]
        {
            for inside in 1..6 {
                let code = branch(opcode, 0x4_0003, 0x100 + inside);
                assert_eq!(model().code(0x4_0003, &code).refusal(0x100), entered(0x4_0003 + last));
            }
            for outside in [0x0ff, 0x100, 0x106] {
                let code = branch(opcode, 0x4_0003, outside);
                assert_eq!(model().code(0x4_0003, &code).refusal(0x100), None);
            }
        }
    }

    #[test]
    fn a_short_branch_into_the_window_refuses() {
        // Out of its own body, a neighbour, and code that no table knows of.
        let looping = Model::default().exports(0, b"\x48\x31\xf8\x48\xff\xcf\x75\xfb\xc3");
        assert_eq!(looping.refusal(0), entered(6));
        assert_eq!(model().function(0x7e, b"\x75\x7f\xc3").refusal(0x100), None);
        assert_eq!(model().function(0x80, b"\x75\x7f\xc3").refusal(0x100), entered(0x80));
        assert_eq!(model().code(0x110, b"\xeb\xf1").refusal(0x100), entered(0x110));
    }

    #[test]
    fn a_short_branch_of_the_allocator_to_the_start_refuses() {
        let short = Some(Refusal::ShortBranch(at(0x110)));
        assert_eq!(model().function(0x110, b"\xeb\xee").refusal(0x100), short);
        assert_eq!(model().exports(0x110, b"\xeb\xee").refusal(0x100), None, "a caller's own");
        let looping = Model::default().exports(0, b"\x48\x29\xf7\x75\xfb\xc3\x90");
        assert_eq!(looping.refusal(0), None, "it moves with the window");
    }

    #[test]
    fn a_word_or_a_name_that_leads_into_the_window_refuses() {
        let pointed = model().data(&[0; 8]).points(DATA, CODE + 0x103);
        assert_eq!(pointed.refusal(0x100), Some(Refusal::EnteredInside(ImageAddr::new(DATA))));
        assert_eq!(model().data(&[0; 8]).points(DATA, CODE + 0x100).refusal(0x100), None);
        assert_eq!(model().exports(0x103, b"\x48\x89\xf2").refusal(0x100), entered(0x103));
    }

    #[test]
    fn a_jump_table_that_leads_into_the_window_refuses() {
        // xor %rdi,%rax; L: dec %rdi; lea table(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add; jmp *%rax
        let mut code = b"\x48\x31\xf8\x48\xff\xcf".to_vec();
        code.extend(branch(b"\x48\x8d\x15", CODE + 0x106, DATA));
        code.extend(b"\x48\x63\x04\xba\x48\x01\xd0\xff\xe0");
        let table = |to: u64| {
            let row = u32::try_from((CODE + to).wrapping_sub(DATA) & 0xffff_ffff).unwrap();
            let last = u32::try_from((CODE + 0x10d).wrapping_sub(DATA) & 0xffff_ffff).unwrap();
            let data = [last.to_le_bytes(), row.to_le_bytes()].concat();
            Model::default().exports(0x100, &code).data(&data).refusal(0x100)
        };
        assert_eq!(table(0x103), Some(Refusal::EnteredInside(ImageAddr::new(DATA))));
        assert_eq!(table(0x10d), None);
        // jmp *table(,%rdi,8), with addresses in the table.
        let mut code = b"\x48\x31\xf8\x48\xff\xcf\xff\x24\xfd".to_vec();
        code.extend(u32::try_from(DATA).unwrap().to_le_bytes());
        let table = |to: u64| {
            let model = Model::default().exports(0x100, &code);
            model.data(&(CODE + to).to_le_bytes()).refusal(0x100)
        };
        assert_eq!(table(0x103), Some(Refusal::EnteredInside(ImageAddr::new(DATA))));
        assert_eq!(table(0x106), None);
    }
}
