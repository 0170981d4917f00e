//! Ways of giving blocks back that no hook sees: what they free looks like what is leaked.

use heapattach_abi::kind::HookKind;

use super::{PlannedHook, Way};
use heapattach_entry::Family;

/// A function that takes blocks back, not all calls of which are seen.
#[derive(Clone, Debug)]
pub struct Unseen<'a> {
    /// The function.
    pub hook: &'a PlannedHook,
    /// Which calls, and why.
    pub why: String,
}

/// Those of allocators that other functions are hooked of.
pub fn unseen<'a>(hooks: &[&'a PlannedHook]) -> Vec<Unseen<'a>> {
    let hands_out = |hook: &&&PlannedHook| hook.is_hooked() && hook.kind().0 != HookKind::Free;
    let takes = |hook: &&&'a PlannedHook| {
        hook.function().frees
            && hook.function().family == Family::Heap
            && hooks.iter().filter(hands_out).any(|other| other.is_kin(hook))
    };
    let told = hooks.iter().filter(takes);
    told.filter_map(|&hook| Some(Unseen { hook, why: why_unseen(hook)? })).collect()
}

fn why_unseen(hook: &PlannedHook) -> Option<String> {
    match &hook.way {
        // A program calls its own functions directly, and slots are for what others define.
        Way::Slots { why } if hook.definer.is_executable() || hook.is_called_past => {
            let why = if why.is_empty() { "--hooks slots was given" } else { why };
            let whose = if hook.definer.is_executable() { "program" } else { "library" };
            Some(format!("the {whose}'s own calls are not seen, as its entry is not hooked: {why}"))
        }
        Way::Not { why } => Some(why.clone()),
        Way::Entry(_) | Way::Slots { .. } | Way::Within { .. } => None,
    }
}
