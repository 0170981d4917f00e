//! Calls of functions of the target's own allocator, each by one of its threads: at the entry of an allocation
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
    /// The address of a word for an answer.
    Answer,
    /// The address of the number of its bytes.
    AnswerBytes,
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
    /// Bytes that [`Argument::Answer`] has room for; 8 at most.
    pub answer: u64,
    /// Whether the function starts a thread: then more must hold, of the process and of the thread that calls.
    pub starts_thread: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Called {
    /// What the functions answered, of the calls that were made.
    pub results: Vec<u64>,
    /// What they wrote as an answer; 0 if there was none.
    pub answers: Vec<u64>,
    /// Why there were no more, if there were not all.
    pub error: Option<Box<LoadError>>,
    /// How long they took, at most.
    pub took: Duration,
    /// Every stop.
    pub stops: Vec<StopCost>,
    /// What is still in the target, if anything.
    pub left: Option<Left>,
}

/// What to do where no function can be called.
const CURE: &str = "read the advice of `heapattach allocator` for what a restart can change";

/// Has threads of the target make these calls, one after the other, if for each one comes by within `patience`.
///
/// # Errors
/// When the first was not made, since no thread came or something stands in the way: with the target as it was, or a
/// list of what is left.
pub fn calls(
    target: &Target,
    image: &PayloadImage,
    options: Options,
    calls: &[Call],
    patience: Duration,
) -> Result<Called, Failure> {
    Attach::begin(target, image, options)?.at_a_gate(calls, patience)
}

impl Attach<'_> {
    fn at_a_gate(&mut self, calls: &[Call], patience: Duration) -> Result<Called, Failure> {
        let functions = self.functions(calls.iter().any(|call| call.starts_thread));
        let functions = functions.map_err(|refusal| Failure::clean(refusal, false))?;
        let ground = self.build_gates()?;
        let mut costs = Vec::new();
        let mut made = Vec::new();
        let called = self.run((&functions, &ground), calls, patience, (&mut made, &mut costs));
        // Its journal tells by now which functions were led away.
        let home = Home::open(&self.target.memory, ground.home.at()).unwrap_or(ground.home);
        let left = self.undo_all(&home);
        let error = match called {
            Err(error) if made.is_empty() => return Err(Failure::left(error.into(), left)),
            called => called.err().map(Box::new),
        };
        let stops = self.stops.drain(..).map(|stop| stop.cost).chain(costs).collect();
        let took = made.iter().map(|(outcome, _)| outcome.took).sum();
        let results = made.iter().map(|(outcome, _)| outcome.result).collect();
        let answers = made.iter().map(|(_, answer)| *answer).collect();
        Ok(Called { results, answers, error, took, stops, left })
    }

    fn functions(&self, start_thread: bool) -> Result<Functions, Refusal> {
        let pid = self.target.process.pid();
        let status = self.target.process.status().unwrap_or_default();
        if status.seccomp != 0 && !self.options.force {
            let value = format!("process {pid} is under seccomp");
            let need = "a process whose allocator may make any call: one that the filter forbids would kill it";
            return Err(Refusal::unsupported(value, need, CURE));
        }
        let functions = loader::found(self.target).ok_or_else(|| {
            let value = format!("process {pid} has no dlopen in its C library");
            Refusal::unsupported(value, "a dynamically linked program", CURE)
        })?;
        if start_thread {
            loader::check_thread_start(self.target)?;
        }
        Ok(functions)
    }

    fn run(
        &self,
        (functions, ground): (&Functions, &Ground),
        calls: &[Call],
        patience: Duration,
        (made, costs): (&mut Vec<(Outcome, u64)>, &mut Vec<StopCost>),
    ) -> Result<(), LoadError> {
        let block = Block::of(&self.target.memory, &ground.home);
        let write = |errno: Errno| LoadError::Errand(ErrandError::Write(errno));
        let mut errands = Errands::new(self.target, &ground.home, self.options.mode)?;
        for call in calls {
            let operands = block.set_operands(call.text.as_bytes(), call.value);
            let [text, value] = operands.map_err(write)?;
            let [answer, bytes] = block.set_answer(call.answer.min(8)).map_err(write)?;
            let argument = |argument: Argument| match argument {
                Argument::Zero => 0,
                Argument::Number(number) => number,
                Argument::Text => text.get(),
                Argument::Value => value.get(),
                Argument::Answer => answer.get(),
                Argument::AnswerBytes => bytes.get(),
            };
            let order = Order {
                function: call.function,
                arguments: call.arguments.map(argument),
                descriptor: None,
                error: None,
                errno: functions.errno,
                starts_thread: call.starts_thread,
            };
            let outcome = errands.run(functions, &order, patience);
            costs.append(&mut errands.stops);
            made.push((outcome?, block.answer().unwrap_or(0)));
        }
        Ok(())
    }
}
