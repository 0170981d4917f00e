//! Whether a program checks itself for leaks: built with a sanitizer, which has an allocator of its
//! own, and a check for which no other process may be the tracer.

use crate::module::{find_symbols, symbol_file::SymbolFile, tables::Budget};
use crate::{hook::survey::first_mapping_of, trace::target::Target};
use heapattach_process::{
    addr::RemoteAddr,
    linker::{LinkError, Rendezvous, static_program},
    proc::maps,
    told_loader,
};

/// The libraries, and what each is called.
const LIBRARIES: [(&str, &str); 5] = [
    ("asan", "AddressSanitizer"),
    ("lsan", "LeakSanitizer"),
    ("tsan", "ThreadSanitizer"),
    ("hwasan", "HWAddressSanitizer"),
    ("msan", "MemorySanitizer"),
];

/// What each defines where it is linked into the program.
const MARKS: [(&[u8], &str); 5] = [
    (b"__asan_init", "AddressSanitizer"),
    (b"__lsan_init", "LeakSanitizer"),
    (b"__tsan_init", "ThreadSanitizer"),
    (b"__hwasan_init", "HWAddressSanitizer"),
    (b"__msan_init", "MemorySanitizer"),
];

/// What the program carries, by its name.
pub fn of(target: &Target) -> Option<&'static str> {
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).unwrap_or_default();
    let mut files = maps.iter().filter_map(|mapping| mapping.file()?.file_name()?.to_str());
    files.find_map(of_library).or_else(|| {
        let marks = MARKS.map(|(mark, _)| mark);
        let found = functions(target, &marks);
        found.iter().zip(MARKS).find_map(|(at, (_, name))| at.and(Some(name)))
    })
}

/// `libasan.so.8`, `libclang_rt.asan-x86_64.so`.
fn of_library(file: &str) -> Option<&'static str> {
    let rest = file.strip_prefix("libclang_rt.").or_else(|| file.strip_prefix("lib"))?;
    let (name, _) = rest.split_once(['.', '-'])?;
    LIBRARIES.iter().find(|(library, _)| *library == name).map(|(_, name)| *name)
}

/// Where the program or one of its libraries defines these functions.
pub fn functions(target: &Target, names: &[&[u8]]) -> Vec<Option<RemoteAddr>> {
    let mut found = vec![None; names.len()];
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).unwrap_or_default();
    let Ok(auxv) = told_loader::auxv(&target.process) else { return found };
    let links = match Rendezvous::find(&target.memory, &auxv, &maps) {
        Ok(lists) => lists.modules(&target.memory),
        Err(LinkError::Static) => {
            static_program(&target.memory, &auxv, &maps).map(|link| vec![link])
        }
        Err(error) => Err(error),
    };
    let links = links.unwrap_or_default();
    let mut add = |number: usize, at: Option<RemoteAddr>| {
        if let Some(found) = found.get_mut(number) {
            *found = found.or(at);
        }
    };
    for link in links.iter().filter(|link| link.namespace == 0) {
        let dynamic = find_symbols(&target.memory, link, names).unwrap_or_default();
        dynamic.into_iter().enumerate().for_each(|(number, at)| add(number, at));
        let mapping = first_mapping_of(&maps, link).filter(|_| link.is_executable());
        let symbols = mapping.and_then(|mapping| {
            let mut budget = Budget::default();
            SymbolFile::find(&target.process, &target.memory, mapping, false, &mut budget)
        });
        for symbol in symbols.iter().flat_map(SymbolFile::functions) {
            if let Some(number) = names.iter().position(|name| *name == symbol.name) {
                add(number, Some(link.bias().place(symbol.at)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        for (file, name) in [
            ("libasan.so.8", Some("AddressSanitizer")),
            ("liblsan.so.0", Some("LeakSanitizer")),
            ("libclang_rt.hwasan-x86_64.so", Some("HWAddressSanitizer")),
            ("libasan_helper.so", None),
            ("libubsan.so.1", None),
            ("asan.so", None),
        ] {
            assert_eq!(of_library(file), name, "{file}");
        }
    }
}
