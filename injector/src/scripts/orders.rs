//! Telling the payload to walk frames of scripts, where that is allowed.

use heapattach_abi::{
    java::{JAVA_ORDERS_AT, JavaOrders},
    python::{ORDERS, ORDERS_AT, Orders},
};
use nix::errno::Errno;

use super::interpreter::{Python, Unreadable, recognise};
use crate::{hook::survey::Survey, trace::target::Target};
use heapattach_process::{addr::RemoteAddr, memory::Memory, proc::maps};

/// Whether frames of scripts are to be walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Unless the target's system calls are filtered: the walk makes some.
    #[default]
    Auto,
    /// In any case.
    On,
    /// No.
    Off,
}

impl Python {
    /// The interpreter in a target whose frames are to be walked, if there is one.
    pub(crate) fn wanted(target: &Target, survey: &Survey, wish: Wish) -> Option<Self> {
        if wish == Wish::Off {
            return None;
        }
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).unwrap_or_default();
        let found = recognise(survey, &target.memory, &maps)?;
        Some(found.with_cold_part(&target.memory, &maps).if_allowed(target, wish))
    }

    /// Has the payload of a target walk the frames, if we can read them; directly, where each call by which pages may go
    /// is hooked.
    ///
    /// # Errors
    /// When the target is gone.
    pub(crate) fn tell(
        &self,
        target: &Target,
        control: RemoteAddr,
        is_exact: bool,
        is_direct: bool,
    ) -> Result<(), Errno> {
        let Self::Readable(interpreter) = self else { return Ok(()) };
        let own = target.process.status().map_or(0, |status| status.own_tgid);
        if let Some(java) = interpreter.java() {
            tell_java(&target.memory, control, &java.java)?;
        }
        let own = u64::from(own.unsigned_abs());
        tell(&target.memory, control, &interpreter.orders(own, is_exact, is_direct))
    }

    /// The same, if the target may make the system calls that it takes.
    fn if_allowed(self, target: &Target, wish: Wish) -> Self {
        match self {
            Self::Readable(found) if wish == Wish::Auto && target.is_confined() => {
                let why = "its system calls are filtered, and frames of scripts are read by \
                           process_vm_readv; if the filter allows that, say --scripts on";
                let (version, module) = (found.version.clone(), found.module.clone());
                let (language, why) = (found.language(), why.to_owned());
                Self::Unreadable(Unreadable { language, version, module, why })
            }
            other => other,
        }
    }
}

/// Writes what is to be known of Java, before the orders, without which it is not looked at.
fn tell_java(memory: &Memory, control: RemoteAddr, orders: &JavaOrders) -> Result<(), Errno> {
    let mut at = control.offset(JAVA_ORDERS_AT as u64);
    for &word in &orders.0 {
        memory.write_word(at, word)?;
        at = at.offset(8);
    }
    Ok(())
}

/// Writes the orders into the control page.
///
/// # Errors
/// When the target is gone.
fn tell(memory: &Memory, control: RemoteAddr, orders: &Orders) -> Result<(), Errno> {
    let words = orders.words();
    let at = control.offset(ORDERS_AT as u64);
    for (number, &word) in (0..ORDERS as u64).zip(&words).skip(1) {
        memory.write_word(at.offset(number * 8), word)?;
    }
    // The address of the global state last: the payload looks at nothing else before.
    memory.write_word(at, words[0])
}
