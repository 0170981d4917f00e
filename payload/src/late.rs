//! Code that was loaded a moment ago: no table describes it yet, and it may be gone before one does.
//! The loader's list tells what it is, the module itself how to go on from it.
//!
//! Everything is read through the kernel ([`crate::probed_read`]): the list may be changing just now.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heapattach_abi::{
    control,
    copies::{ASIDE, ASIDE_COUNT},
    late::{
        BUILD_AT, BUILD_BYTES, ENTRY_BYTES, IDENTITY_START, LATE, NAME_AT, NAME_BYTES, Part,
        identify,
    },
    region, unwind,
};

use crate::{
    arch,
    cells::Cells,
    cfi::{self, Source},
    probed_read::Far,
    readable,
    rules::Tables,
    shared_word::Place,
};

/// Modules of one list, and lists, that are looked at.
const MODULES: usize = 1 << 12;
const LISTS: usize = 16;
/// No honest module has more program headers, nor more notes of its build.
const HEADERS: u64 = 64;
const NOTES: usize = 16;
const NOTE_BYTES: u64 = 1 << 12;

/// `\x7fELF`, 64 bits, little-endian.
const MAGIC: u64 = 0x0000_0102_464c_457f;
const MAGIC_MASK: u64 = 0xffff_ffff_ffff;
const LOAD: u64 = 1;
const NOTE: u64 = 4;
const UNWINDING: u64 = 0x6474_e550;
const EXECUTABLE: u64 = 1;
const HEADER_BYTES: u64 = 56;
const GNU: u32 = u32::from_le_bytes(*b"GNU\0");

/// What a module's own memory tells, as words that are put aside.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Told {
    Start = cfi::FREE,
    End,
    Header,
    HeaderEnd,
    Identity,
    Build,
    BuildLength,
}

const _: () = assert!(Told::BuildLength as usize <= ASIDE_COUNT);

/// Looks for code that no table describes. Its words are in an order in which no two are set to
/// constants side by side, which compilers would do by vector registers.
#[repr(C)]
pub(crate) struct Late {
    control: Place,
    /// The last place that was looked for.
    place: u64,
    region: Place,
    /// What is known of it: the rule, and above it [`NUMBER`] and [`BLIND`].
    known: u64,
}

/// The number of the module.
const NUMBER: u32 = 32;
/// It could not be read.
const BLIND: u64 = 1 << 63;

impl Late {
    #[inline]
    pub(crate) fn new(cells: &Cells) -> Self {
        let (control, region) = (cells.control(), cells.region());
        Self { control, place: 0, region, known: 0 }
    }

    /// The rule for a place in code, packed.
    pub(crate) fn rule(&mut self, tables: &Tables, place: u64) -> u32 {
        self.look(tables, place);
        self.known as u32
    }

    /// The number of its module.
    pub(crate) fn number(&mut self, tables: &Tables, place: u64) -> u64 {
        self.look(tables, place);
        (self.known & !BLIND) >> NUMBER
    }

    /// Whether it could not be read what was there.
    pub(crate) fn is_blind(&self) -> bool {
        self.known & BLIND != 0
    }

    #[inline(never)]
    fn look(&mut self, tables: &Tables, place: u64) {
        if self.place == place {
            return;
        }
        self.place = place;
        if let Some(rule) = tables.lasting(place) {
            self.known = u64::from(rule);
            return;
        }
        let loads = self.loads();
        let [page, at] = [region::NO_MODULE, region::NO_MODULE_LOADS].map(|at| self.region.at(at));
        if page.get() == place >> 12 && at.get() == loads {
            self.known = u64::from(unwind::NONE);
            return;
        }
        self.known = BLIND;
        let process = self.control.at(control::LOOK).half().load(Relaxed);
        if process == 0 {
            return;
        }
        let Some(copy) = readable::claim(self.region) else { return };
        let far = &mut Bytes { far: Far::of(self.region, copy, process), aside: copy.at(ASIDE) };
        let mut number = self.known_one(far, place, loads);
        if number.is_none() {
            number = self.new_one(far, place, loads);
        }
        if let Some(number) = number {
            far.far.begin_again();
            let (header, end) = (far.told(Told::Header), far.told(Told::HeaderEnd));
            let rule = cfi::rule(far, header, end, place);
            self.known = u64::from(number) << NUMBER | u64::from(rule);
        } else {
            self.known = u64::from(unwind::NONE);
            page.set(place >> 12);
            at.set(loads);
        }
    }

    fn loads(&self) -> u64 {
        match self.control.at(control::LOADS).get() {
            0 => 0,
            at => arch::read(at),
        }
    }

    fn entry(&self, index: usize) -> Place {
        self.region.at(region::LATE_AT + index * ENTRY_BYTES)
    }

    fn taken(&self) -> usize {
        (self.region.at(region::LATE_TAKEN).word().load(Acquire) as usize).min(LATE)
    }

