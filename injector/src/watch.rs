//! A session while its target runs: what the hooks record, what they count, and what became of them.
//!
//! A [`Session`] is looked at again and again: [`Session::watch`] finds new modules and tells when it is
//! over, its [`Records`] are read, and [`Session::beat`] keeps the hooks counting: without it they stop
//! by themselves, so that nothing waits for a tracer that was killed.

pub use crate::{
    hook::{
        exporters::{Exporter, Exporters},
        patch::{ActiveHook, Heard, Patches, RequestHooks},
        slots::Sorted,
    },
    installation::shelter::Exposure,
    records::{
        counts::{Counts, Lost, Verified},
        heartbeat,
        loads::Loads,
        mailbox,
        places::Places,
        ring::{Call, Intervals, Reader},
        stream::{Records, Stream},
    },
    scripts::{Interpreter, Python, Unreadable},
    session::{
        Session, Watch,
        stop_record::{StopReason, StopRecord},
    },
    unwind::Totals,
};
