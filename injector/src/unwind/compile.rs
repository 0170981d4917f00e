//! From unwind information to rows: one for every place where the way to the caller's frame changes.

use std::sync::atomic::AtomicU64;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, Encoding, EndianSlice,
    LittleEndian, Operation, Register, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, UnwindTableRow,
};
use heapattach_abi::unwind::{self, Rule};

use heapattach_process::{
    addr::{ImageAddr, RemoteAddr},
    image::{Image, Mapped},
    memory::Memory,
    proc::{Process, build_id::BuildId, maps::Mapping, sections::Sections},
};

use super::{Compiled, budget::spend, debug_frame, origin::Origin, stored};
use crate::arch;
use heapattach_process::cache::{Cache, Key};

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Row = UnwindTableRow<usize>;

const FRAME_POINTER: Register = Register(arch::DWARF_FRAME_POINTER);
const STACK_POINTER: Register = Register(arch::DWARF_STACK_POINTER);
const RETURN_ADDRESS: Register = Register(arch::DWARF_RETURN_ADDRESS);
const ENCODING: Encoding = Encoding { format: gimli::Format::Dwarf32, version: 4, address_size: 8 };

/// No honest module has more functions, or rows.
const ENTRIES: usize = 1 << 22;
const ROWS: usize = 1 << 23;

