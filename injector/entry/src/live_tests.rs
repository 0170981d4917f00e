//! The plans at work: on this process's own libc, and on a function of this test patched for real.
//!
//! # Safety
//! Code is made at run time and called. What could go wrong is exactly what is tested: a trampoline
//! that does not do what the entry did.
#![allow(unsafe_code)]

use std::{
    ffi::c_void,
    fs,
    ops::Range,
    os::unix::fs::FileExt,
    path::PathBuf,
    ptr,
    sync::atomic::{AtomicU64, Ordering},
};

use iced_x86::{Decoder, DecoderOptions};
use object::{Object, ObjectSymbol, read::elf::ElfFile64};

use super::{Analysis, EntryPlan, Family, Hooked, Role, TRAMPOLINE_MAX, analyse};
use heapattach_process::addr::{Bias, ImageAddr, RemoteAddr};

const NAMES: [(&str, Family); 13] = [
    ("malloc", Family::Heap),
    ("free", Family::Heap),
    ("cfree", Family::Heap),
    ("calloc", Family::Heap),
    ("realloc", Family::Heap),
    ("posix_memalign", Family::Heap),
    ("aligned_alloc", Family::Heap),
    ("memalign", Family::Heap),
    ("valloc", Family::Heap),
    ("pvalloc", Family::Heap),
    ("mmap", Family::Map),
    ("munmap", Family::Map),
    ("mremap", Family::Map),
];

/// A module of this process.
struct Module {
    file: Vec<u8>,
    bias: Bias,
}

impl Module {
    /// The module whose path ends with `name`.
    fn of_this_process(name: &str) -> Self {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with(name)).unwrap();
        let start = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        let path = PathBuf::from(&line[line.find('/').unwrap()..]);
        Self { file: fs::read(path).unwrap(), bias: Bias::new(start) }
    }

    fn address(&self, name: &str) -> Option<ImageAddr> {
        let elf: ElfFile64<'_> = ElfFile64::parse(&*self.file).unwrap();
        let symbol = elf.dynamic_symbols().chain(elf.symbols()).find(|s| s.name() == Ok(name));
        symbol.map(|symbol| ImageAddr::new(symbol.address()))
    }

    fn analyse(&self, names: &[(&'static str, Family)], role: Role) -> Analysis {
        let hooked = names.iter().filter_map(|&(name, family)| {
            Some(Hooked { name, address: self.address(name)?, size: 0, family, keeps_flags: false })
        });
        analyse(&self.file, &hooked.collect::<Vec<_>>(), role).unwrap()
    }
}

/// Executable memory within reach of a module; leaked, as the code in it stays reachable.
struct Arena {
    start: u64,
}

impl Arena {
    fn near(place: RemoteAddr) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let rx = libc::PROT_READ | libc::PROT_EXEC;
        let candidates = (1..1000u64).map(|step| (place.get() & !0xfff) - step * 0x10_0000);
        let mut mapped = candidates.map(|at| {
            let hint = ptr::without_provenance_mut(usize::try_from(at).unwrap());
            // SAFETY: NOREPLACE: no mapping in use is touched.
            unsafe { libc::mmap(hint, 0x1000, rx, flags, -1, 0) }
        });
        let start = mapped.find(|&at| at != libc::MAP_FAILED).unwrap();
        Self { start: start.addr() as u64 }
    }

    fn room(&self, index: usize) -> RemoteAddr {
        RemoteAddr::new(self.start + (index * TRAMPOLINE_MAX) as u64)
    }
}

/// Writes through the mem file, as the injector does: pages that may not be written are no obstacle.
fn write(at: RemoteAddr, bytes: &[u8]) {
    let memory = fs::OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
    memory.write_all_at(bytes, at.get()).unwrap();
}

fn function(at: RemoteAddr) -> *const c_void {
    ptr::with_exposed_provenance(usize::try_from(at.get()).unwrap())
}

#[test]
fn every_allocation_function_of_libc_can_be_patched() {
    let module = Module::of_this_process("/libc.so.6");
    let analysis = module.analyse(&NAMES, Role::Library);
    let refused: Vec<_> = analysis.entries().iter().filter(|e| e.plan.is_err()).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert!(analysis.entries().len() >= 10, "memalign and aligned_alloc may be one");
}

