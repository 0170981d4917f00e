//! The C library's functions around loading: the four that an errand needs, and all that must not
//! be under way when one begins; those around threads and forks, which must not be in the thread that runs one.

use std::ops::Range;

use goblin::elf::{
    dynamic::{DT_STRSZ, DT_STRTAB, DT_SYMTAB},
    sym::STT_FUNC,
};

use crate::module::tables::{Budget, SYMBOL_SIZE, Tables, name_at};
use crate::{hook::survey::Survey, trace::target::Target};
use heapattach_process::{
    addr::{ImageAddr, RemoteAddr},
    image::images,
    linker::{Link, dynamic_entries},
    little_endian::{u32_at, u64_at},
    memory::Memory,
    proc::maps::Mapping,
    told_loader,
};

/// A thread in one of these holds the loader's locks, or will.
const LOADING: [&[u8]; 10] = [
    b"dlopen",
    b"dlmopen",
    b"dlclose",
    b"dlsym",
    b"dlvsym",
    b"dladdr",
    b"dladdr1",
    b"dlinfo",
    b"dlerror",
    b"dl_iterate_phdr",
];

/// A thread that allocates within one of these may hold the locks of the C library's that starting a thread takes;
/// within a fork, those of the allocator's own.
const THREADS: [&[u8]; 12] = [
    b"pthread_create",
    b"pthread_join",
    b"pthread_tryjoin_np",
    b"pthread_timedjoin_np",
    b"pthread_detach",
    b"pthread_getattr_np",
    b"pthread_getattr_default_np",
    b"pthread_setattr_default_np",
    b"pthread_atfork",
    b"__register_atfork",
    b"fork",
    b"_Fork",
];

const ERRNO: &[u8] = b"__errno_location";

/// Where they are.
#[derive(Clone, Debug)]
pub struct Functions {
    /// `dlopen`.
    pub open: RemoteAddr,
    /// `dlclose`.
    pub close: RemoteAddr,
    /// `dlerror`.
    pub error: RemoteAddr,
    /// `__errno_location`.
    pub errno: RemoteAddr,
    /// Nothing is ever unloaded: musl's `dlclose` does nothing.
    pub keeps: bool,
    /// Code that no thread may be in, nor return to, when another calls the loader.
    pub forbidden: Vec<Range<RemoteAddr>>,
    /// Code that the thread which makes the call may not return to.
    pub busy: Vec<Range<RemoteAddr>>,
}

impl Functions {
    /// Finds them in the C library of the program's own namespace; `None` if one is missing. What
    /// other modules export under these names stands in between, and may have ideas of its own.
    pub fn find(target: &Target, survey: &Survey, maps: &[Mapping<'_>]) -> Option<Self> {
        let own = survey.loaded.iter().map(|l| &l.link).filter(|l| l.namespace == 0);
        let libraries = own.filter(|link| is_c_library(&link.name));
        let found: Vec<Found> =
            libraries.flat_map(|link| functions_of(&target.memory, link)).collect();
        let at = |name: &[u8]| found.iter().find(|f| f.name == name).map(|f| f.range.start);
        let ranges = |names: &[&[u8]]| -> Vec<_> {
            found.iter().filter(|f| names.contains(&f.name)).map(|f| f.range.clone()).collect()
        };
        let mut forbidden = ranges(&LOADING);
        let busy = ranges(&THREADS);
        let open = at(b"dlopen")?;
        let loaders: Vec<_> = loader(target, maps).collect();
        let keeps = loaders.iter().any(|code| code.contains(&open));
        if !keeps {
            forbidden.extend(loaders);
        }
        Some(Self {
            open,
            keeps,
            close: at(b"dlclose")?,
            error: at(b"dlerror")?,
            errno: at(ERRNO)?,
            forbidden,
            busy,
        })
    }

    /// Whether `word` leads into what must not be under way.
    pub fn is_forbidden(&self, word: u64) -> bool {
        contains(&self.forbidden, word)
    }

    /// Whether `word` leads into what the thread that makes the call may not be in.
    pub fn is_busy(&self, word: u64) -> bool {
        contains(&self.busy, word)
    }
}

fn contains(ranges: &[Range<RemoteAddr>], word: u64) -> bool {
    ranges.iter().any(|range| range.contains(&RemoteAddr::new(word)))
}

/// The code of the dynamic loader. With musl it is the C library, and contains all of that.
fn loader(target: &Target, maps: &[Mapping<'_>]) -> impl Iterator<Item = Range<RemoteAddr>> {
    let base = told_loader::auxv(&target.process).ok().and_then(|auxv| auxv.interpreter);
    let images = images(&target.memory, maps).into_iter();
    images.filter(move |image| Some(image.start) == base).map(|image| image.code)
}

/// glibc's `libc.so.6`, before 2.34 also `libdl.so.2` and `libpthread.so.0`; musl's `libc.so`, or by its loader's name.
pub(super) fn is_c_library(path: &[u8]) -> bool {
    const STARTS: [&[u8]; 8] = [
        b"libc.so",
        b"libc-2.",
        b"libdl.so",
        b"libdl-2.",
        b"libpthread.so",
        b"libpthread-2.",
        b"ld-musl-",
        b"libc.musl-",
    ];
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
    STARTS.iter().any(|start| name.starts_with(start))
}

struct Found {
    name: &'static [u8],
    range: Range<RemoteAddr>,
}

/// Those that `link` defines; none if its tables cannot be read.
fn functions_of(memory: &Memory, link: &Link) -> Vec<Found> {
    let mut budget = Budget::default();
    let mut read = || {
        let entries = dynamic_entries(memory, link.dynamic)?;
        let mut tables = Tables::new(memory, link.base, &entries, &mut budget);
        let strings = tables.bytes(DT_STRTAB, tables.number(DT_STRSZ))?;
        let count = tables.symbol_count()?;
        let symbols = tables.bytes(DT_SYMTAB, count * SYMBOL_SIZE as u64)?;
        Ok::<_, nix::errno::Errno>((strings, symbols))
    };
    let Ok((strings, symbols)) = read() else { return Vec::new() };
    let function = |symbol: &[u8]| {
        let name = name_at(&strings, u32_at(symbol, 0))?;
        let name =
            LOADING.into_iter().chain(THREADS).chain([ERRNO]).find(|known| *known == name)?;
        let is_defined = symbol[6..8] != [0, 0] && symbol[4] & 0xf == STT_FUNC;
        let start = link.bias().place(ImageAddr::new(u64_at(symbol, 8)?));
        let size = u64_at(symbol, 16)?.clamp(1, MOST);
        is_defined.then(|| Found { name, range: start..start.offset(size) })
    };
    symbols.chunks_exact(SYMBOL_SIZE).filter_map(function).collect()
}

/// No function of these is longer.
const MOST: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_libraries_are_known_by_their_names() {
        for name in [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/libdl.so.2",
            "libc.so",
            "/lib/libpthread.so.0",
        ] {
            assert!(is_c_library(name.as_bytes()), "{name}");
        }
        assert!(is_c_library(b"/lib/ld-musl-x86_64.so.1"));
        for name in ["", "/lib/libcrypto.so.3", "/usr/lib/libasan.so.8", "/lib/libc++.so.1"] {
            assert!(!is_c_library(name.as_bytes()), "{name}");
        }
    }
}
