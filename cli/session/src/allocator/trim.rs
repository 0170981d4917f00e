//! `--apply trim` and `--apply arena-max=N`: a function of the allocator's own, called by a thread of the process at
//! the entry of an allocation function (`injector`'s gate).
//!
//! ```text
//! counters -> which allocator, its function -> what it would win, how long locks would be held -> gate -> counters
//! ```

use std::time::Duration;

use heapattach_census::counters::{AllocatorKind, Statistics, Value};
use heapattach_injector::{
    attach::{
        PayloadImage,
        gate::{Argument, Call, Called},
    },
    moment::sanitizer::functions,
    target::Target,
};
use heapattach_process::addr::RemoteAddr;
use heapattach_report::{AppliedReport, Status, TargetState, micros};
use heapattach_text::quantity;

use super::{
    Look, facts,
    foretold::Foretold,
    gated::{Failed, Gate, int, refused},
    no_effect,
};

/// `M_ARENA_MAX` of mallopt.
const ARENA_MAX: u64 = (-8_i32).cast_unsigned() as u64;
/// All arenas of jemalloc.
const ALL_ARENAS: &str = "arena.4096.purge";

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The allocator returns what is free.
    Trim,
    /// glibc makes no more arenas than so many.
    ArenaMax(u32),
}

/// A function of an allocator's, and how it is called.
struct Known {
    allocator: AllocatorKind,
    names: &'static [&'static str],
    arguments: [Argument; 5],
    text: &'static str,
}

const ZERO: Argument = Argument::Zero;
const TRIM: [Known; 4] = [
    Known {
        allocator: AllocatorKind::Glibc,
        names: &["malloc_trim"],
        arguments: [ZERO; 5],
        text: "malloc_trim(0)",
    },
    Known {
        allocator: AllocatorKind::Jemalloc,
        names: &super::decay::MALLCTL,
        arguments: [Argument::Text, ZERO, ZERO, ZERO, ZERO],
        text: ALL_ARENAS,
    },
    Known {
        allocator: AllocatorKind::Tcmalloc,
        names: &["MallocExtension_ReleaseFreeMemory"],
        arguments: [ZERO; 5],
        text: "MallocExtension_ReleaseFreeMemory()",
    },
    Known {
        allocator: AllocatorKind::Mimalloc,
        names: &["mi_collect"],
        arguments: [Argument::Number(1), ZERO, ZERO, ZERO, ZERO],
        text: "mi_collect(true)",
    },
];

impl Remedy {
    /// As it is typed.
    pub fn words(self) -> String {
        match self {
            Self::Trim => "trim".to_owned(),
            Self::ArenaMax(most) => format!("arena-max={most}"),
        }
    }

    /// The call, of the allocator that has most memory, and what it is in words.
    fn call(
        self,
        target: &Target,
        counted: &[Statistics],
    ) -> Result<(Call, AllocatorKind, String), String> {
        let most = counted.iter().max_by_key(|own| memory(own));
        let most = most.ok_or("no allocator whose counters are known was found")?;
        match self {
            Self::Trim => {
                let known = TRIM.iter().find(|known| known.allocator == most.allocator);
                let known = known.ok_or_else(|| {
                    format!("{} has no function that returns free memory", most.allocator)
                })?;
                let function = find(target, known.names)?;
                let Known { allocator, arguments, text, .. } = *known;
                let told = match known.arguments[0] {
                    Argument::Text => format!("mallctl(\"{text}\")"),
                    _ => text.to_owned(),
                };
                Ok((
                    Call {
                        function,
                        arguments,
                        text: text.to_owned(),
                        value: 0,
                        answer: 0,
                        starts_thread: false,
                    },
                    allocator,
                    told,
                ))
            }
            Self::ArenaMax(arenas) if most.allocator == AllocatorKind::Glibc => {
                has_no_limit_yet(most)?;
                let function = find(target, &["mallopt"])?;
                let [parameter, value] = [ARENA_MAX, arenas.into()].map(Argument::Number);
                let arguments = [parameter, value, ZERO, ZERO, ZERO];
                let told = format!("mallopt(M_ARENA_MAX, {arenas})");
                Ok((
                    Call {
                        function,
                        arguments,
                        text: String::new(),
                        value: 0,
                        answer: 0,
                        starts_thread: false,
                    },
                    AllocatorKind::Glibc,
                    told,
                ))
            }
            Self::ArenaMax(_) => Err(format!(
                "arena-max is a setting of glibc; this process uses {}",
                most.allocator
            )),
        }
    }
}

