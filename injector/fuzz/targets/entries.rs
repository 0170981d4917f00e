//! Any bytes as an ELF file whose functions are to be patched; every plan is used.
#![no_main]

use heapattach_process::addr::{Bias, ImageAddr, RemoteAddr};
use heapattach_entry::{Family, Hooked, Role, analyse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u64; 4], &[u8])| {
    let (addresses, file) = input;
    let hooked: Vec<Hooked<'_>> = addresses
        .iter()
        .enumerate()
        .map(|(i, &at)| Hooked {
            name: "f",
            // Half of them where small files have their code.
            address: ImageAddr::new(if i % 2 == 0 { at % 0x4000 } else { at }),
            size: if i == 1 { 40 } else { 0 },
            family: if i == 3 { Family::Map } else { Family::Heap },
            keeps_flags: i == 3,
        })
        .collect();
    let (bias, to) = (Bias::new(0x7f12_3456_7000), RemoteAddr::new(0x7f12_3000_0000));
    for role in [Role::Library, Role::Executable] {
        let Ok(analysis) = analyse(file, &hooked, role) else { continue };
        for plan in analysis.entries().iter().filter_map(|entry| entry.plan.as_ref().ok()) {
            let _ = plan.relocate(bias, to, |_| Some(to));
            let _ = (plan.patch(bias, to), plan.old(), plan.window_at(bias));
        }
        for bypass in analysis.bypasses(|_| true) {
            let _ = (bypass.rewrite(bias, to), bypass.field(bias));
        }
    }
});
