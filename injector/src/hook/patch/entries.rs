//! The entries: where their first instructions go, and what is written in their place.

use std::{collections::HashMap, sync::Arc};

use heapattach_abi::{flow, kind::HookKind};

use super::{PatchError, Patches, change};
use crate::{
    home::payload_image::PayloadImage,
    hook::plan::{EntryParts, Sizes, Way},
    trace::stopped::Stopped,
};
use crate::{
    home::{Change, ChangeKind},
    module::sizer::Sizer,
};
use heapattach_entry::{Analysis, Callee, RelocateError};
use heapattach_process::addr::{ImageAddr, RemoteAddr};

impl Patches {
    /// What the hook needs besides: where its arguments are, whether blocks are counted by size, or what
    /// does not throw, past its hook.
    pub(super) fn second(&self, index: usize) -> u64 {
        let planned = &self.hooks[index].planned;
        let Some(at) = planned.nothrow else {
            let (kind, form) = planned.kind();
            let counts = if planned.sizes == Sizes::Head { flow::COUNTS } else { 0 };
            return if kind == HookKind::Chosen { form.pack() } else { counts };
        };
        let other = self.hooks.iter().find(|hook| hook.planned.at == at);
        let past = other.filter(|hook| matches!(hook.planned.way, Way::Entry(_)));
        let past = past.and_then(|hook| hook.number).map(|number| self.home.trampoline(number));
        past.unwrap_or(at).get()
    }

    /// What the hook asks how large a block is, and whether it is its allocator's.
    pub(super) fn sizers(&self, index: usize) -> [u64; 2] {
        match self.hooks[index].planned.sizes {
            Sizes::Asked(Sizer { sizer, owner }) => [sizer.get(), owner.map_or(0, RemoteAddr::get)],
            Sizes::Unknown | Sizes::Head => [0; 2],
        }
    }

    /// The first instructions of every function from `first` on that is hooked at its entry, made
    /// to fit their trampoline. One that does not fit is left to the slots, and then others may
    /// not lead past its hook.
    pub(super) fn trampolines(
        &mut self,
        stop: &Stopped<'_>,
        first: usize,
    ) -> HashMap<usize, Vec<u8>> {
        loop {
            let mut all = HashMap::new();
            let mut misfit = None;
            for index in first..self.hooks.len() {
                match self.trampoline(stop, index) {
                    None => {}
                    Some(Ok(code)) => {
                        all.insert(index, code);
                    }
                    Some(Err(error)) => misfit = Some((index, error.to_string())),
                }
            }
            match misfit {
                None => return all,
                Some((index, why)) => {
                    self.hooks[index].planned.leave_entry(why, self.mode);
                }
            }
        }
    }

    fn trampoline(
        &self,
        stop: &Stopped<'_>,
        index: usize,
    ) -> Option<Result<Vec<u8>, RelocateError>> {
        let hook = &self.hooks[index];
        let Way::Entry(parts) = &hook.planned.way else { return None };
        let place = self.home.trampoline(hook.number?);
        Some(parts.plan.relocate(parts.bias, place, |callee| self.past(stop, parts, callee)))
    }

    /// The trampoline of the function that `parts`' module states at `at`, if it is patched.
    fn trampoline_of(&self, parts: &EntryParts, at: ImageAddr) -> Option<RemoteAddr> {
        let hook = self.hooks.iter().find(|h| h.planned.at == parts.bias.place(at))?;
        matches!(hook.planned.way, Way::Entry(_)).then_some(self.home.trampoline(hook.number?))
    }

    /// Where an internal branch to `callee` leads past its hook. By way of a PLT stub it is a call
    /// of that function only while the slot is bound to it, or will be.
    fn past(&self, stop: &Stopped<'_>, parts: &EntryParts, callee: &Callee) -> Option<RemoteAddr> {
        if let Some(slot) = callee.slot {
            let bound = stop.target().memory.word(parts.bias.place(slot)).ok()?;
            let function = parts.bias.place(callee.function);
            let other = self.hooks.iter().any(|h| h.planned.at.get() == bound);
            if bound != function.get() && other {
                return None;
            }
        }
        self.trampoline_of(parts, callee.function)
    }

    pub(super) fn entry_changes(
        &mut self,
        stop: &Stopped<'_>,
        image: &PayloadImage,
        first: usize,
    ) -> Result<Vec<Change>, PatchError> {
        let mut changes = Vec::new();
        let mut seen: Vec<Arc<Analysis>> = Vec::new();
        for index in first..self.hooks.len() {
            let hook = self.hooks[index].clone();
            let (Way::Entry(parts), Some(number)) = (&hook.planned.way, hook.number) else {
                continue;
            };
            let module = self.module_index(stop, &hook.planned.definer)?;
            let at = self.hook_at(image, &hook.planned, number);
            let (old, new) = (parts.plan.old(), parts.plan.patch(parts.bias, at)?);
            let window = parts.plan.window_at(parts.bias).start;
            changes.push(change(window, &old, &new, ChangeKind::Entry, module));
            if seen.iter().any(|a| Arc::ptr_eq(a, &parts.analysis)) {
                continue;
            }
            seen.push(Arc::clone(&parts.analysis));
            let patched = |at| self.trampoline_of(parts, at).is_some();
            for bypass in parts.analysis.bypasses(patched) {
                let Some(past) = self.past(stop, parts, &bypass.callee) else { continue };
                let new = bypass.rewrite(parts.bias, past)?;
                let field = bypass.field(parts.bias);
                changes.push(change(field, &bypass.old, &new, ChangeKind::Bypass, module));
            }
        }
        // Branches first: they may lead to a trampoline before the entry does, not after.
        changes.sort_by_key(|c| c.kind == ChangeKind::Entry);
        Ok(changes)
    }
}