#[test]
fn every_bypass_of_libc_is_a_branch_and_can_be_led_past_the_hook() {
    let module = Module::of_this_process("/libc.so.6");
    let analysis = module.analyse(&NAMES, Role::Library);
    let bias = module.bias;
    for bypass in analysis.bypasses(|_| true) {
        let field = usize::try_from(bypass.field(Bias::default()).get()).unwrap();
        let site = usize::try_from(bypass.site.get()).unwrap();
        // libc's code lies in the file where it lies in the image.
        let mut code = module.file[site..field + 4].to_vec();
        let target = |code: &[u8]| {
            let at = bias.place(bypass.site).get();
            let instruction = Decoder::with_ip(64, code, at, DecoderOptions::NONE).decode();
            assert_eq!(instruction.len(), code.len());
            RemoteAddr::new(instruction.near_branch_target())
        };
        assert_eq!(target(&code), bias.place(bypass.callee.function));
        let trampoline = bias.place(bypass.callee.function).offset(0x10_0000);
        let at = code.len() - 4;
        assert_eq!(code[at..], bypass.old);
        code[at..].copy_from_slice(&bypass.rewrite(bias, trampoline).unwrap());
        assert_eq!(target(&code), trampoline);
    }
}

#[test]
fn reallocs_calls_of_malloc_free_and_mremap_are_bypassed() {
    let module = Module::of_this_process("/libc.so.6");
    let analysis = module.analyse(&NAMES, Role::Library);
    let elf: ElfFile64<'_> = ElfFile64::parse(&*module.file).unwrap();
    let realloc = elf.dynamic_symbols().find(|symbol| symbol.name() == Ok("realloc")).unwrap();
    let extent = realloc.address()..realloc.address() + realloc.size();
    let bytes = |range: &Range<u64>| {
        &module.file[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]
    };
    let mut found = Vec::new();
    for name in ["malloc", "free", "mremap"] {
        let callee = module.address(name).unwrap();
        let decoder =
            Decoder::with_ip(64, bytes(&extent), extent.start, DecoderOptions::NONE).into_iter();
        found.extend(
            decoder.filter(|i| i.near_branch_target() == callee.get()).map(|i| (name, i.ip())),
        );
    }
    let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
    assert!(["malloc", "free", "mremap"].iter().all(|name| names.contains(name)), "{found:?}");
    let sites: Vec<_> = analysis.bypasses(|_| true).map(|bypass| bypass.site.get()).collect();
    assert!(found.iter().all(|(_, site)| sites.contains(site)), "{found:x?} not in {sites:x?}");
    // No other direct branch leads there, so their hooks need not keep all registers.
    for name in ["malloc", "free", "calloc", "realloc"] {
        let entry = analysis.entry(module.address(name).unwrap()).unwrap();
        assert!(!entry.plan.as_ref().unwrap().is_called_directly(), "{name}");
    }
}

#[test]
fn libcs_functions_work_when_entered_by_their_trampolines() {
    let module = Module::of_this_process("/libc.so.6");
    let analysis = module.analyse(&NAMES, Role::Library);
    let arena = Arena::near(module.bias.place(ImageAddr::new(0)));
    let mut rooms = (0..).map(|index| arena.room(index));
    let mut trampoline = |name| {
        let entry = analysis.entry(module.address(name).unwrap()).unwrap();
        let at = rooms.next().unwrap();
        let plan = entry.plan.as_ref().unwrap();
        write(at, &plan.relocate(module.bias, at, |_| None).unwrap());
        function(at)
    };
    let (malloc, free, realloc) = (trampoline("malloc"), trampoline("free"), trampoline("realloc"));
    let memalign = trampoline("posix_memalign");
    // SAFETY: a trampoline has the type of the function it enters.
    let malloc: extern "C" fn(usize) -> *mut u8 = unsafe { std::mem::transmute(malloc) };
    // SAFETY: as above.
    let free: extern "C" fn(*mut u8) = unsafe { std::mem::transmute(free) };
    // SAFETY: as above.
    let realloc: extern "C" fn(*mut u8, usize) -> *mut u8 = unsafe { std::mem::transmute(realloc) };
    // SAFETY: as above.
    let memalign: extern "C" fn(*mut *mut u8, usize, usize) -> i32 =
        unsafe { std::mem::transmute(memalign) };
    let block = malloc(100);
    // SAFETY: the block has 100 bytes.
    unsafe { block.write_bytes(0x5a, 100) };
    let block = realloc(block, 10_000);
    // SAFETY: the first 100 of its 10,000 bytes were written.
    assert_eq!(unsafe { std::slice::from_raw_parts(block, 100) }, [0x5a; 100]);
    free(block);
    free(ptr::null_mut());
    let mut aligned = ptr::null_mut();
    assert_eq!(memalign(&raw mut aligned, 4096, 64), 0);
    assert_eq!(aligned.addr() % 4096, 0);
    free(aligned);
}

