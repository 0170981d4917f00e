//! Proof that nothing enters a window but at its start.
//!
//! Five ways in are looked for: branches with 32 bits, from anywhere ([`super::scan`]); branches
//! with 8 bits, from the code within their reach; addresses the loader writes; names that begin
//! there; jump tables of the function itself.

use std::{collections::BTreeMap, ops::Range};

use super::{
    Family, Refusal,
    disassembly::Disassembly,
    draft::{Drafts, Part},
    functions::Functions,
    image::Image,
    scan::Hit,
    switch,
};

/// How far from its target the first byte of a short branch can be, prefix included.
const SHORT_REACH: u64 = 132;

/// Refuses every function that a branch with 32 bits enters past its start.
pub(super) fn by_long_branch(drafts: &mut Drafts, hits: &[Hit]) {
    for hit in hits {
        refuse_if_inside(drafts, hit.target, hit.field.wrapping_sub(1));
    }
}

/// Refuses every function past whose start something begins that can be named.
pub(super) fn by_name(drafts: &mut Drafts, functions: &Functions<'_, '_>) {
    for (entry, window) in drafts.windows() {
        let inside = window.inside();
        let hooked = inside.clone().find(|&at| drafts.contains(at));
        let begins = |at: &u64| functions.exports_any_of(&(*at..*at + 1));
        if let Some(at) = hooked.or_else(|| inside.clone().find(begins)) {
            drafts.refuse(entry, Refusal::EnteredInside(at));
        }
    }
}

/// Refuses the function past whose start a word of data leads.
pub(super) fn by_word(drafts: &mut Drafts, word: u64, leads_to: u64) {
    refuse_if_inside(drafts, leads_to, word);
}

/// Refuses every function whose own jump tables lead past its start.
pub(super) fn by_table(drafts: &mut Drafts, image: &Image<'_>, functions: &Functions<'_, '_>) {
    for (entry, window) in drafts.windows() {
        let Some(function) = functions.containing(entry) else { continue };
        if let Some(table) = switch::table_into(image, &function, &window.inside()) {
            drafts.refuse(entry, Refusal::EnteredInside(table));
        }
    }
}

/// Refuses every function that a short branch of its surroundings enters past its start; and every
/// one that a short branch `of_ours` leads to the start of, since that cannot be led past the hook.
pub(super) fn by_short_branch(
    drafts: &mut Drafts,
    image: &Image<'_>,
    functions: &Functions<'_, '_>,
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
            if !moves && drafts.family(entry).is_some_and(|family| of_ours(function, family)) {
                drafts.refuse(entry, Refusal::ShortBranch(branch.site));
            }
        }
    }
}

fn refuse_if_inside(drafts: &mut Drafts, target: u64, from: u64) {
    if let Some((entry, Part::Inside)) = drafts.at(target) {
        drafts.refuse(entry, Refusal::EnteredInside(from));
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
