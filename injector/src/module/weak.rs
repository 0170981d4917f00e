//! Weak references to functions of LeakSanitizer: words of a module that stay null where nothing defines
//! them.

use heapattach_process::addr::RemoteAddr;

use super::SlotKind;

/// The functions.
pub const NAMES: [&[u8]; 7] = [
    b"__lsan_disable",
    b"__lsan_enable",
    b"__lsan_ignore_object",
    b"__lsan_register_root_region",
    b"__lsan_unregister_root_region",
    b"__lsan_do_leak_check",
    b"__lsan_do_recoverable_leak_check",
];

/// A word that the loader fills with the address of such a function, or leaves empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeakSlot {
    /// Where it lies.
    pub at: RemoteAddr,
    /// Which of [`NAMES`].
    pub function: usize,
    /// How it is filled.
    pub kind: SlotKind,
}

/// The number of the function, if the symbol is an undefined weak one of its name.
pub fn weak(name: &[u8], symbol: &[u8]) -> Option<usize> {
    const WEAK: u8 = goblin::elf::sym::STB_WEAK;
    let is_undefined = symbol.get(6..16).is_some_and(|rest| rest.iter().all(|&byte| byte == 0));
    let is_weak = symbol.get(4).is_some_and(|info| info >> 4 == WEAK);
    let is_one = is_undefined && is_weak && name.starts_with(b"__lsan_");
    if is_one { NAMES.iter().position(|known| *known == name) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_weak_reference_that_nothing_defines_is_one() {
        let symbol = |info: u8, section: u8, value: u8| {
            let mut symbol = [0; 24];
            (symbol[4], symbol[6], symbol[8]) = (info, section, value);
            symbol
        };
        let name = b"__lsan_enable";
        assert_eq!(weak(name, &symbol(0x20, 0, 0)), Some(1));
        assert_eq!(weak(name, &symbol(0x22, 0, 0)), Some(1));
        for (info, section, value) in [(0x10, 0, 0), (0x20, 7, 0), (0x20, 0, 9)] {
            assert_eq!(weak(name, &symbol(info, section, value)), None);
        }
        assert_eq!(weak(b"__lsan_default_options", &symbol(0x20, 0, 0)), None);
        assert_eq!(weak(name, &[]), None);
    }
}