    /// The number of the module of a place, if it was met before and still is the same; where its
    /// information is, is put aside.
    #[inline(never)]
    fn known_one(&self, far: &mut Bytes, place: u64, loads: u64) -> Option<u32> {
        for index in (0..self.taken()).rev() {
            let entry = self.entry(index);
            let part = |part: Part| entry.at(part as usize).get();
            if entry.word().load(Acquire) == 0
                || place < part(Part::Start)
                || place >= part(Part::End)
            {
                continue;
            }
            if part(Part::Loads) != loads {
                far.far.begin_again();
                let is_same = module(far, part(Part::Bias), part(Part::Link)).is_some()
                    && far.told(Told::Identity) == part(Part::Identity);
                if !is_same {
                    continue;
                }
                entry.at(Part::Loads as usize).set(loads);
            }
            far.tell(Told::Header, part(Part::Header));
            far.tell(Told::HeaderEnd, part(Part::HeaderEnd));
            return Some(index as u32 + 1);
        }
        None
    }

    /// The same for one that was not met before: it is now. Without room for another it has number 0.
    #[inline(never)]
    fn new_one(&self, far: &mut Bytes, place: u64, loads: u64) -> Option<u32> {
        let link = self.listed(far, place)?;
        far.far.begin_again();
        let bias = far.far.load_alone(link)?;
        module(far, bias, link)?;
        if place < far.told(Told::Start) || place >= far.told(Told::End) {
            return None;
        }
        for index in (0..self.taken()).rev() {
            let entry = self.entry(index);
            let part = |part: Part| entry.at(part as usize).get();
            if entry.word().load(Acquire) != 0
                && part(Part::Bias) == bias
                && part(Part::Identity) == far.told(Told::Identity)
            {
                entry.at(Part::Link as usize).set(link);
                entry.at(Part::Loads as usize).set(loads);
                return Some(index as u32 + 1);
            }
        }
        Some(self.note(far, bias, link, loads))
    }

    /// The entry, in the loader's lists, of the last module that begins at or before a place.
    #[inline(never)]
    fn listed(&self, far: &mut Bytes, place: u64) -> Option<u64> {
        let mut list = self.control.at(control::LISTS).get();
        let (mut bias, mut found) = (0, 0);
        let mut left = MODULES;
        for _ in 0..LISTS {
            if list == 0 {
                break;
            }
            far.far.begin_again();
            let version = far.far.load_alone(list)? as u32;
            let mut link = far.far.load_alone(list.wrapping_add(8))?;
            while link != 0 && left != 0 {
                left -= 1;
                far.far.begin_again();
                let next = link.wrapping_add(24);
                far.far.load_four(link, next, link, next)?;
                let (at, next) = (far.far.first(), far.far.second());
                if at <= place && at > bias {
                    (bias, found) = (at, link);
                }
                link = next;
            }
            list = if version < 2 { 0 } else { far.far.load_alone(list.wrapping_add(40))? };
        }
        (found != 0).then_some(found)
    }

    /// Notes a module for the injector; its number.
    #[cold]
    #[inline(never)]
    fn note(&self, far: &mut Bytes, bias: u64, link: u64, loads: u64) -> u32 {
        let taken = self.region.at(region::LATE_TAKEN).word();
        let index = taken.fetch_add(1, AcqRel) as usize;
        if index >= LATE {
            taken.fetch_sub(1, Relaxed);
            return 0;
        }
        let entry = self.entry(index);
        let set = |part: Part, value: u64| entry.at(part as usize).set(value);
        set(Part::Bias, bias);
        set(Part::Start, far.told(Told::Start));
        set(Part::End, far.told(Told::End));
        set(Part::Header, far.told(Told::Header));
        set(Part::HeaderEnd, far.told(Told::HeaderEnd));
        set(Part::Identity, far.told(Told::Identity));
        set(Part::Loads, loads);
        set(Part::Link, link);
        set(Part::BuildLength, far.told(Told::BuildLength));
        far.far.begin_again();
        far.far.copy(entry.at(BUILD_AT), far.told(Told::Build), far.told(Told::BuildLength));
        if let Some(name) = far.far.load_alone(link.wrapping_add(8)) {
            far.far.copy(entry.at(NAME_AT), name, NAME_BYTES as u64);
        }
        entry.word().store(1, Release);
        index as u32 + 1
    }
}

