//! What a program that includes `heapattach.h` tells us, and how it is answered.
//!
//! ```text
//! note of each module -> mailbox: watch word <- written by us, noted in the journal as any change
//!                                 requests   -> read, and answered by the watch word
//!                        entries: blocks to ignore, roots -> read when they are asked for
//! ```
//!
//! The watch word has the number of the process in its upper half, so that forked children know that
//! no session watches them; a bit that says that one does, one that says whether checks are made, and the
//! number of the last request that was answered. Everything read here is hostile.

mod letter;
mod note;

pub use letter::{Entry, Request, Said, Wish};

use crate::{
    home::{Change, ChangeKind, Home, HomeError, ModuleRecord},
    module,
};
use crate::{
    options::Service,
    trace::{insist::insist, target::Target},
};
use heapattach_process::{
    addr::RemoteAddr,
    little_endian::{u32_at, u64_at},
    memory::Memory,
    proc::maps::Mapping,
};

use letter::{ENTRIES_BYTES, REQUEST_BYTES, REQUESTS};
use note::Place;

const MAGIC: &[u8; 16] = b"HEAPATTACHMAIL01";
const WATCH: u64 = 16;
const HEAD: usize = 24;
const OVERFLOW: usize = 28;
const REQUESTS_AT: usize = 40;
const BYTES: usize = REQUESTS_AT + REQUESTS as usize * REQUEST_BYTES;
/// No honest process has more.
const MOST: usize = 256;
/// What is heeded of all their entries.
const MOST_ENTRIES: usize = 1 << 14;

/// A session watches.
const WATCHED: u64 = 1;
/// And makes checks.
const CHECKS: u64 = 2;
/// Where the number of the last answered request is, and its bits.
const ANSWERED: u32 = 2;
const ANSWERED_MASK: u32 = u32::MAX >> ANSWERED;

/// The mailboxes of a process.
#[derive(Debug)]
pub struct Mailboxes {
    /// The process's own number for itself, and what is done with requests.
    word: u64,
    known: Vec<Mailbox>,
    /// Requests that were overwritten before they were read.
    pub lost: u64,
    /// Why a mailbox is not served.
    pub failed: Option<HomeError>,
}

#[derive(Debug)]
struct Mailbox {
    place: Place,
    identity: u64,
    /// The number of the last request that was read.
    read: u32,
    answered: u32,
}

/// What a mailbox holds at a moment.
struct Content {
    watch: u64,
    head: u32,
    overflow: u32,
    bytes: Vec<u8>,
}

impl Mailboxes {
    /// None known yet.
    pub fn new(target: &Target, service: Service) -> Self {
        let own = target.process.status().map_or(0, |status| status.own_tgid);
        let bits = match service {
            Service::None => 0,
            Service::Marks => WATCHED,
            Service::Checks => WATCHED | CHECKS,
        };
        let word = if bits == 0 { 0 } else { u64::from(own.unsigned_abs()) << 32 | bits };
        Self { word, known: Vec::new(), lost: 0, failed: None }
    }

    /// What stands in for functions of LeakSanitizer is told: the word of a mailbox, where checks are made.
    pub fn word_for_checks(&self) -> u64 {
        if self.word & CHECKS == 0 { 0 } else { self.word }
    }

