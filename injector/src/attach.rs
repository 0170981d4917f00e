//! Attaching: may we, what would be done, and doing it.
//!
//! [`open`] takes hold of a process if it can be attached to, [`forecast`] and [`foreseen`] tell what it would
//! cost, [`attach`] does it. Whatever fails after the first change is undone before the error is told: a
//! [`Failure`] says whether the process was touched, and what is left in it.

pub use crate::{
    home::payload_image::PayloadImage,
    hook::plan::{HookMode, PlannedHook, Unseen, Way, unseen},
    loader::gate_image,
    options::{Loader, Options, Service, WAITS},
    preflight::{OLDEST_KERNEL, Sessions, foreseen, open, open_with},
    refusal::Refusal,
    scripts::Wish,
    session::{
        attach::{attach, gate},
        failure::{AttachError, Failure},
        forecast::{Forecast, forecast},
        heir,
    },
};
