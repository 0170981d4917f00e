//! What is of one processor has a place of its own, so that a second processor is a twin folder.

use super::sources::{members, product, root, sources};

/// What only code for one processor names: crates, constants and modules,
const OF_A_PROCESSOR: [&str; 6] =
    ["iced_x86", "X86", "arch::x86", "x86_64::", "target_arch", "user_regs"];

/// and registers, however they are written.
const REGISTERS: [&str; 19] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "rip", "r8", "r9", "r10", "r11", "r12",
    "r13", "r14", "r15", "eax", "eflags",
];

/// Names in `text` that are of one processor.
fn names_of_a_processor(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_register = |word: &str| REGISTERS.iter().any(|name| word.eq_ignore_ascii_case(name));
    let words = text.split(|c| !is_name(c)).filter(|word| is_register(word));
    words.chain(OF_A_PROCESSOR.into_iter().filter(|name| text.contains(name))).collect()
}

#[test]
fn what_is_of_one_processor_is_named_below_arch_only() {
    for (planted, count) in [
        ("use iced_x86::Decoder;", 1),
        ("std::arch::x86_64::_rdtsc()", 2),
        ("const AT: Register = X86_64::RSP;", 2),
        ("registers.rip", 1),
        ("// rbx, and r12 to r15", 3),
        ("// noticed; a trip of 15 drips to \"libclang_rt.asan-x86_64.so\"", 0),
    ] {
        assert_eq!(names_of_a_processor(planted).len(), count, "{planted}");
    }
    let (below, above): (Vec<_>, Vec<_>) = sources("injector/src")
        .into_iter()
        .partition(|(name, _)| name.starts_with("injector/src/arch/"));
    assert!(below.iter().any(|(_, text)| !names_of_a_processor(text).is_empty()));
    let outside: Vec<_> = above
        .iter()
        .map(|(name, text)| (name, names_of_a_processor(text)))
        .filter(|(_, names)| !names.is_empty())
        .collect();
    assert!(outside.is_empty(), "{outside:?}");
}

/// Members that are of one processor as a whole: the registers of a call are what the payload and its contract
/// are about, and how a processor is halted at each instruction what the counter is. The tests compare with
/// what they read of programs themselves.
const AS_A_WHOLE: [&str; 4] = ["payload", "payload/abi", "cli/instruction_count", "tests"];

/// Where code that is not below a folder `arch` names a processor all the same, and why.
const ELSEWHERE: [(&str, &str); 4] = [
    (
        "injector/process/src/core_file/headers.rs",
        "a core says by number for which processor it is",
    ),
    ("injector/process/src/core_file/notes.rs", "the registers of a core are read for that one"),
    ("cli/recording/src/lib.rs", "instructions are counted in a test, where that can be done"),
    ("cli/export/src/lib.rs", "instructions are counted in a test, where that can be done"),
];

#[test]
fn code_of_every_member_names_a_processor_below_arch_only() {
    let (mut below_arch, mut outside) = (0, Vec::new());
    for member in members().into_iter().filter(|one| !AS_A_WHOLE.contains(&&one[..])) {
        for (path, code) in product(&root().join(member).join("src")) {
            let below = path.strip_prefix(root()).expect("below the root").to_owned();
            let names = names_of_a_processor(&code).join(" ");
            if names.is_empty() {
                continue;
            } else if below.iter().any(|part| part == "arch") {
                below_arch += 1;
            } else {
                outside.push((below.display().to_string(), names));
            }
        }
    }
    let told = |file: &str| ELSEWHERE.iter().any(|(one, _)| *one == file);
    assert_eq!(outside.iter().filter(|one| told(&one.0)).count(), ELSEWHERE.len(), "{outside:#?}");
    outside.retain(|(file, _)| !told(file));
    assert!(below_arch > 10 && outside.is_empty(), "{outside:#?}");
}