    /// Looks for mailboxes of modules that came, and says there that a session watches.
    pub fn look(&mut self, memory: &Memory, maps: &[Mapping<'_>], home: &mut Home) {
        if self.word != 0 {
            self.failed = self.failed.take().or(self.open(memory, maps, home).err());
        }
    }

    fn open(
        &mut self,
        memory: &Memory,
        maps: &[Mapping<'_>],
        home: &mut Home,
    ) -> Result<(), HomeError> {
        for place in note::places(memory, maps) {
            let Some(content) = read(memory, place.mailbox) else { continue };
            let Ok(identity) = module::identity_at(memory, place.headers) else { continue };
            let is_same = |known: &Mailbox| known.place == place && known.identity == identity;
            let known = self.known.iter().position(is_same);
            let is_watched = content.watch >> 32 == self.word >> 32 && content.watch & WATCHED != 0;
            if is_watched && known.is_some() || known.is_none() && self.known.len() == MOST {
                continue;
            }
            let answered = content.head;
            let mailbox = Mailbox { place, identity, read: content.head, answered };
            match known.and_then(|number| self.known.get_mut(number)) {
                // The module came again, where it was noted before.
                Some(known) => *known = mailbox,
                None => {
                    note_change(memory, home, &mailbox, content.watch, self.word)?;
                    self.known.push(mailbox);
                }
            }
            if let Some(known) = self.known.iter().rfind(|known| is_same(known)) {
                say(memory, known, self.word);
            }
        }
        Ok(())
    }

    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether the program can ask for anything.
    pub fn has_any(&self) -> bool {
        !self.known.is_empty()
    }

    /// The requests that came since the last time.
    pub fn requests(&mut self, memory: &Memory) -> Vec<Request> {
        let mut all = Vec::new();
        for (number, mailbox) in self.known.iter_mut().enumerate() {
            let Some(content) = read(memory, mailbox.place.mailbox) else { continue };
            let bytes = content.bytes.get(REQUESTS_AT..).unwrap_or_default();
            let (requests, lost) = letter::requests(bytes, number, mailbox.read, content.head);
            self.lost = self.lost.saturating_add(u64::from(lost));
            let read = u32::try_from(requests.len()).unwrap_or(u32::MAX);
            mailbox.read = mailbox.read.wrapping_add(lost).wrapping_add(read);
            all.extend(requests);
        }
        all
    }

    /// Lets a thread go on that waits for this request, or for an earlier one. Best while the target stands
    /// still.
    pub fn answer(&mut self, memory: &Memory, request: &Request) {
        if let Some(mailbox) = self.known.get_mut(request.mailbox) {
            mailbox.answered = request.number;
            say(memory, mailbox, self.word);
        }
    }

    /// What the program says of its memory, and how much of that found no room. Read from where
    /// no session watches, too.
    pub fn entries(&self, memory: &Memory) -> (Vec<Entry>, u64) {
        let (mut all, mut overflow) = (Vec::new(), 0_u64);
        for mailbox in &self.known {
            let content = read(memory, mailbox.place.mailbox);
            overflow = overflow.saturating_add(content.map_or(0, |c| u64::from(c.overflow)));
            let bytes = memory.read_vec(mailbox.place.entries, ENTRIES_BYTES).unwrap_or_default();
            all.extend(letter::entries(&bytes));
            overflow = overflow.saturating_add(all.len().saturating_sub(MOST_ENTRIES) as u64);
            all.truncate(MOST_ENTRIES);
        }
        (all, overflow)
    }
}

fn read(memory: &Memory, at: RemoteAddr) -> Option<Content> {
    let bytes = memory.read_vec(at, BYTES).ok()?;
    let is_one = at.get().is_multiple_of(8) && bytes.starts_with(MAGIC);
    let watch = u64_at(&bytes, usize::try_from(WATCH).ok()?)?;
    let (head, overflow) = (u32_at(&bytes, HEAD)?, u32_at(&bytes, OVERFLOW)?);
    is_one.then_some(Content { watch, head, overflow, bytes })
}

/// Notes that the watch word will be changed, and goes on changing with what is answered.
fn note_change(
    memory: &Memory,
    home: &mut Home,
    mailbox: &Mailbox,
    old: u64,
    new: u64,
) -> Result<(), HomeError> {
    let Place { base, headers, .. } = mailbox.place;
    let record = ModuleRecord { base, dynamic: headers, identity: mailbox.identity };
    let module = home.note_modules(memory, &[record])?;
    let change = Change {
        at: mailbox.place.mailbox.offset(WATCH),
        old: old.to_le_bytes(),
        new: new.to_le_bytes(),
        length: 8,
        kind: ChangeKind::Watch,
        module,
    };
    home.note_changes(memory, &[change])
}

/// Writes the watch word.
fn say(memory: &Memory, mailbox: &Mailbox, word: u64) {
    let answered = u64::from(mailbox.answered & ANSWERED_MASK) << ANSWERED;
    let at = mailbox.place.mailbox.offset(WATCH);
    // Another module may have come to the place meanwhile.
    if module::identity_at(memory, mailbox.place.headers) == Ok(mailbox.identity) {
        // The end of the target is noticed elsewhere.
        let _ = insist(|| memory.write(at, &(word | answered).to_le_bytes()));
    }
}
