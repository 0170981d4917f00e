//! Several processes at once: children that are forked, programs that are execed, and threads that are
//! watched up to their end.

pub use crate::trace::{
    delegated::{Holding, Lease},
    exit_watch::{Attendant, Event, ExitWatch},
    family::{Family, Occurrence, Scope},
    member_exit_watch::MemberExitWatch,
};
