//! One leak: blocks of one kind, of one stack.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::{key, runtime_calls};
use crate::FindingReport;
use heapattach_ledger::{FrameReport, MAPPED_MODULE};
use heapattach_reach::{Amount, Kind};
use heapattach_text::{quantity::count, short_name::short_name};

/// One call.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Frame {
    /// The function's name.
    pub function: String,
    /// The source file; empty if that is unknown.
    pub file: String,
    /// The line in it.
    pub line: Option<u32>,
    /// The module's path.
    pub module: String,
    /// Where in the module.
    pub offset: u64,
}

/// A leak.
#[derive(Clone, Debug, Serialize)]
pub struct Leak {
    /// How the blocks are leaked.
    pub kind: Kind,
    /// The blocks themselves.
    pub own: Amount,
    /// Blocks that only they lead to.
    pub held: Amount,
    /// The same in every build and run, as long as the functions have the same names.
    pub key: String,
    /// Which of the calls allocated the memory: those before are allocators.
    pub cause: usize,
    /// The innermost first.
    pub frames: Vec<Frame>,
    /// The numbers of the calls that people are told.
    #[serde(skip)]
    pub told: Vec<usize>,
    /// The processes that it was found in.
    pub processes: Vec<i32>,
    /// What it leaked in each of them.
    #[serde(skip)]
    pub shares: Vec<Amount>,
    /// What its stack had leaked in each of several checks, the last at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<Amount>,
}

impl Leak {
    /// With its key made of its calls.
    pub fn new(kind: Kind, own: Amount, held: Amount, frames: Vec<Frame>, cause: usize) -> Self {
        let cause = cause.min(frames.len().saturating_sub(1));
        let key = key::of(kind, &frames);
        let told = runtime_calls::told(&frames, cause);
        let (processes, shares, course) = Default::default();
        Self { kind, own, held, key, cause, frames, told, processes, shares, course }
    }

    /// With all of its calls told.
    pub fn unfold(&mut self) {
        self.told = (0..self.frames.len()).collect();
    }

    /// The calls that people are told, with their numbers.
    pub fn told_calls(&self) -> impl ExactSizeIterator<Item = (usize, &Frame)> {
        self.told
            .iter()
            .filter_map(|&call| Some((call, self.frames.get(call)?)))
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// As it was found in a process.
    pub fn found(finding: &FindingReport, pid: i32) -> Self {
        let frames = finding.frames.iter().map(Frame::from).collect();
        let leak = Self::new(finding.kind, finding.own, finding.held, frames, finding.cause);
        let shares = vec![leak.total()];
        Self { processes: vec![pid], shares, course: finding.course.clone(), ..leak }
    }

    /// Adds what another stack of the same calls leaked, or another process.
    pub fn join(&mut self, other: &Self) {
        self.own.merge(other.own);
        self.held.merge(other.held);
        if self.processes == other.processes && self.course.len() == other.course.len() {
            self.course.iter_mut().zip(&other.course).for_each(|(sum, more)| sum.merge(*more));
        } else {
            // Checks of different processes are made at different times.
            self.course.clear();
        }
        for (pid, share) in other.processes.iter().zip(&other.shares) {
            match self.processes.iter().position(|known| known == pid) {
                Some(at) => self.shares[at].merge(*share),
                None => {
                    self.processes.push(*pid);
                    self.shares.push(*share);
                }
            }
        }
    }

    /// Whether it is of mappings, without blocks that only they lead to.
    fn is_mapped(&self) -> bool {
        let is_mark = |frame: &Frame| frame.module == MAPPED_MODULE;
        self.held.blocks == 0 && self.frames.first().is_some_and(is_mark)
    }

    /// What is leaked in all.
    pub fn total(&self) -> Amount {
        self.own.and(self.held)
    }

    /// How often it grew from one check to the next, and how often it could have, since it was
    /// first seen.
    pub fn growth(&self) -> (usize, usize) {
        let first = self.course.iter().position(|amount| amount.blocks > 0);
        let seen = &self.course[first.unwrap_or(self.course.len())..];
        let grew = seen.windows(2).filter(|pair| pair[1].bytes > pair[0].bytes).count();
        (grew, seen.len().saturating_sub(1))
    }

    /// Whether it grew from each check to the next, at least twice.
    pub fn is_growing(&self) -> bool {
        let (grew, steps) = self.growth();
        grew >= 2 && grew == steps
    }

    /// The call that asked for the memory.
    pub fn cause(&self) -> Option<&Frame> {
        self.frames.get(self.cause)
    }

    /// Whose it is and how much, at a glance: `insert (cache.c:42): 1 000 B in 10 blocks`.
    pub fn title(&self) -> String {
        let Amount { bytes, blocks } = self.total();
        let what = if self.is_mapped() { "mapping" } else { "block" };
        let plural = if blocks == 1 { "" } else { "s" };
        let amount = format!("{} B in {} {what}{plural}", count(bytes), count(blocks));
        let Some(frame) = self.cause() else { return amount };
        let file = frame.file.rsplit('/').next().unwrap_or_default();
        let place = match (file.is_empty(), frame.line) {
            (false, Some(line)) => format!(" ({file}:{line})"),
            (false, None) => format!(" ({file})"),
            (true, _) => String::new(),
        };
        format!("{}{place}: {amount}", short_name(&frame.function))
    }

    /// As sanitizers say it.
    pub fn headline(&self) -> String {
        let Amount { bytes, blocks } = self.own;
        let mut line = format!("{} of {bytes} byte(s) in {blocks} object(s)", self.kind.title());
        if self.held.blocks > 0 {
            let Amount { bytes, blocks } = self.held;
            line += &format!(", which alone lead to {bytes} byte(s) in {blocks} object(s)");
        }
        line
    }
}

impl From<&FrameReport> for Frame {
    fn from(frame: &FrameReport) -> Self {
        let module = frame.module.rsplit('/').next().unwrap_or_default();
        let place = || format!("{module}+{:#x}", frame.offset);
        Self {
            function: frame.function.clone().unwrap_or_else(place),
            file: frame.file.clone().unwrap_or_default(),
            line: frame.line,
            module: frame.module.clone(),
            offset: frame.offset,
        }
    }
}

impl Display for Frame {
    /// `function file:line`, or where it is in its module.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)?;
        match (self.file.is_empty(), self.line) {
            (false, Some(line)) => write!(f, " {}:{line}", self.file),
            (false, None) => write!(f, " {}", self.file),
            (true, _) if self.module.is_empty() => Ok(()),
            (true, _) => write!(f, " ({}+{:#x})", self.module, self.offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_not_called_blocks() {
        let frame = |name: &str, module: &str| Frame {
            function: name.to_owned(),
            module: module.to_owned(),
            ..Frame::default()
        };
        let frames = vec![frame("[mapped]", MAPPED_MODULE), frame("map", "/opt/server")];
        let amount = |blocks| Amount { bytes: 65_536 * blocks, blocks };
        let leak = |blocks| Leak::new(Kind::Direct, amount(blocks), amount(0), frames.clone(), 1);
        assert_eq!(leak(2).title(), "map: 131 072 B in 2 mappings");
        assert_eq!(leak(1).title(), "map: 65 536 B in 1 mapping");
        let blocks = Leak::new(Kind::Direct, amount(1), amount(0), frames[1..].to_vec(), 0);
        assert_eq!(blocks.title(), "map: 65 536 B in 1 block");
    }
}
