//! What lies on the stacks of a Go program: variables of functions, by the debug data at the place where each goes on;
//! without it, the words that the runtime takes for pointers.

use std::fs::File;

use heapattach_census::Moment;
use heapattach_golang::{
    Go,
    dwarf::{Local, Locals, Typed},
    find::{Frame, Frames},
    graph::{goroutine::Goroutine, layout::Layout},
};

/// Frames, and stacks, of all goroutines together; those of the others are told by their functions.
const MOST: usize = 1 << 22;

/// The stacks.
pub(super) struct Stacks<'a, 'm> {
    frames: Frames<'a, 'm>,
    locals: Option<Locals>,
    bias: u64,
    /// Ascending; each with its frames, the innermost first.
    all: Vec<(u64, Vec<Frame>)>,
}

/// What has a word of a stack.
pub(super) enum Place<'s> {
    /// A variable, and where in the frame the word is, from its end on.
    Local(&'s Local, i64),
    /// A word that the runtime takes for a pointer: how far from the stack pointer of the function that goes on there.
    Slot(u64, u64),
    /// Another word.
    Other,
}

impl<'a, 'm> Stacks<'a, 'm> {
    /// Reads them; `file` opens the program, where it may have debug data.
    pub(super) fn of(
        moment: &'a Moment<'m>,
        go: &'a Go,
        layout: &Layout,
        goroutines: &[Goroutine],
        file: Option<File>,
    ) -> Self {
        let frames = Frames::new(&go.functions, moment, layout);
        let mut left = MOST;
        let stack = |one: &Goroutine| {
            let code = one.calls.first().map_or(0, |call| call.code);
            let own = frames.of_stack(code, one.stack.start, one.stack.end);
            left = left.checked_sub(own.len() + 1)?;
            Some((one.stack.start, own))
        };
        let mut all: Vec<_> = goroutines.iter().map_while(stack).collect();
        all.sort_unstable_by_key(|(start, _)| *start);
        let frame = all.iter().flat_map(|(_, frames)| frames);
        let codes = frame.map(|frame| in_file(frame, go.bias)).collect();
        let locals = file.and_then(|file| Locals::read(file, codes));
        Self { frames, locals, bias: go.bias, all }
    }

    /// What has the word at an address.
    pub(super) fn at(&self, at: u64) -> Option<Place<'_>> {
        let (own, callee) = self.frames_at(at)?;
        // Arguments of the function that it called lie in its frame, and are that one's variables.
        let local = [Some(own), callee].into_iter().flatten().find_map(|frame| {
            let place = at.wrapping_sub(frame.end).cast_signed();
            let local = self.locals.as_ref()?.at(in_file(frame, self.bias), place)?;
            Some(Place::Local(local, place))
        });
        // Where variables are known, what is none of them is the function's.
        let is_slot = || self.locals.is_none() && self.is_pointer(own, callee, at);
        Some(local.unwrap_or_else(|| match is_slot() {
            true => Place::Slot(own.code, at - own.from),
            false => Place::Other,
        }))
    }

    /// The pointer of a variable that lies there, if the runtime, too, takes it for one.
    pub(super) fn pointer_at(&self, at: u64) -> Option<&Typed> {
        let Some(Place::Local(local, place)) = self.at(at) else { return None };
        let (own, callee) = self.frames_at(at)?;
        self.is_pointer(own, callee, at).then(|| local.pointer_at(place)).flatten()
    }

    /// Whether a variable has the word that lies there, or the runtime takes it for a pointer, or neither is told.
    pub(super) fn is_pointer_at(&self, at: u64) -> bool {
        let Some((own, callee)) = self.frames_at(at) else { return true };
        let has_local = || matches!(self.at(at), Some(Place::Local(..)));
        self.is_pointer(own, callee, at) || has_local()
    }

    fn is_pointer(&self, own: &Frame, callee: Option<&Frame>, at: u64) -> bool {
        let own = self.frames.is_pointer(own, at) == Some(true);
        own || callee.is_some_and(|callee| self.frames.is_pointer(callee, at) == Some(true))
    }

    /// The frame that an address lies in, and the one that its function called.
    fn frames_at(&self, at: u64) -> Option<(&Frame, Option<&Frame>)> {
        let behind = self.all.partition_point(|(start, _)| *start <= at);
        let (_, frames) = self.all.get(behind.checked_sub(1)?)?;
        // Each begins where the one before ends.
        let number = frames.partition_point(|frame| frame.end <= at);
        let own = frames.get(number).filter(|frame| frame.from <= at)?;
        Some((own, number.checked_sub(1).and_then(|callee| frames.get(callee))))
    }
}

/// The place of the code, as the file states it: where the call is, not where it returns to.
fn in_file(frame: &Frame, bias: u64) -> u64 {
    frame.code.wrapping_sub(bias).wrapping_sub(1)
}
