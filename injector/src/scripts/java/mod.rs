//! Java's virtual machine in a target: which release, where its things are, and what to tell the payload. All of
//! it is what the machine says of itself; a release counts only if every entry that is needed is there.

mod code;
mod frames;
mod layout;
mod packed;
mod tables;

pub(super) use frames::{JavaWords, Told};

use heapattach_abi::{
    java::{HEAP_WORDS, HEAPS, JAVA_ORDERS, JavaOrder, JavaOrders},
    python::Orders,
};

use heapattach_process::{addr::RemoteAddr, memory::Memory};

use crate::module::java_marks::JavaMarks;
use layout::Layout;
use tables::Tables;

/// Releases whose frames were compared with what Java says of them.
const RELEASES: [u64; 3] = [17, 21, 25];
const UNKNOWN: &str = "its structures are not known to this heapattach (17, 21 and 25 are)";
const INCOMPLETE: &str =
    "it does not describe itself as releases do that are known to this heapattach";
/// Where what entered Java keeps what leads to the anchor of before, and where an anchor has its three words.
const WRAPPER: i32 = -6;
const ANCHOR: [(&str, u64); 3] =
    [("_last_Java_sp", 0), ("_last_Java_pc", 8), ("_last_Java_fp", 16)];
/// What a machine has once it runs.
const BEGUN: [(&str, &str); 3] = [
    ("StubRoutines", "_call_stub_return_address"),
    ("AbstractInterpreter", "_code"),
    ("CodeCache", "_heaps"),
];
/// No piece of code lies further than this from another.
const MOST_CODE: u64 = 1 << 32;

/// What is known of one that can be read.
#[derive(Clone, Debug)]
pub(crate) struct Java {
    pub(super) orders: Orders,
    pub(super) java: JavaOrders,
    layout: Layout,
}

/// A virtual machine.
pub(super) struct Machine {
    pub version: String,
    /// Why its functions cannot be named, or all that is known of it.
    pub found: Result<Box<Java>, &'static str>,
}

impl Java {
    /// Whether a frame is at code that the machine made.
    pub fn is_code(&self, at: RemoteAddr) -> bool {
        let word = |order: JavaOrder| self.java.0[order as usize];
        at.get().wrapping_sub(word(JavaOrder::Code)) < word(JavaOrder::CodeBytes)
    }
}

/// The machine that these symbols are of, once it runs.
pub(super) fn recognise(marks: &JavaMarks, memory: &Memory) -> Option<Machine> {
    if !marks.is_there() {
        return None;
    }
    let tables = Tables::read(marks, memory);
    let is_begun = BEGUN.iter().all(|(of, name)| {
        let at = tables.field(of, name);
        at.is_none_or(|at| memory.word(RemoteAddr::new(at)).is_ok_and(|word| word != 0))
    });
    if !is_begun {
        // It was loaded, and does not run yet.
        return None;
    }
    let (version, release) = version(&tables, memory)?;
    let found = if RELEASES.contains(&release) {
        read(&tables, memory, release).map(Box::new).ok_or(INCOMPLETE)
    } else {
        Err(UNKNOWN)
    };
    Some(Machine { version, found })
}

fn version(tables: &Tables, memory: &Memory) -> Option<(String, u64)> {
    let number = |name| {
        let at = tables.field("Abstract_VM_Version", name)?;
        half(memory, at).filter(|&number| number < 1000)
    };
    let release = number("_vm_major_version")?;
    let minor = number("_vm_minor_version").unwrap_or(0);
    let security = number("_vm_security_version").unwrap_or(0);
    Some((format!("{release}.{minor}.{security}"), release))
}

fn half(memory: &Memory, at: u64) -> Option<u64> {
    let mut bytes = [0; 4];
    memory.read(RemoteAddr::new(at), &mut bytes).ok()?;
    Some(u64::from(u32::from_le_bytes(bytes)))
}

