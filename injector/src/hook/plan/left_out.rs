//! The functions that get no hook of their own.

use heapattach_abi::kind::HookKind;

use super::{PlannedHook, Way};
use heapattach_entry::{Analysis, Refusal};
use heapattach_process::addr::{Bias, ImageAddr};

/// What becomes of a function without a hook of its own: one that does nothing but call another, one
/// that throws and cannot be recorded, or one whose entry cannot be patched and that no slot leads to.
pub(super) fn left_out(
    analysis: &Analysis,
    bias: Bias,
    index: usize,
    hooks: &[PlannedHook],
) -> Option<Way> {
    let hook = &hooks[index];
    let find = |at: ImageAddr| hooks.iter().find(|other| other.at == bias.place(at));
    let entry = analysis.entry(bias.unplace(hook.at))?;
    let callee = entry.calls.filter(|&callee| {
        analysis.entry(callee).is_some_and(|callee| match &callee.plan {
            // By this very function, as like as not.
            Ok(_) | Err(Refusal::ShortBranch(_)) => true,
            Err(_) => callee.calls.is_some(),
        })
    });
    // What is called in place of one that throws has a hook of its own, past which it is called.
    let throwing = |other: &&PlannedHook| {
        other.nothrow == Some(hook.at)
            && other.is_hooked()
            && analysis.entry(bias.unplace(other.at)).is_some_and(|other| other.calls.is_none())
    };
    let stands_in = entry.plan.is_ok() && hooks.iter().any(|other| throwing(&other));
    // One that another hooked function calls is known from that by its own hook only.
    let is_called = analysis.bypasses(|_| true).any(|b| b.callee.function == entry.address);
    if let Some(callee) = callee
        && !(is_called && entry.plan.is_ok())
        && (hook.function().is_extra || hook.function().is_asked || entry.plan.is_err())
        && !(stands_in && find(callee).is_none_or(|other| other.nothrow != Some(hook.at)))
    {
        return Some(Way::Within { callee: find(callee).map_or("another", PlannedHook::name) });
    }
    let why = match &entry.plan {
        _ if hook.function().kind == HookKind::New => match hook.nothrow.map(|at| bias.unplace(at))
        {
            None => "it throws, and has no form that does not".to_owned(),
            Some(at) if find(at).is_some_and(|other| matches!(other.way, Way::Within { .. })) => {
                "it throws, and the form of it that does not may call it".to_owned()
            }
            Some(_) => return None,
        },
        Err(refusal) if !hook.is_dynamic => refusal.to_string(),
        _ => return None,
    };
    Some(Way::Not { why })
}
