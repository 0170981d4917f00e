//! What the hooks of a session stand on: a home, and the code of the hooks, in it or in an object
//! that the target has loaded. Mapped in the stop that puts the hooks in; loaded before it.

use super::{Attach, REPLANS, own_start_time, refuse_company};
use crate::{
    home::Home,
    loader::{self, LoadError},
    refusal::Refusal,
};
use crate::{
    home::payload_image::PayloadImage,
    hook::{
        plan::{PlannedHook, Way},
        survey::SurveyError,
    },
    installation::{
        install::{self, Blueprint, InstallError},
        remote_call::CarrierError,
        shelter::Exposure,
    },
    preflight::denial,
    session::{
        failure::{AttachError, Failure},
        leftovers::{Child, clean_children},
        prepare::{Prepared, journal_room, prepare, slot_count},
        stop_record::{StopReason, StopRecord},
        undo::{Left, undo},
    },
    trace::stopped::{Stopped, user_dispatch},
};
use heapattach_entry::{functions::FunctionRef, user_hooks::UserHooks};
use heapattach_process::{
    addr::RemoteAddr,
    linker::LinkError,
    proc::maps::{self, Mapping},
    shared::Shared,
};

/// What hooks stand on.
pub(super) struct Ground {
    pub(super) home: Home,
    pub(super) shared: Shared,
    /// The hooks' code.
    pub(super) body: RemoteAddr,
    pub(super) exposed: Exposure,
}

/// An installation that failed, and the home that is to be undone.
pub(super) struct Broken {
    pub(super) error: AttachError,
    pub(super) home: Option<Home>,
}

impl Broken {
    pub(super) fn new(error: impl Into<AttachError>, home: Option<Home>) -> Box<Self> {
        Box::new(Self { error: error.into(), home })
    }
}