// Two functions of two arguments. The first begins with an endbr64 and a short branch, the second
// with an operand relative to rip. The hooks count and jump on.
std::arch::global_asm!(
    ".macro heapattach_test_function name, hook, count, past",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    ".cfi_startproc",
    "\\name\\()_body",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".p2align 4",
    "\\hook: lock incq \\count(%rip)",
    "jmp *\\past(%rip)",
    ".endm",
    ".macro heapattach_test_branch_body",
    "endbr64",
    "test %rdi, %rdi",
    "je 1f",
    "lea (%rdi, %rsi, 2), %rax",
    "ret",
    "1: mov $7, %eax",
    "ret",
    ".endm",
    ".macro heapattach_test_operand_body",
    "cmpb $0, {flag}(%rip)",
    "lea (%rdi, %rsi, 4), %rax",
    "jne 1f",
    "xor %eax, %eax",
    "1: ret",
    ".endm",
    "heapattach_test_function heapattach_test_branch, heapattach_test_branch_hook, {count0}, {past0}",
    "heapattach_test_function heapattach_test_operand, heapattach_test_operand_hook, {count1}, {past1}",
    ".purgem heapattach_test_function",
    ".purgem heapattach_test_branch_body",
    ".purgem heapattach_test_operand_body",
    flag = sym FLAG,
    count0 = sym COUNT_BRANCH,
    past0 = sym PAST_BRANCH,
    count1 = sym COUNT_OPERAND,
    past1 = sym PAST_OPERAND,
    options(att_syntax),
);

static FLAG: AtomicU64 = AtomicU64::new(1);
static COUNT_BRANCH: AtomicU64 = AtomicU64::new(0);
static PAST_BRANCH: AtomicU64 = AtomicU64::new(0);
static COUNT_OPERAND: AtomicU64 = AtomicU64::new(0);
static PAST_OPERAND: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    safe fn heapattach_test_branch(a: u64, b: u64) -> u64;
    safe fn heapattach_test_operand(a: u64, b: u64) -> u64;
    safe fn heapattach_test_branch_hook();
    safe fn heapattach_test_operand_hook();
}

/// Patches for real, calls, and gives the bytes back.
fn patched(
    plan: &EntryPlan,
    bias: Bias,
    hook: extern "C" fn(),
    past: &AtomicU64,
    calls: impl Fn(),
) {
    let window = plan.window_at(bias);
    let trampoline = Arena::near(window.start).room(0);
    write(trampoline, &plan.relocate(bias, trampoline, |_| None).unwrap());
    past.store(trampoline.get(), Ordering::SeqCst);
    let hook = RemoteAddr::new(hook as usize as u64);
    write(window.start, &plan.patch(bias, hook).unwrap());
    calls();
    write(window.start, &plan.old());
    calls();
}

#[test]
fn a_patched_function_does_what_it_did_and_is_counted() {
    let exe = std::env::current_exe().unwrap();
    let module = Module::of_this_process(exe.to_str().unwrap());
    let names =
        [("heapattach_test_branch", Family::Heap), ("heapattach_test_operand", Family::Heap)];
    let analysis = module.analyse(&names, Role::Executable);
    let plan = |name| {
        let entry = analysis.entry(module.address(name).unwrap()).unwrap();
        entry.plan.as_ref().unwrap()
    };
    let hook = heapattach_test_branch_hook;
    patched(plan("heapattach_test_branch"), module.bias, hook, &PAST_BRANCH, || {
        assert_eq!(heapattach_test_branch(0, 5), 7);
        assert_eq!(heapattach_test_branch(3, 5), 13);
    });
    let hook = heapattach_test_operand_hook;
    patched(plan("heapattach_test_operand"), module.bias, hook, &PAST_OPERAND, || {
        FLAG.store(1, Ordering::SeqCst);
        assert_eq!(heapattach_test_operand(3, 5), 23);
        FLAG.store(0, Ordering::SeqCst);
        assert_eq!(heapattach_test_operand(3, 5), 0);
    });
    assert_eq!(COUNT_BRANCH.load(Ordering::SeqCst), 2, "while patched, and no longer");
    assert_eq!(COUNT_OPERAND.load(Ordering::SeqCst), 2);
}
