//! Whether a process is attached to now. Each refusal has a name.

use std::time::Duration;

use heapattach_text::quantity::{bytes, time};

use crate::{
    config::{Admission, Rule},
    facts::{Facts, Machine},
};

/// Why a process is not attached to.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// It is of heapattach.
    Ours,
    /// It is number 1, and the rule does not say that this is meant.
    Init,
    /// Another process traces it.
    Traced(i32),
    /// It has just begun: what is restarted again and again is never old enough.
    Young(Duration, Duration),
    /// Its control group is almost full.
    Headroom(u64, u64),
    /// Processors are wanted by others.
    Pressure(f64, f64),
    /// It ended soon after an attach once.
    Barred(String),
    /// It cost more than it may; so many seconds are left.
    Paused(u64),
    /// As many as may be are watched.
    MaxTargets(usize),
}

impl Refusal {
    /// One word, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Init => "init",
            Self::Traced(_) => "traced",
            Self::Young(..) => "young",
            Self::Headroom(..) => "headroom",
            Self::Pressure(..) => "pressure",
            Self::Barred(_) => "barred",
            Self::Paused(_) => "paused",
            Self::MaxTargets(_) => "max-targets",
        }
    }

    /// For people.
    pub fn told(&self) -> String {
        match self {
            Self::Ours => "it is a process of heapattach".to_owned(),
            Self::Init => "it is process 1; a rule with `init = true` means it, too".to_owned(),
            Self::Traced(by) => format!("process {by} traces it"),
            Self::Young(age, need) => format!("it is {} old; need {}", time(*age), time(*need)),
            Self::Headroom(left, need) => {
                format!("{} left in its control group; need {}", bytes(*left), bytes(*need))
            }
            Self::Pressure(found, limit) => {
                format!("PSI cpu avg10 is {found:.1}; need less than {limit:.1}")
            }
            Self::Barred(name) => format!(
                "it ended soon after an attach; `heapattach agent --config FILE --allow {name}` allows it"
            ),
            Self::Paused(left) => format!("it cost more than the budget; tried again in {left} s"),
            Self::MaxTargets(most) => format!("max-targets = {most} are watched"),
        }
    }
}

/// Why not, if there is a reason that lies in the process or the machine.
pub fn refusal(one: &Facts, rule: &Rule, machine: &Machine, needs: &Admission) -> Option<Refusal> {
    if one.is_ours {
        return Some(Refusal::Ours);
    }
    if one.key.pid == 1 && !rule.init {
        return Some(Refusal::Init);
    }
    if one.tracer != 0 {
        return Some(Refusal::Traced(one.tracer));
    }
    if one.age < needs.min_age {
        return Some(Refusal::Young(one.age, needs.min_age));
    }
    if let Some(room) = one.headroom {
        // Of a small group a part of it is enough.
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let part = (room.limit as f64 * needs.headroom_percent / 100.0) as u64;
        let need = needs.headroom.min(part);
        if room.left < need {
            return Some(Refusal::Headroom(room.left, need));
        }
    }
    let pressure = [one.pressure, machine.pressure].into_iter().flatten().fold(0.0, f64::max);
    (pressure >= needs.max_pressure).then_some(Refusal::Pressure(pressure, needs.max_pressure))
}
