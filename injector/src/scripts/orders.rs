//! Telling the payload to walk frames of scripts, where that is allowed.

use std::ops::Range;

use heapattach_abi::{
    java::{JAVA_ORDERS_AT, JavaOrders},
    python::{ORDERS_AT, Orders},
};
use nix::errno::Errno;

use super::interpreter::{Python, Unreadable, recognise};
use crate::{
    hook::survey::{Loaded, Survey},
    trace::target::Target,
};
use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    proc::maps::{self, Mapping},
};

/// The variables of a C library that are zero at first take less (52 KiB in glibc 2.36).
const VARIABLES_BYTES: u64 = 64 << 10;

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
    /// The interpreter in a target whose frames are to be walked, if there is one, and the module that it is in.
    /// To find it takes hundreds of reads of memory, for which the target need not stand still.
    pub(crate) fn wanted<'s>(
        target: &Target,
        survey: &'s Survey,
        wish: Wish,
    ) -> Option<(Self, &'s Loaded)> {
        if wish == Wish::Off {
            return None;
        }
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).unwrap_or_default();
        let (found, loaded) = recognise(survey, &target.memory, &maps)?;
        Some((found.with_cold_part(&target.memory, &maps).if_allowed(target, wish), loaded))
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
        maps: &[Mapping<'_>],
        is_exact: bool,
        is_direct: bool,
    ) -> Result<(), Errno> {
        let Self::Readable(interpreter) = self else { return Ok(()) };
        let own = target.process.status().map_or(0, |status| status.own_tgid);
        if let Some(java) = interpreter.java() {
            tell_java(&target.memory, control, &java.java)?;
        }
        let own = u64::from(own.unsigned_abs());
        let libc = if is_direct { libc(maps) } else { 0..0 };
        tell(&target.memory, control, &interpreter.orders(own, is_exact, libc))
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

/// Where the C library lies; nowhere if that is not known.
fn libc(maps: &[Mapping<'_>]) -> Range<u64> {
    let mut libc = 0..0;
    for mapping in maps {
        let range = mapping.range.start.get()..mapping.range.end.get();
        let is_first = libc.end == 0;
        let is_file = mapping.file().is_some_and(|file| file.ends_with("libc.so.6"));
        // Its variables that are zero at first. What is longer may be another mapping besides.
        let is_rest = mapping.is_anonymous() && range.end - range.start <= VARIABLES_BYTES;
        if is_file && is_first {
            libc = range;
        } else if (is_file || is_rest) && range.start == libc.end {
            libc.end = range.end;
        }
    }
    libc
}

/// Writes what is to be known of Java, before the orders, without which it is not looked at.
fn tell_java(memory: &Memory, control: RemoteAddr, orders: &JavaOrders) -> Result<(), Errno> {
    let words: Vec<u8> = orders.0.iter().flat_map(|word| word.to_ne_bytes()).collect();
    memory.write(control.offset(JAVA_ORDERS_AT as u64), &words)
}

/// Writes the orders into the control page.
///
/// # Errors
/// When the target is gone.
fn tell(memory: &Memory, control: RemoteAddr, orders: &Orders) -> Result<(), Errno> {
    let words = orders.words();
    let at = control.offset(ORDERS_AT as u64);
    let rest: Vec<u8> = words.iter().skip(1).flat_map(|word| word.to_ne_bytes()).collect();
    memory.write(at.offset(8), &rest)?;
    // The address of the global state last: the payload looks at nothing else before.
    memory.write_word(at, words[0])
}