/// Compiles the unwind information of an image: what is mapped, and where that says nothing what only
/// its file has. Empty if there is none, or nonsense, or more than is `left` for all images.
pub fn compile(
    process: &Process,
    memory: &Memory,
    maps: &[Mapping<'_>],
    image: &Image,
    left: &AtomicU64,
    cache: Option<&Cache>,
) -> Compiled {
    let origin =
        cache.and_then(|_| Origin::of(process, maps, image, place(memory, image.mapped?)?));
    let known = cache
        .zip(origin.as_ref())
        .and_then(|(cache, origin)| stored::find(cache, &origin.noted(cache)?, image));
    let made = || {
        let read = information(memory, image, left)
            .or_else(|| unlisted(process, memory, maps, image, left));
        let Some((at, bytes)) = read else { return Compiled::default() };
        let Some(cache) = cache else { return compile_bytes(&bytes, at, image) };
        let (compiled, key) = kept(&bytes, at, memory, image, cache);
        if let (Some(origin), Some(key)) = (&origin, key) {
            origin.note(cache, &bytes, &key);
        }
        compiled
    };
    let mapped = known.unwrap_or_else(made);
    let of_file = debug_frame::of_image(process, memory, maps, image, left)
        .map_or_else(Compiled::default, |bytes| compile_debug_frame(&bytes, image));
    let both = mapped.over(of_file);
    match image.entry.and_then(|entry| entry.offset_from(image.code.start)) {
        Some(entry) => both.begun_at(u32::try_from(entry).unwrap_or(u32::MAX)),
        None => both,
    }
}

/// As [`compile_bytes`], but what was made of the same bytes before is taken from the cache; and what
/// it is found by there.
fn kept(
    bytes: &[u8],
    at: RemoteAddr,
    memory: &Memory,
    image: &Image,
    cache: &Cache,
) -> (Compiled, Option<Key>) {
    let build = BuildId::at(memory.file(), image.start.get(), u64::MAX);
    let build = build.as_ref().map_or(&[][..], BuildId::bytes);
    let key = stored::key(bytes, at, image, build);
    if let Some(compiled) = key.as_ref().and_then(|key| stored::find(cache, key, image)) {
        return (compiled, key);
    }
    let compiler = compiler(bytes, at, image);
    let (compiled, is_relative) = compiler.run();
    let key = key.filter(|_| is_relative);
    if let Some(key) = &key {
        stored::keep(cache, key, &compiled);
    }
    (compiled, key)
}

/// The unwind information that is mapped, to the end of its segment, and where it begins.
pub fn information(
    memory: &Memory,
    image: &Image,
    left: &AtomicU64,
) -> Option<(RemoteAddr, Vec<u8>)> {
    let (at, length) = place(memory, image.mapped?)?;
    spend(left, length)?;
    Some((at, read(memory, at, length)?))
}

/// The same where no program header leads to it, as in static programs: only the file knows the place.
fn unlisted(
    process: &Process,
    memory: &Memory,
    maps: &[Mapping<'_>],
    image: &Image,
    left: &AtomicU64,
) -> Option<(RemoteAddr, Vec<u8>)> {
    if image.mapped.is_some() {
        return None;
    }
    let file = debug_frame::open_file(process, memory, maps, image)?;
    let section = Sections::read(&file)?.named(b".eh_frame").filter(|section| section.at != 0)?;
    spend(left, section.size)?;
    let at = image.bias.place(ImageAddr::new(section.at));
    Some((at, read(memory, at, section.size)?))
}

fn place(memory: &Memory, mapped: Mapped) -> Option<(RemoteAddr, u64)> {
    let mut header = [0; 32];
    memory.read_some(mapped.header, &mut header).ok()?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(mapped.header.get());
    let header = EhFrameHdr::new(&header, LittleEndian).parse(&bases, 8).ok()?;
    let gimli::Pointer::Direct(at) = header.eh_frame_ptr() else { return None };
    let at = RemoteAddr::new(at);
    Some((at, mapped.end.offset_from(at)?))
}

fn read(memory: &Memory, at: RemoteAddr, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let read = memory.read_some(at, &mut bytes).ok()?;
    bytes.truncate(read);
    Some(bytes)
}

/// Compiles what is mapped: bytes that lie at `at`.
pub fn compile_bytes(bytes: &[u8], at: RemoteAddr, image: &Image) -> Compiled {
    compiler(bytes, at, image).run().0
}

fn compiler<'a>(bytes: &'a [u8], at: RemoteAddr, image: &Image) -> Compiler<EhFrame<Slice<'a>>> {
    let section = EhFrame::new(bytes, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(at.get());
    Compiler { section, bases, base: image.code.start.get(), end: image.code.end.get() }
}

/// Compiles the bytes of a `.debug_frame`.
pub fn compile_debug_frame(bytes: &[u8], image: &Image) -> Compiled {
    let section = DebugFrame::new(bytes, LittleEndian);
    let [base, end] = [image.code.start, image.code.end].map(|at| image.bias.unplace(at).get());
    Compiler { section, bases: BaseAddresses::default(), base, end }.run().0
}

struct Compiler<S> {
    section: S,
    bases: BaseAddresses,
    /// Start and end of the code, as the section states addresses.
    base: u64,
    end: u64,
}

impl<'a, S: UnwindSection<Slice<'a>>> Compiler<S> {
    /// The rows, and whether every place is stated relative to where it is stated: then they are the
    /// same wherever all of it lies.
    fn run(&self) -> (Compiled, bool) {
        let mut is_relative = true;
        let mut rows = Vec::new();
        let mut ends = Vec::new();
        let mut context = UnwindContext::new();
        let mut entries = self.section.entries(&self.bases);
        for _ in 0..ENTRIES {
            // Where one entry is damaged the rest cannot be found.
            let Ok(Some(entry)) = entries.next() else { break };
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(fde) = partial.parse(S::cie_from_offset) else { continue };
            let encoding = fde.cie().fde_address_encoding();
            is_relative &= encoding.is_some_and(|e| e.application() == gimli::DW_EH_PE_pcrel);
            let (start, end) = (fde.initial_address(), fde.end_address());
            // What the linker has dropped is said to lie at 0, where a file's header lies.
            if start < self.base || end > self.end || start >= end || start == 0 {
                continue;
            }
            ends.push((self.offset(end), unwind::NONE));
            if fde.is_signal_trampoline() {
                rows.push((self.offset(start), Rule::Signal.pack()));
                continue;
            }
            let Ok(mut table) = fde.rows(&self.section, &self.bases, &mut context) else {
                continue;
            };
            while let Ok(Some(row)) = table.next_row() {
                if rows.len() < ROWS && (start..end).contains(&row.start_address()) {
                    let rule = self.rule(row, fde.cie().return_address_register());
                    rows.push((self.offset(row.start_address()), rule.pack()));
                }
            }
        }
        (Compiled::tidy(rows, ends), is_relative)
    }

    /// How far from the start of the code; it is less than 4 GiB of it.
    fn offset(&self, at: u64) -> u32 {
        u32::try_from(at - self.base).unwrap_or(u32::MAX)
    }

    fn rule(&self, row: &Row, return_address: Register) -> Rule {
        if return_address != RETURN_ADDRESS {
            return Rule::Unknown;
        }
        match row.register(RETURN_ADDRESS) {
            Some(RegisterRule::Undefined) => return Rule::Outermost,
            Some(RegisterRule::Offset(-8)) => {}
            _ => return Rule::Unknown,
        }
        let frame = row.register(FRAME_POINTER);
        let saved = match frame {
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some(0),
            Some(RegisterRule::Offset(offset)) if offset % 8 == 0 && offset < 0 => {
                u32::try_from(offset / -8).ok()
            }
            _ => None,
        };
        let by_register = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let words = u32::try_from(*offset / 8).ok().filter(|_| offset % 8 == 0);
                words.zip(saved).and_then(|(distance, saved)| match *register {
                    STACK_POINTER => Some(Rule::Stack { distance, saved }),
                    FRAME_POINTER => Some(Rule::Frame { distance, saved }),
                    _ => None,
                })
            }
            CfaRule::Expression(expression) => self.by_expression(expression, frame.as_ref()),
        };
        by_register.unwrap_or(Rule::Unknown)
    }

    /// The two expressions that compilers and linkers make: an address stored near the frame pointer
    /// (a frame that aligns itself), and the one of the procedure linkage table.
    fn by_expression(
        &self,
        expression: &UnwindExpression<usize>,
        frame: Option<&RegisterRule<usize>>,
    ) -> Option<Rule> {
        match self.operations(expression)?.as_slice() {
            [
                Operation::RegisterOffset { register: FRAME_POINTER, offset, .. },
                Operation::Deref { size: 8, space: false, .. },
            ] if offset % 8 == 0 => {
                let saves = match frame {
                    None | Some(RegisterRule::SameValue) => false,
                    Some(RegisterRule::Expression(at)) => {
                        let operations = self.operations(at)?;
                        let [
                            Operation::RegisterOffset {
                                register: FRAME_POINTER, offset: 0, ..
                            },
                        ] = operations.as_slice()
                        else {
                            return None;
                        };
                        true
                    }
                    Some(_) => return None,
                };
                Some(Rule::Stored { distance: i32::try_from(offset / 8).ok()?, saves })
            }
            other => arch::linkage(other).map(Rule::Linkage),
        }
    }

    fn operations(
        &self,
        expression: &UnwindExpression<usize>,
    ) -> Option<Vec<Operation<Slice<'a>>>> {
        let expression = expression.get(&self.section).ok()?;
        let mut operations = expression.operations(ENCODING);
        let mut all = Vec::new();
        while let Some(operation) = operations.next().ok()? {
            all.push(operation);
            if all.len() > 16 {
                return None;
            }
        }
        Some(all)
    }
}
