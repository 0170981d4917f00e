//! A name for a stack that survives another build: functions and the file names of modules, no
//! addresses, no lines, nothing that a compiler adds.

use super::Frame;
use heapattach_reach::Kind;

/// FNV-1a, 64 bits: stable for ever, which the hashes of the standard library are not.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// What compilers append to a function they split or specialised.
const SUFFIXES: [&str; 7] =
    [".cold", ".part", ".isra", ".constprop", ".llvm", ".lto_priv", " [clone"];

/// The key of a leak, in hexadecimal digits.
pub fn of(kind: Kind, frames: &[Frame]) -> String {
    // Direct or indirect: that changes with which other blocks leaked.
    let kind = if kind == Kind::Indirect { Kind::Direct } else { kind };
    let mut hash = write(BASIS, kind.name());
    // What leads to `main` is the business of the C library, which is another one elsewhere.
    let main = frames.iter().position(|frame| frame.function == "main");
    for frame in &frames[..main.map_or(frames.len(), |main| main + 1)] {
        let module = frame.module.rsplit('/').next().unwrap_or_default();
        hash = write(hash, without_version(module));
        hash = write(hash, bare(&frame.function));
    }
    format!("{hash:016x}")
}

fn write(hash: u64, text: &str) -> u64 {
    let bytes = text.bytes().chain([0]);
    bytes.fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// The function alone; a place without a name has none.
fn bare(function: &str) -> &str {
    let cut = SUFFIXES.iter().filter_map(|suffix| function.find(suffix)).min();
    let function = &function[..cut.unwrap_or(function.len())];
    match function.rsplit_once("+0x") {
        Some((_, digits)) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => "?",
        _ => function,
    }
}

/// `libfoo.so` of `libfoo.so.1.2.3`.
fn without_version(module: &str) -> &str {
    module.find(".so.").map_or(module, |at| &module[..at + ".so".len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, module: &str) -> Frame {
        Frame { function: function.to_owned(), module: module.to_owned(), ..Frame::default() }
    }

    #[test]
    fn another_build_has_the_same_key() {
        let one = [frame("make", "/a/libx.so.1.2"), frame("main", "/a/app")];
        let mut other = [frame("make.constprop.0", "/b/libx.so.1.3"), frame("main", "/b/app")];
        other[0].line = Some(77);
        other[0].offset = 0x7000;
        assert_eq!(of(Kind::Direct, &one), of(Kind::Direct, &other));
        assert_eq!(of(Kind::Direct, &one), of(Kind::Indirect, &other));
    }

    #[test]
    fn what_leads_to_main_does_not_count() {
        let own = [frame("make", "app"), frame("main", "app")];
        let called = [own[0].clone(), own[1].clone(), frame("__libc_start_main", "libc.so.6")];
        assert_eq!(of(Kind::Direct, &own), of(Kind::Direct, &called));
    }

    #[test]
    fn another_stack_has_another_key() {
        let one = [frame("make", "app"), frame("main", "app")];
        let turned = [frame("main", "app"), frame("make", "app")];
        let elsewhere = [frame("make", "lib"), frame("main", "app")];
        let joined = [frame("makemain", "app")];
        let key = of(Kind::Direct, &one);
        for other in [&turned[..], &elsewhere, &joined, &one[..1], &[]] {
            assert_ne!(key, of(Kind::Direct, other));
        }
        assert_ne!(key, of(Kind::Possible, &one));
    }

    #[test]
    fn a_place_without_a_name_does_not_bring_its_address() {
        assert_eq!(bare("app+0x1234"), "?");
        assert_eq!(bare("operator+0xyz"), "operator+0xyz");
        assert_eq!(bare("f.isra.0.cold"), "f");
    }
}
