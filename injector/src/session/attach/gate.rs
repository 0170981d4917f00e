//! One call of a function of the target's own allocator, by one of its threads: at the entry of an allocation
//! function, where a program may call anything, as `--loader dlopen` has it. Functions are led to gates for as
//! long as no thread has come, then given back; a thread that has begun ends its call whatever becomes of us.

use std::time::Duration;

use nix::errno::Errno;

use super::{Attach, ground::Ground};
use crate::{
    home::{Home, payload_image::PayloadImage},
    installation::shared_object::{Block, Order},
    loader::{self, ErrandError, Errands, Functions, LoadError, Outcome},
    options::Options,
    refusal::Refusal,
    session::{failure::Failure, undo::Left},
    trace::{stopped::StopCost, target::Target},
};
use heapattach_process::addr::RemoteAddr;

/// An argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Argument {
    /// Nothing.
    #[default]
    Zero,
    /// A number.
    Number(u64),
    /// The address of the text.
    Text,
    /// The address of the number.
    Value,
}

/// What is to be called.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function.
    pub function: RemoteAddr,
    /// Its arguments.
    pub arguments: [Argument; 5],
    /// What [`Argument::Text`] leads to.
    pub text: String,
    /// What [`Argument::Value`] leads to.
    pub value: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Called {
    /// What the function answered.
    pub result: u64,
    /// How long it took, at most.
    pub took: Duration,
    /// Every stop.
    pub stops: Vec<StopCost>,
    /// What is still in the target, if anything.
    pub left: Option<Left>,
}

/// What to do where no function can be called.
const CURE: &str = "read the advice of `heapattach allocator` for what a restart can change";

/// Has a thread of the target call a function, if one comes by within `patience`.
///
/// # Errors
/// When none did, or something stands in the way: with the target as it was, or a list of what is left.
pub fn call(
    target: &Target,
    image: &PayloadImage,
    options: Options,
    call: &Call,
    patience: Duration,
) -> Result<Called, Failure> {
    Attach::begin(target, image, options)?.at_a_gate(call, patience)
}

impl Attach<'_> {
    fn at_a_gate(&mut self, call: &Call, patience: Duration) -> Result<Called, Failure> {
        let functions = self.functions().map_err(|refusal| Failure::clean(refusal, false))?;
        let ground = self.build_gates()?;
        let mut costs = Vec::new();
        let called = self.run(&functions, &ground, call, patience, &mut costs);
        // Its journal tells by now which functions were led away.
        let home = Home::open(&self.target.memory, ground.home.at()).unwrap_or(ground.home);
        let left = self.undo_all(&home);
        match called {
            Ok(Outcome { result, took, .. }) => {
                let stops = self.stops.drain(..).map(|stop| stop.cost).chain(costs).collect();
                Ok(Called { result, took, stops, left })
            }
            Err(error) => Err(Failure::left(error.into(), left)),
        }
    }

    fn functions(&self) -> Result<Functions, Refusal> {
        let pid = self.target.process.pid();
        let status = self.target.process.status().unwrap_or_default();
        if status.seccomp != 0 && !self.options.force {
            let value = format!("process {pid} is under seccomp");
            let need = "a process whose allocator may make any call: one that the filter forbids would kill it";
            return Err(Refusal::unsupported(value, need, CURE));
        }
        loader::found(self.target).ok_or_else(|| {
            let value = format!("process {pid} has no dlopen in its C library");
            Refusal::unsupported(value, "a dynamically linked program", CURE)
        })
    }

    fn run(
        &self,
        functions: &Functions,
        ground: &Ground,
        call: &Call,
        patience: Duration,
        costs: &mut Vec<StopCost>,
    ) -> Result<Outcome, LoadError> {
        let block = Block::of(&self.target.memory, &ground.home);
        let write = |errno: Errno| LoadError::Errand(ErrandError::Write(errno));
        let [text, value] = block.set_operands(call.text.as_bytes(), call.value).map_err(write)?;
        let argument = |argument: Argument| match argument {
            Argument::Zero => 0,
            Argument::Number(number) => number,
            Argument::Text => text.get(),
            Argument::Value => value.get(),
        };
        let order = Order {
            function: call.function,
            arguments: call.arguments.map(argument),
            descriptor: None,
            error: None,
            errno: functions.errno,
        };
        let mut errands = Errands::new(self.target, &ground.home, self.options.mode)?;
        let outcome = errands.run(functions, &order, patience);
        costs.append(&mut errands.stops);
        Ok(outcome?)
    }
}