/// All that is needed; `None` where something is not there, or nonsense.
fn read(tables: &Tables, memory: &Memory, release: u64) -> Option<Java> {
    let layout = Layout::of(tables, release)?;
    let word = |at: u64| memory.word(RemoteAddr::new(at)).ok();
    let [list, entered, interpreter, low, high] = [
        ("ThreadsSMRSupport", "_java_thread_list"),
        ("StubRoutines", "_call_stub_return_address"),
        ("AbstractInterpreter", "_code"),
        ("CodeCache", "_low_bound"),
        ("CodeCache", "_high_bound"),
    ]
    .map(|(of, name)| tables.field(of, name));
    let offset = |of, name| tables.offset(of, name);
    let is_anchor = ANCHOR.iter().all(|(name, at)| offset("JavaFrameAnchor", name) == Some(*at));
    let wrapper = tables.number("frame::entry_frame_call_wrapper_offset");
    if !is_anchor || wrapper.is_some_and(|at| at != WRAPPER) {
        return None;
    }
    let mut java = JavaOrders([0; JAVA_ORDERS]);
    let system = offset("JavaThread", "_osthread").or_else(|| offset("Thread", "_osthread"));
    let queue = word(interpreter?)?;
    let (low, high) = (word(low?)?, word(high?)?);
    let code = high.checked_sub(low).filter(|&bytes| bytes != 0 && bytes < MOST_CODE)?;
    let buffer = word(queue.checked_add(offset("StubQueue", "_stub_buffer")?)?)?;
    let bytes = half(memory, queue.checked_add(offset("StubQueue", "_buffer_limit")?)?)?;
    let is_inside = |at: u64| at.wrapping_sub(low) < code;
    let entered = word(entered?)?;
    if !is_inside(buffer) || bytes > code || !is_inside(entered) {
        return None;
    }
    for (order, told) in [
        (JavaOrder::Anchor, offset("JavaThread", "_anchor")?),
        (JavaOrder::System, system?),
        (JavaOrder::ThreadPointer, offset("OSThread", "_pthread_id")?),
        (JavaOrder::ListLength, offset("ThreadsList", "_length")?),
        (JavaOrder::ListThreads, offset("ThreadsList", "_threads")?),
        (JavaOrder::OuterAnchor, offset("JavaCallWrapper", "_anchor")?),
        (JavaOrder::Interpreter, buffer),
        (JavaOrder::InterpreterBytes, bytes),
        (JavaOrder::Entered, entered),
        (JavaOrder::Code, low),
        (JavaOrder::CodeBytes, code),
        (JavaOrder::Fixed, layout.method_fixed),
        (JavaOrder::Pool, layout.fixed_pool),
        (JavaOrder::Name, layout.fixed_name & !7),
        (JavaOrder::FrameWords, layout.code_frame),
        (JavaOrder::Compilation, layout.code_compilation),
        (JavaOrder::Method, layout.code_method),
        (JavaOrder::Header, tables.size("HeapBlock")?),
    ] {
        java.0[order as usize] = told;
    }
    java.0[JavaOrder::SegmentBits as usize] = heaps(tables, memory, &mut java, is_inside)?;
    let orders = Orders { runtime: list?, tells_apart: 1, ..Orders::new() };
    Some(Java { orders, java, layout })
}

/// Notes the heaps of code; answers how large their segments are.
fn heaps(
    tables: &Tables,
    memory: &Memory,
    java: &mut JavaOrders,
    is_inside: impl Fn(u64) -> bool,
) -> Option<u64> {
    let word = |at: u64| memory.word(RemoteAddr::new(at)).ok();
    let offset = |of, name| tables.offset(of, name);
    let all = word(tables.field("CodeCache", "_heaps")?)?;
    let length_at = offset("GrowableArrayBase", "_len")?;
    let count = half(memory, all.checked_add(length_at)?)?;
    let count = usize::try_from(count).ok().filter(|count| (1..=HEAPS).contains(count))?;
    let values = word(all.checked_add(offset("GrowableArray<int>", "_data")?)?)?;
    let [from, to] =
        [offset("VirtualSpace", "_low_boundary")?, offset("VirtualSpace", "_high_boundary")?];
    let memory_at = offset("CodeHeap", "_memory")?;
    let (map_at, bits_at) =
        (offset("CodeHeap", "_segmap")?, offset("CodeHeap", "_log2_segment_size")?);
    let mut bits = None;
    for number in 0..count {
        let heap = word(values.checked_add(number as u64 * 8)?)?;
        let at = |offset: u64| word(heap.checked_add(offset)?);
        let (low, high) = (at(memory_at + from)?, at(memory_at + to)?);
        let own =
            half(memory, heap.checked_add(bits_at)?).filter(|bits| (4..=16).contains(bits))?;
        if !is_inside(low)
            || high <= low
            || !is_inside(high - 1)
            || bits.is_some_and(|bits| bits != own)
        {
            return None;
        }
        bits = Some(own);
        let first = JavaOrder::Heaps as usize + number * HEAP_WORDS;
        java.0.get_mut(first..first + HEAP_WORDS)?.copy_from_slice(&[
            low,
            high - low,
            at(map_at + from)?,
        ]);
    }
    bits
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One whose code is here, for other tests.
    pub fn some(low: u64, bytes: u64) -> Java {
        let mut java = JavaOrders([0; JAVA_ORDERS]);
        java.0[JavaOrder::Code as usize] = low;
        java.0[JavaOrder::CodeBytes as usize] = bytes;
        Java { orders: Orders::new(), java, layout: Layout::default() }
    }

    #[test]
    fn code_is_what_lies_in_its_memory() {
        let java = some(0x1000, 0x100);
        let told = [0xfff, 0x1000, 0x10ff, 0x1100].map(|at| java.is_code(RemoteAddr::new(at)));
        assert_eq!(told, [false, true, true, false]);
    }

    #[test]
    fn a_machine_that_says_too_little_is_not_read() {
        let own =
            heapattach_process::proc::Process::open(std::process::id().cast_signed()).unwrap();
        let memory = Memory::open(&own).unwrap();
        assert!(recognise(&JavaMarks::default(), &memory).is_none());
        let mut tables = Tables::default();
        tables.set("JavaThread", "_anchor", 656);
        assert!(read(&tables, &memory, 17).is_none());
    }
}
