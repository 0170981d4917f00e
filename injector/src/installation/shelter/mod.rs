//! A place for injected calls where there is none of ours: before the home exists, and when it is
//! unmapped. The call is made at a `syscall` of the program's own code that a `ret` follows, on a
//! signal frame in memory that means nothing to the program; should this process die, the thread
//! returns into libc's own signal return, and is where it was.
//!
//! Where the program has no such code, as one without a C library, a few instructions lie beside the frame
//! in the zeros behind its code. What either is written over is restored. What has no such place is
//! named ([`Bare`]) and measured ([`Exposure`]).

mod gadget;
mod left;
mod room;

use std::{
    fmt,
    ops::AddAssign,
    time::{Duration, Instant},
};

use crate::arch;
use crate::trace::{
    stopped::{Stopped, StoppedThread, carriers},
    target::Target,
};
use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    proc::maps::{self, Mapping},
};

pub(crate) use gadget::Gadget;
pub use left::undo_frames;
use room::Room;

/// Threads that are asked whether their stack has room.
const CANDIDATES: usize = 16;

/// Why a call is made without a shelter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// Returns are checked by the processor, so that a frame made up by us would be refused.
    ShadowStack,
    /// No code of the program makes a system call and returns, or returns from a signal, and there is no
    /// room for some behind it.
    NoCode,
    /// Neither the thread's stack nor its program's code has room for a frame.
    NoRoom,
}

impl fmt::Display for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ShadowStack => "the processor checks its returns (shadow stack)",
            Self::NoCode => "its code has no place to make a system call at",
            Self::NoRoom => "the borrowed thread is on a stack that may not be written to",
        })
    }
}

/// How long borrowed threads would not have survived the death of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exposure {
    /// In all.
    pub time: Duration,
    /// How often.
    pub times: u32,
    /// The reason of the last time.
    pub why: Option<Bare>,
}

impl AddAssign for Exposure {
    fn add_assign(&mut self, more: Self) {
        self.time += more.time;
        self.times = self.times.saturating_add(more.times);
        self.why = more.why.or(self.why);
    }
}

impl Exposure {
    /// One more, which began at `since`.
    pub(crate) fn note(&mut self, since: Instant, why: Option<Bare>) {
        *self += Self { time: since.elapsed(), times: 1, why };
    }
}

/// Looks for the code that a shelter needs, while the target runs: it takes too long for a stop.
pub(crate) fn look_ahead(target: &Target) {
    let text = target.process.read("maps").unwrap_or_default();
    let _ = Gadget::find(target, &maps::parse(&text).unwrap_or_default());
}

/// The thread to borrow where there is no home: of the first few that suffer least, one whose stack
/// has room for a frame.
pub(crate) fn choose_carrier<'s>(
    stop: &'s Stopped<'_>,
    maps: &[Mapping<'_>],
) -> Option<&'s StoppedThread> {
    let has_room = |thread: &&StoppedThread| room::on_stack_of(stop, maps, thread).is_some();
    let roomy = carriers(stop).take(CANDIDATES).find(has_room);
    roomy.or_else(|| crate::trace::stopped::choose_carrier(stop))
}

/// A frame in memory of the program's.
#[derive(Debug)]
pub(crate) struct Shelter {
    /// Where calls are made, and what they return to.
    pub gadget: Gadget,
    /// On what stack.
    pub stack: RemoteAddr,
    room: Room,
    /// Instructions of ours behind the frame.
    code: &'static [u8],
    old: Vec<u8>,
}

/// Where a frame goes, and where calls are made on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub gadget: Gadget,
    room: Room,
    code: &'static [u8],
}

impl Site {
    /// One for frames of `length` bytes while `thread` is borrowed.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn find(
        stop: &Stopped<'_>,
        maps: &[Mapping<'_>],
        thread: &StoppedThread,
        length: u64,
    ) -> Result<Self, Bare> {
        match Gadget::find(stop.target(), maps) {
            Ok(gadget) => {
                let room = room::find(stop, maps, thread, length).ok_or(Bare::NoRoom)?;
                Ok(Self { gadget, room, code: &[] })
            }
            Err(Bare::NoCode) => {
                let code = &arch::BROUGHT_CODE;
                let room = room::behind(stop, maps, length + code.len() as u64);
                let room = room.ok_or(Bare::NoCode)?;
                Ok(Self { gadget: Gadget::brought(room.at().offset(length)), room, code })
            }
            Err(why) => Err(why),
        }
    }

    /// Where the frame goes.
    pub(crate) fn at(self) -> RemoteAddr {
        self.room.at()
    }
}

impl Shelter {
    /// Writes the frame, which is made for this site.
    pub(crate) fn build(memory: &Memory, site: Site, frame: &[u8]) -> Option<Self> {
        let Site { gadget, room, code } = site;
        let stack = RemoteAddr::new(room.at().get().checked_sub(8)?);
        let frame = Self::marked(room, frame, code);
        let bytes = [&gadget.restorer.get().to_le_bytes(), &*frame].concat();
        let old = memory.read_vec(stack, bytes.len()).ok()?;
        memory.write(stack, &bytes).ok()?;
        Some(Self { gadget, stack, room, code, old })
    }

    /// Behind code it would stay for ever, if nothing told that it is ours.
    fn marked(room: Room, frame: &[u8], code: &[u8]) -> Vec<u8> {
        let mut frame = [frame, code].concat();
        if matches!(room, Room::BehindCode(_)) {
            left::mark(&mut frame);
        }
        frame
    }

    /// Where a thread can stand aside and what its frame pointer leads to then, if the frame is not on
    /// its stack: there a handler would write over it.
    pub(crate) fn aside(&self) -> Option<(RemoteAddr, RemoteAddr)> {
        match self.room {
            Room::OnStack(_) => None,
            Room::BehindCode(_) => {
                // It returns by the word behind.
                Some((self.gadget.leave?, RemoteAddr::new(self.stack.get().checked_sub(8)?)))
            }
        }
    }

    /// Where its frame lies.
    pub(crate) fn frame(&self) -> RemoteAddr {
        self.stack.offset(8)
    }

    /// Another frame of the same length, at the same place.
    pub(crate) fn rewrite(&self, memory: &Memory, frame: &[u8]) {
        // In one piece: a thread that we leave behind must find one or the other. Where this fails,
        // it finds the former one, which brings it back as well.
        let _ = memory.write(self.frame(), &Self::marked(self.room, frame, self.code));
    }

    /// Gives the bytes back.
    pub(crate) fn leave(self, memory: &Memory) {
        // They mean nothing to the program, which is why they were taken.
        let _ = memory.write(self.stack, &self.old);
    }
}
