//! The whole analysis of one module, from its bytes to the plans.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use super::{
    Analysis, Bypass, Callee, Entry, EntryPlan, Family, Hooked, ImageError, Refusal, Role,
    arch::{
        disassembly::{Branch, Disassembly},
        flags,
        machine::MACHINE,
        scan::{Hit, scan},
        stub::Stubs,
        wrapper,
    },
    closure::Closure,
    draft::{Drafts, Part},
    function_ranges::FunctionRanges,
    image::Image,
    intrusion,
};
use heapattach_process::addr::ImageAddr;

/// Analyses a module for entry patching. `file` is aligned as any vector of that size is.
///
/// # Errors
/// When the bytes are not an ELF file with code in it. What concerns one function alone is a
/// [`Refusal`] in its [`Entry`].
pub fn analyse(file: &[u8], hooked: &[Hooked<'_>], role: Role) -> Result<Analysis, ImageError> {
    let image = Image::parse(file, &MACHINE)?;
    let functions = FunctionRanges::new(&image, hooked);
    let mut drafts = Drafts::new(hooked, &image, &functions);
    let zones = drafts.zones();
    let hits = scan(&image, &zones).unwrap_or_else(|| {
        drafts.refuse_all(Refusal::TooLarge);
        Vec::new()
    });
    let stubs = Stubs::new(&image, relocated(&mut drafts, &image));
    intrusion::by_long_branch(&mut drafts, &hits);
    intrusion::by_name(&mut drafts, &functions);
    intrusion::by_table(&mut drafts, &image, &functions);

    let mut code = Disassembly::new(&image, zones);
    let closure = Closure::of(&drafts, &functions, &mut code, &stubs);
    let of_ours = |function: &Range<u64>, family| {
        let library_heap = role == Role::Library && family == Family::Heap;
        closure.contains(function) || (library_heap && !functions.exports_any_of(function))
    };
    intrusion::by_short_branch(&mut drafts, &image, &functions, &mut code, of_ours);
    let is_kept = |entry| hooked.iter().any(|h| h.address.get() == entry && h.keeps_flags);
    for entry in drafts.entries(None).into_iter().filter(|&entry| !is_kept(entry)) {
        if let Err(why) = flags::written_over(&image, entry) {
            drafts.refuse(entry, why);
        }
    }

    let mut branches = closure.branches.clone();
    for hit in &hits {
        let Some((entry, Part::Entry)) = drafts.at(hit.target) else { continue };
        if drafts.family(entry) == Some(Family::Kernel) {
            continue;
        }
        let Some(function) = functions.containing(hit.field.wrapping_sub(1)) else { continue };
        if drafts.family(entry).is_some_and(|family| of_ours(&function, family)) {
            branches.extend(code.branches(&function).and_then(|all| branch_of(hit, &all)));
        }
    }
    let led_past: HashSet<u64> = branches.iter().filter_map(Branch::field_at).collect();
    for hit in hits.iter().filter(|hit| !led_past.contains(&hit.field)) {
        if let Some((entry, Part::Entry)) = drafts.at(hit.target) {
            drafts.set_called_directly(entry);
        }
    }
    let calls = drafts
        .entries(None)
        .into_iter()
        .filter_map(|entry| {
            let is_hooked = |target| drafts.contains(target);
            Some((entry, wrapper::always_calls(&image, &functions, &is_hooked, &stubs, entry)?))
        })
        .collect();
    Ok(assemble(&image, drafts, &stubs, branches, &calls))
}

/// Refuses what the loader makes words lead into, and gives the slots that name hooked functions.
fn relocated(drafts: &mut Drafts, image: &Image<'_>) -> HashMap<u64, u64> {
    let mut slots = HashMap::new();
    image.relocations(|relocation| {
        if relocation.by_name && drafts.contains(relocation.leads_to) {
            slots.insert(relocation.word, relocation.leads_to);
        }
        intrusion::by_word(drafts, relocation.word, relocation.leads_to);
    });
    slots
}

/// The instruction that the bytes of `hit` are a part of, if they are the branch they look like.
fn branch_of(hit: &Hit, branches: &[Branch]) -> Option<Branch> {
    let next = branches.partition_point(|branch| branch.site < hit.field);
    let branch = branches.get(next.checked_sub(1)?)?;
    (branch.site + u64::from(branch.field?) == hit.field).then_some(*branch)
}

/// What is left when everything is known about every function.
fn assemble(
    image: &Image<'_>,
    drafts: Drafts,
    stubs: &Stubs<'_, '_>,
    mut branches: Vec<Branch>,
    calls: &HashMap<u64, u64>,
) -> Analysis {
    branches.sort_unstable_by_key(|branch| branch.site);
    branches.dedup_by_key(|branch| branch.site);
    let mut leads: HashMap<u64, Vec<(ImageAddr, Callee)>> = HashMap::new();
    let mut bypasses = Vec::new();
    for branch in branches {
        let Some(callee) = callee(branch.target, &drafts, stubs) else { continue };
        let owner = drafts.at(branch.site).map(|(entry, _)| entry);
        if let Some(entry) = owner {
            leads.entry(entry).or_default().push((ImageAddr::new(branch.target), callee));
        }
        let (Some(rel32_offset), Some(field)) = (branch.field, branch.field_at()) else { continue };
        let Some((&old, _)) = image.code_from(field).and_then(<[u8]>::split_first_chunk) else {
            continue;
        };
        let moved_with = owner.map(ImageAddr::new);
        let site = ImageAddr::new(branch.site);
        bypasses.push(Bypass { site, callee, old, rel32_offset, moved_with });
    }
    let entries = drafts.into_iter().map(|(entry, draft)| {
        let address = ImageAddr::new(entry);
        let plan = |window| {
            let leads = leads.remove(&entry).unwrap_or_default();
            EntryPlan::new(address, window, leads, draft.is_called_directly)
        };
        let calls = calls.get(&entry).copied().map(ImageAddr::new);
        Entry { address, plan: draft.window.map(plan), calls }
    });
    Analysis { entries: entries.collect(), bypasses }
}

/// The hooked function that a branch to `target` calls, if that one is to be patched.
fn callee(target: u64, drafts: &Drafts, stubs: &Stubs<'_, '_>) -> Option<Callee> {
    if let Some((entry, Part::Entry)) = drafts.at(target) {
        return Some(Callee { function: ImageAddr::new(entry), slot: None });
    }
    let (function, slot) = stubs.hooked(target)?;
    drafts.at(function)?;
    Some(Callee { function: ImageAddr::new(function), slot: Some(ImageAddr::new(slot)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CODE, DATA, Model, at, branch};
    use heapattach_process::addr::{Bias, RemoteAddr};

    const HEAP: Family = Family::Heap;
    /// xor %rdi,%rax; mov %rsi,%rdx; ret.
    const PLAIN: &[u8] = b"\x48\x31\xf8\x48\x89\xf2\xc3";
    const CALL: &[u8] = b"\xe8";
    const JUMP: &[u8] = b"\xe9";

    /// PLAIN's first instructions, and a branch at `from + 6`.
    fn caller(opcode: &[u8], from: u64, to: u64) -> Vec<u8> {
        [&PLAIN[..6], &branch(opcode, from + 6, to), b"\xc3"].concat()
    }

    fn sites(analysis: &Analysis) -> Vec<u64> {
        analysis.bypasses(|_| true).map(|bypass| bypass.site.get() - CODE).collect()
    }

    #[test]
    fn a_library_leads_past_the_hook_what_only_itself_can_call() {
        let model = Model::default()
            .exports(0x100, PLAIN)
            .exports(0x200, &caller(JUMP, 0x200, 0x100))
            .exports(0x300, &caller(CALL, 0x300, 0x100))
            .function(0x5_0000, &caller(b"\x0f\x84", 0x5_0000, 0x100));
        let analysis = model.analyse(&[(0x100, HEAP), (0x200, HEAP)], Role::Library);
        assert_eq!(sites(&analysis), [0x206, 0x5_0006], "0x300 is a caller's own");
        let program = model.analyse(&[(0x100, HEAP), (0x200, HEAP)], Role::Executable);
        assert_eq!(sites(&program), [0x206], "anything may call it directly in a program");
        let map = [(0x100, Family::Map), (0x200, HEAP)];
        assert_eq!(
            sites(&model.analyse(&map, Role::Library)),
            [0x206],
            "others map for themselves"
        );
    }

    #[test]
    fn a_branch_that_does_not_lead_past_the_hook_may_know_the_function() {
        let is_called = |model: Model, family, role| {
            let analysis = model.analyse(&[(0x100, family), (0x200, HEAP)], role);
            analysis.entry(at(0x100)).unwrap().plan.as_ref().unwrap().is_called_directly()
        };
        let model = || Model::default().exports(0x100, PLAIN).exports(0x200, PLAIN);
        let calls = |from, opcode| model().exports(from, &caller(opcode, from, 0x100));
        assert!(!is_called(model(), HEAP, Role::Library), "nobody calls it");
        for opcode in [CALL, JUMP, b"\x0f\x84"] {
            assert!(is_called(calls(0x300, opcode), HEAP, Role::Library), "an exported function");
            let own = model().function(0x5_0000, &caller(opcode, 0x5_0000, 0x100));
            assert!(!is_called(own, HEAP, Role::Library), "led past the hook");
        }
        let near = || model().function(0x300, &caller(CALL, 0x300, 0x100));
        assert!(is_called(near(), Family::Map, Role::Library), "others map for themselves");
        assert!(is_called(near(), HEAP, Role::Executable), "anything may call it in a program");
        // Bytes that are no branch, but look like one.
        let bytes = [b"\x48\xb8", &branch(CALL, 0x302, 0x100)[..], b"\0\0\0\xc3"].concat();
        assert!(is_called(model().exports(0x300, &bytes), HEAP, Role::Library));
        let short = model().exports(0xf0, &[0xeb, 0x0e]);
        assert!(is_called(short, HEAP, Role::Library), "a short one");
        // jmp *slot(%rip).
        let stub = model().data(&[0; 16]).slot(DATA + 8, 0);
        let stub = stub.exports(0x300, &caller(CALL, 0x300, 0x400));
        let stub = stub.code(0x400, &branch(b"\xff\x25", CODE + 0x400, DATA + 8));
        assert!(!is_called(stub, HEAP, Role::Library), "by way of a slot");
    }

    #[test]
    fn the_allocator_reaches_near_functions_and_far_cold_parts() {
        let model = |opcode, helper| {
            let model = Model::default().exports(0x100, PLAIN);
            let model = model.exports(0x200, &caller(opcode, 0x200, helper));
            let model = model.function(helper, &caller(CALL, helper, 0x100));
            sites(&model.analyse(&[(0x100, HEAP), (0x200, HEAP)], Role::Executable))
        };
        assert_eq!(model(CALL, 0x8000), [0x8006], "a helper near by");
        assert_eq!(model(CALL, 0x8_0000), [], "a function far away");
        assert_eq!(model(b"\x0f\x85", 0x8_0000), [0x8_0006], "a cold part");
    }

    #[test]
    fn bytes_that_look_like_a_branch_are_no_site() {
        // movabs with a call in its immediate.
        let call = branch(CALL, 0x302, 0x100);
        let code = [b"\x48\xb8", &call[..], b"\0\0\0\xc3"].concat();
        let model = Model::default().exports(0x100, PLAIN).function(0x300, &code);
        assert_eq!(sites(&model.analyse(&[(0x100, HEAP)], Role::Library)), [0; 0]);
    }

    #[test]
    fn a_site_in_a_window_moves_with_it() {
        let model =
            Model::default().exports(0x100, PLAIN).exports(0x200, &branch(JUMP, 0x200, 0x100));
        let analysis = model.analyse(&[(0x100, HEAP), (0x200, HEAP)], Role::Library);
        assert_eq!(sites(&analysis), [0; 0]);
        let left = analysis.bypasses(|entry| entry == at(0x100)).count();
        assert_eq!(left, 1, "if its function is not patched, it is rewritten where it is");
        let plan = analysis.entry(at(0x200)).unwrap().plan.as_ref().unwrap();
        let (here, past) = (RemoteAddr::new(0x50_0000), RemoteAddr::new(0x60_0000));
        let code = plan.relocate(Bias::default(), here, |callee| {
            (*callee == Callee { function: at(0x100), slot: None }).then_some(past)
        });
        assert_eq!(code.unwrap(), branch(JUMP, here.get(), past.get()));
    }

    #[test]
    fn a_call_by_way_of_the_own_plt_is_one_of_its_own() {
        // jmp *slot(%rip), with the prefixes that linkers have put there.
        for prefix in [&b""[..], b"\xf3\x0f\x1e\xfa", b"\xf3\x0f\x1e\xfa\xf2"] {
            let opcode = [prefix, b"\xff\x25"].concat();
            let model = Model::default()
                .data(&[0; 16])
                .slot(DATA + 8, 0)
                .exports(0x100, PLAIN)
                .exports(0x200, &caller(CALL, 0x200, 0x400))
                .code(0x400, &branch(&opcode, CODE + 0x400, DATA + 8));
            let analysis = model.analyse(&[(0x100, HEAP), (0x200, HEAP)], Role::Library);
            let bypass: Vec<_> = analysis.bypasses(|_| true).collect();
            let slot = Some(ImageAddr::new(DATA + 8));
            assert_eq!(bypass[0].callee, Callee { function: at(0x100), slot });
            assert_eq!((sites(&analysis), bypass[0].old), (vec![0x206], [0xf5, 1, 0, 0]));
        }
    }

    #[test]
    fn nothing_leads_past_a_hook_that_is_refused() {
        let model = Model::default()
            .exports(0x100, b"\x0f\x05\x90\x90\x90\xc3")
            .exports(0x200, &caller(JUMP, 0x200, 0x100));
        let analysis = model.analyse(&[(0x100, HEAP), (0x200, HEAP)], Role::Library);
        assert_eq!(analysis.entry(at(0x100)).unwrap().plan, Err(Refusal::Immovable(at(0x100))));
        assert_eq!(sites(&analysis), [0; 0]);
    }

    #[test]
    fn what_is_no_module_is_an_error() {
        let error = |file: &[u8]| analyse(file, &[], Role::Library).unwrap_err().to_string();
        assert_eq!(error(b"#!/bin/sh"), "not a 64-bit little-endian x86-64 ELF file");
        let mut file = Model::default().build();
        file[64 + 4] = 6;
        assert_eq!(error(&file), "the file has no executable segment");
        file[18] = 40;
        assert_eq!(error(&file), "not a 64-bit little-endian x86-64 ELF file");
    }
}