/// Puts aside what lies at `bias`, if it is a module with code; `link` is its entry in the loader's
/// list.
#[inline(never)]
fn module(far: &mut Bytes, bias: u64, link: u64) -> Option<()> {
    if far.far.load(bias)? & MAGIC_MASK != MAGIC {
        return None;
    }
    let table = bias.checked_add(far.far.load(bias.checked_add(32)?)?)?;
    // The two half words lie at 54 and 56.
    let size = far.far.load(bias.checked_add(48)?)? >> 48;
    let count = far.far.load(bias.checked_add(56)?)? & 0xffff;
    if size != HEADER_BYTES || count > HEADERS || table > region::ADDRESS_END {
        return None;
    }
    let end = table + count * HEADER_BYTES;
    let (mut start, mut stop, mut identity, mut unwinding) = (u64::MAX, 0, IDENTITY_START, 0);
    far.tell(Told::Build, 0);
    far.tell(Told::BuildLength, 0);
    let mut header = table;
    while header < end {
        let (kind, place) = (far.far.load(header)?, bias.wrapping_add(far.far.load(header + 16)?));
        let length = far.far.load(header + 40)?;
        let mut at = header;
        while at < header + HEADER_BYTES {
            identity = identify(identity, far.far.load(at)?);
            at += 8;
        }
        match kind & 0xffff_ffff {
            LOAD if kind >> 32 & EXECUTABLE != 0 => {
                start = start.min(place);
                stop = stop.max(place.checked_add(length)?);
            }
            UNWINDING => unwinding = place,
            NOTE if far.told(Told::BuildLength) == 0 => {
                far.far.begin_again();
                _ = build(far, place, length);
            }
            _ => {}
        }
        header += HEADER_BYTES;
    }
    if start >= stop {
        return None;
    }
    far.tell(Told::Start, start);
    far.tell(Told::End, stop);
    far.tell(Told::Header, unwinding);
    far.tell(Told::HeaderEnd, 0);
    header = table;
    while header < end {
        let (kind, place) = (far.far.load(header)?, bias.wrapping_add(far.far.load(header + 16)?));
        let behind = place.checked_add(far.far.load(header + 40)?)?;
        if kind & 0xffff_ffff == LOAD && place <= unwinding && unwinding < behind {
            far.tell(Told::HeaderEnd, behind);
        }
        header += HEADER_BYTES;
    }
    far.far.begin_again();
    identity = identified(far, identity, link);
    far.tell(Told::Identity, identity);
    Some(())
}

/// The identity of a module of which the program headers are known: by its build, or where it has
/// none by how its unwind information begins, and by its path.
#[inline(never)]
fn identified(far: &mut Bytes, headers: u64, link: u64) -> u64 {
    let mut identity = headers;
    let length = far.told(Told::BuildLength);
    if length != 0 {
        return add_bytes(far, identity, far.told(Told::Build), length);
    }
    let header = far.told(Told::Header);
    if header != 0 {
        identity = add_bytes(far, identity, header, 16);
    }
    let name = far.far.load_alone(link.wrapping_add(8)).unwrap_or(0);
    let mut at = 0;
    while at < NAME_BYTES as u64 {
        let byte = far.byte(name.wrapping_add(at)).unwrap_or(0);
        if byte == 0 {
            break;
        }
        identity = identify(identity, u64::from(byte));
        at += 1;
    }
    identity
}

#[inline(never)]
fn add_bytes(far: &mut Bytes, identity: u64, at: u64, length: u64) -> u64 {
    let mut identity = identity;
    let mut offset = 0;
    while offset < length {
        let byte = far.byte(at.wrapping_add(offset)).unwrap_or(0);
        identity = identify(identity, u64::from(byte));
        offset += 1;
    }
    identity
}

/// Puts aside where the build id is among the notes there, and how long it is.
#[inline(never)]
fn build(far: &mut Bytes, at: u64, length: u64) -> Option<()> {
    let end = at.checked_add(length.min(NOTE_BYTES))?;
    let mut at = at;
    for _ in 0..NOTES {
        if at.checked_add(16)? > end {
            return None;
        }
        let (name, content) = (u64::from(far.half(at)?), u64::from(far.half(at + 4)?));
        let from = at.checked_add(12)?.checked_add(name.next_multiple_of(4))?;
        if name == 4 && far.half(at + 8)? == 3 && far.half(at + 12)? == GNU {
            if (2..=BUILD_BYTES as u64).contains(&content) {
                far.tell(Told::Build, from);
                far.tell(Told::BuildLength, content);
            }
            return Some(());
        }
        at = from.checked_add(content.next_multiple_of(4))?;
    }
    None
}

/// Memory by bytes.
struct Bytes {
    far: Far,
    aside: Place,
}

impl Bytes {
    #[inline(never)]
    fn half(&mut self, at: u64) -> Option<u32> {
        let mut half = 0;
        for offset in 0..4 {
            half |= u32::from(self.byte(at.wrapping_add(offset))?) << (8 * offset);
        }
        Some(half)
    }

    fn tell(&mut self, told: Told, word: u64) {
        self.put_aside(told as usize, word);
    }

    fn told(&self, told: Told) -> u64 {
        self.aside(told as usize)
    }
}

impl Source for Bytes {
    #[inline(never)]
    fn byte(&mut self, at: u64) -> Option<u8> {
        Some((self.far.load(at & !7)? >> (8 * (at & 7))) as u8)
    }

    fn put_aside(&mut self, number: usize, word: u64) {
        self.aside.at(number * 8).set(word);
    }

    fn aside(&self, number: usize) -> u64 {
        self.aside.at(number * 8).get()
    }
}