/// What an allocator has from the system, in its own words.
pub(super) fn memory(own: &Statistics) -> u64 {
    let names = ["system.current", "mapped", "generic.heap_size", "committed.current", "committed"];
    names.iter().map(|name| own.total(name)).max().unwrap_or(0)
}

/// glibc reads the setting once: when it makes an arena, and has one or more than `arena_test`.
fn has_no_limit_yet(own: &Statistics) -> Result<(), String> {
    let setting = |name: &str| own.opt.get(name).and_then(Value::number);
    let (Some(most), Some(test)) = (setting("arena_max"), setting("arena_test")) else {
        return Err("the settings of glibc were not found".to_owned());
    };
    let arenas = own.total("narenas");
    let is_read =
        if most != 0 { arenas > 1 } else { i64::try_from(arenas).unwrap_or(i64::MAX) > test };
    match is_read {
        true => Err(format!(
            "glibc has fixed how many arenas it makes already, with {arenas} of them; need a restart with \
             MALLOC_ARENA_MAX"
        )),
        false => Ok(()),
    }
}

pub(super) fn find(target: &Target, names: &[&str]) -> Result<RemoteAddr, String> {
    let wanted: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let found = functions(target, &wanted).into_iter().flatten().next();
    found.ok_or_else(|| format!("no symbol names {}", names.join(" or ")))
}

/// Applies it.
pub fn apply(
    target: &Target,
    image: &PayloadImage,
    remedy: Remedy,
    most: Duration,
) -> AppliedReport {
    let mut report = AppliedReport { remedy: remedy.words(), ..AppliedReport::default() };
    match applied(target, image, remedy, most, &mut report) {
        Ok(()) => report,
        Err((status, error)) => report.failed(status, error),
    }
}

fn applied(
    target: &Target,
    image: &PayloadImage,
    remedy: Remedy,
    most: Duration,
    report: &mut AppliedReport,
) -> Result<(), Failed> {
    let pid = target.process.pid();
    let look = || Look::open(pid).and_then(|look| look.statistics()).unwrap_or_default();
    let counted = look();
    let (call, allocator, told) = remedy.call(target, &counted).map_err(refused)?;
    report.call = Some(told);
    if remedy == Remedy::Trim {
        let foretold = Foretold::of(target, allocator, &counted, most).map_err(refused)?;
        report.stopped_us += micros(foretold.stopped);
        report.foretold = foretold.bytes;
        if foretold.bytes == Some(0) {
            return Err(refused(
                "nothing to win: no whole page of free memory is resident".to_owned(),
            ));
        }
        if foretold.held > most {
            let [what, most] = [foretold.held, most].map(quantity::time);
            let why = format!(
                "a thread is expected to take {what} for {}, and others that allocate to wait for it; --max-pause \
                 is {most}; need a longer --max-pause",
                report.call.as_deref().unwrap_or_default()
            );
            return Err(refused(why));
        }
    }
    report.setting_before = setting(remedy, target, &counted);
    let gate = Gate { target, image, most };
    let Called { results, .. } = gate.call(&[call], report)?;
    let answer = results.first().map_or(0, |result| int(*result));
    report.setting_after = setting(remedy, target, &look());
    if remedy == Remedy::Trim && report.after >= report.before {
        return Err((Status::Failed, no_effect()));
    }
    let is_unset = matches!(remedy, Remedy::ArenaMax(_)) && answer == 0;
    if is_unset || allocator == AllocatorKind::Jemalloc && answer != 0 {
        let why = format!("the allocator answered {answer} (target: {})", TargetState::Restored);
        return Err((Status::Failed, why));
    }
    Ok(())
}

/// What a setting is now: of one that was never made, what glibc takes for it, 8 a processor.
fn setting(remedy: Remedy, target: &Target, counted: &[Statistics]) -> Option<String> {
    let Remedy::ArenaMax(_) = remedy else { return None };
    let glibc = counted.iter().find(|own| own.allocator == AllocatorKind::Glibc)?;
    let most = match glibc.opt.get("arena_max")?.number()? {
        0 => facts::cpus_of(&target.process).saturating_mul(8).to_string(),
        chosen => chosen.to_string(),
    };
    Some(format!("arena-max={most}"))
}