impl Attach<'_> {
    /// Builds a home for `image`.
    pub(super) fn build(
        &self,
        stop: &Stopped<'_>,
        maps: &[Mapping<'_>],
        prepared: &Prepared,
        image: &PayloadImage,
    ) -> Result<Ground, Box<Broken>> {
        let body = image.text().len() as u64;
        let used = Home::used_by(body, slot_count(&prepared.survey));
        if self.options.max_memory != 0 && used > self.options.max_memory {
            return Err(Broken::new(too_much(used, self.options.max_memory), None));
        }
        let (module_room, change_room) = journal_room(&prepared.survey);
        let blueprint = Blueprint {
            image,
            gadget: self.gadget,
            code: prepared.code.clone(),
            module_room,
            change_room,
            ring_bits: self.options.ring_bits,
            tables: if self.options.tables { self.tables.room() } else { 0 },
            session: self.lock.session(),
            started: own_start_time(),
        };
        let built = install::build(stop, maps, &blueprint);
        match (built.home, built.shared) {
            (Some(home), Ok(shared)) => {
                Ok(Ground { body: home.body(), home, shared, exposed: built.exposed })
            }
            (home, Err(error)) => Err(Broken::new(named(self.target.process.pid(), error), home)),
            (None, Ok(_)) => Err(Broken::new(AttachError::Maps, None)),
        }
    }

    /// Builds a home with gates to the errand in place of hooks.
    pub(super) fn build_gates(&mut self) -> Result<Ground, Failure> {
        let target = self.target;
        let gate_image = loader::gate_image(self.image)
            .map_err(|e| Failure::clean(LoadError::from(e), false))?;
        let prepared = self.prepare()?;
        self.look_at_tables(&prepared);
        let stop = self.stop()?;
        user_dispatch::check(&stop).map_err(|refusal| Failure::clean(refusal, true))?;
        let text = target.process.read("maps").unwrap_or_default();
        let built = match maps::parse(&text) {
            Ok(maps) => {
                refuse_company(target, &maps, None)?;
                self.build(&stop, &maps, &prepared, &gate_image)
            }
            Err(_) => Err(Broken::new(AttachError::Maps, None)),
        };
        self.stops.push(StopRecord::end(StopReason::Attach, stop));
        built.map_err(|broken| self.undo_broken(*broken))
    }

    /// Builds a home, and has the target load the payload by itself.
    pub(super) fn load(&mut self) -> Result<(), Failure> {
        let target = self.target;
        let functions = loader::check(target, self.options.force)
            .map_err(|refusal| Failure::clean(refusal, false))?;
        let mut ground = self.build_gates()?;
        let mut costs = Vec::new();
        let (image, mode) = (self.image, self.options.mode);
        let loaded = loader::load(target, &mut ground.home, image, &functions, mode, &mut costs);
        let records = costs.into_iter().map(|cost| StopRecord { reason: StopReason::Attach, cost });
        self.stops.extend(records);
        match loaded {
            Ok(object) => ground.body = self.image.text_in(object.bias()),
            Err(error) => {
                let broken = Broken::new(AttachError::of_load(error), Some(ground.home));
                return Err(self.undo_broken(*broken));
            }
        }
        self.ground = Some(ground);
        Ok(())
    }

    /// A plan made while the target is stopped.
    fn prepare(&mut self) -> Result<Prepared, Failure> {
        for _ in 0..REPLANS {
            match prepare(self.target, &mut self.surveyor, &self.options) {
                Ok(prepared) => return Ok(prepared),
                // The lists change while we walk them.
                Err(AttachError::Survey(SurveyError::Link(LinkError::List(_)))) => {}
                Err(error) => return Err(Failure::clean(error, self.touched())),
            }
        }
        Err(Failure::clean(AttachError::Restless(REPLANS), self.touched()))
    }

    pub(super) fn undo_broken(&self, broken: Broken) -> Failure {
        let left = broken.home.and_then(|home| self.undo_all(&home));
        Failure::left(broken.error, left)
    }

    /// Gives back everything, also in children that were forked while functions were led to us.
    pub(super) fn undo_all(&self, home: &Home) -> Option<Left> {
        let own = undo(self.target, home).err();
        let children = clean_children(self.target, home, own_start_time());
        let of_child = |child: Child| {
            let mut left = child.result.err()?;
            left.what.iter_mut().for_each(|what| *what += &format!(" (child {})", child.pid));
            Some(left)
        };
        own.or_else(|| children.into_iter().find_map(of_child))
    }

    /// Gives back what was built before the failure.
    pub(super) fn abandon(&mut self, failure: Failure) -> Failure {
        match self.ground.take() {
            None => failure,
            Some(ground) => {
                let left = self.undo_all(&ground.home).map(Box::new);
                Failure { left, touched: true, ..failure }
            }
        }
    }
}

/// Refuses where the target's loader has put the hooks too far from what they are for: without what
/// the user named numbers would mean nothing.
pub(super) fn check_reach(hooks: &[PlannedHook], asked: UserHooks) -> Result<(), Refusal> {
    let is_left = |function: &FunctionRef| {
        let mut named = hooks.iter().filter(|hook| hook.names.contains(function));
        named.all(|hook| matches!(hook.way, Way::Not { .. }))
    };
    let name = match asked.functions().iter().find(is_left) {
        Some(function) => &function.name,
        None if hooks.iter().any(PlannedHook::is_hooked) => return Ok(()),
        None => "every allocation function",
    };
    Err(Refusal {
        value: format!("{name} lies too far from where the target has loaded the hooks"),
        need: "hooks that lie near to it, as those that we map do".to_owned(),
        cure: loader::CURE.to_owned(),
        unsupported: false,
    })
}

/// The error of an installation, in the words of what forbade it.
fn named(pid: i32, error: InstallError) -> AttachError {
    match error {
        InstallError::Carrier(CarrierError::Refused { call: install::CODE, source }) => {
            match denial::of_code(pid, source) {
                Some(refusal) => refusal.into(),
                None => {
                    InstallError::from(CarrierError::Refused { call: install::CODE, source }).into()
                }
            }
        }
        other => other.into(),
    }
}

fn too_much(used: u64, limit: u64) -> Refusal {
    Refusal {
        value: format!("the hooks and their journal take {used} bytes of the target"),
        need: format!("at most {limit} bytes (--max-memory)"),
        cure: "raise --max-memory".to_owned(),
        unsupported: false,
    }
}
