//! A program that its dynamic loader was told to run (`ld-linux-x86-64.so.2 ./program`): the kernel knows of the
//! loader alone, whose list of modules says where the program is.

use nix::errno::Errno;

use crate::{
    addr::{Bias, RemoteAddr},
    linker::{Headers, PT_DYNAMIC, PT_INTERP, dynamic_entries},
    little_endian::{u32_at, u64_at},
    memory::Memory,
    proc::{
        Process,
        auxv::Auxv,
        maps::{self, Mapping},
    },
};

const DT_STRTAB: u64 = goblin::elf::dynamic::DT_STRTAB;
const DT_SYMTAB: u64 = goblin::elf::dynamic::DT_SYMTAB;
const DT_DEBUG: u64 = goblin::elf::dynamic::DT_DEBUG;

/// What glibc's loader exports, and musl's: the record of its lists, and what leads to that.
const RECORD: &[u8] = b"_r_debug\0";
const LEADS_TO_RECORD: &[u8] = b"_dl_debug_addr\0";

/// Symbols of a loader, and bytes of their names.
const MOST_SYMBOLS: u64 = 1 << 14;
const SYMBOL: usize = 24;
const NAMES: usize = 1 << 17;

/// What the kernel tells of a program; of one that a loader was told to run, what it would have told.
///
/// # Errors
/// `EACCES` where ptrace would be refused too.
pub fn auxv(process: &Process) -> Result<Auxv, Errno> {
    let told = process.auxv()?;
    if told.interpreter.is_some() || told.phdr.is_none() {
        return Ok(told);
    }
    let found = || {
        let memory = Memory::open(process).ok()?;
        let text = process.read("maps").ok()?;
        of_loader(&memory, told, &maps::parse(&text).ok()?)
    };
    Ok(found().unwrap_or(told))
}

/// `None` if the program is no loader.
fn of_loader(memory: &Memory, told: Auxv, maps: &[Mapping<'_>]) -> Option<Auxv> {
    let headers = Headers::read(memory, &told, maps).ok()?;
    let dynamic = headers.address(PT_DYNAMIC).filter(|_| headers.address(PT_INTERP).is_none())?;
    let leads = leads_to_record(memory, headers.bias, headers.bias.place(dynamic))?;
    let loader = Auxv { interpreter: Some(RemoteAddr::new(headers.bias.get())), ..told };
    let record = match leads {
        Leads::Is(record) => Some(record),
        Leads::At(at) => memory.word(at).ok().map(RemoteAddr::new),
    };
    // Version, first module.
    let first = record.and_then(|record| memory.word(record.checked_add(8)?).ok());
    match first.filter(|first| *first != 0) {
        Some(first) => program(memory, RemoteAddr::new(first), loader, maps),
        // It has loaded nothing yet, nor relocated itself.
        None => Some(loader),
    }
}

/// The record of a loader's lists, or where that is said.
enum Leads {
    Is(RemoteAddr),
    At(RemoteAddr),
}

/// `None` if it is no loader.
fn leads_to_record(memory: &Memory, bias: Bias, dynamic: RemoteAddr) -> Option<Leads> {
    let entries = dynamic_entries(memory, dynamic).ok()?;
    let value = |wanted| entries.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
    if value(DT_DEBUG).is_some() {
        return None;
    }
    // A loader relocates its own section, or not.
    let place =
        |value: u64| if value < bias.get() { bias.get().wrapping_add(value) } else { value };
    let (symbols, names) = (place(value(DT_SYMTAB)?), place(value(DT_STRTAB)?));
    // Names come behind symbols.
    let count = (names.checked_sub(symbols)? / SYMBOL as u64).min(MOST_SYMBOLS);
    let length = usize::try_from(count).ok()? * SYMBOL;
    let symbols = memory.read_vec(RemoteAddr::new(symbols), length).ok()?;
    let mut bytes = vec![0; NAMES];
    let read = memory.read_some(RemoteAddr::new(names), &mut bytes).ok()?;
    let names = &bytes[..read];
    let find = |wanted: &[u8]| {
        let is_it = |symbol: &&[u8]| {
            let name = u32_at(symbol, 0).and_then(|name| usize::try_from(name).ok());
            name.and_then(|name| names.get(name..)).is_some_and(|name| name.starts_with(wanted))
        };
        let symbol = symbols.chunks_exact(SYMBOL).find(is_it)?;
        Some(RemoteAddr::new(bias.get().wrapping_add(u64_at(symbol, 8)?)))
    };
    find(RECORD).map(Leads::Is).or_else(|| find(LEADS_TO_RECORD).map(Leads::At))
}

/// The first module of a loader is the program.
fn program(memory: &Memory, first: RemoteAddr, loader: Auxv, maps: &[Mapping<'_>]) -> Option<Auxv> {
    // l_addr, l_name, l_ld.
    let base = memory.word(first).ok()?;
    let dynamic = RemoteAddr::new(memory.word(first.checked_add(16)?).ok()?);
    let own = maps::covering(maps, dynamic)?;
    let is_begin = |map: &&Mapping<'_>| {
        map.file_offset == 0 && (map.device, map.inode) == (own.device, own.inode)
    };
    let begin = maps.iter().find(is_begin)?.range.start;
    let header = memory.read_vec(begin, 64).ok().filter(|header| header.starts_with(b"\x7fELF"))?;
    Some(Auxv {
        phdr: Some(begin.checked_add(u64_at(&header, 32)?)?),
        phnum: u64::from(u32_at(&header, 56)? & 0xffff),
        entry: Some(RemoteAddr::new(base.wrapping_add(u64_at(&header, 24)?))),
        ..loader
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = (self.0.kill(), self.0.wait());
        }
    }

    /// The loader that this process has, told to run a program that waits.
    #[test]
    fn the_program_that_a_loader_runs_is_found() {
        let own = Process::open(std::process::id().cast_signed()).unwrap();
        let text = own.read("maps").unwrap();
        let maps = maps::parse(&text).unwrap();
        let Some(base) = auxv(&own).unwrap().interpreter else { return };
        let loader = maps::covering(&maps, base).unwrap().label().to_owned();
        let mut command = Command::new(loader);
        let child = command.arg("/bin/cat").stdin(Stdio::piped()).spawn().unwrap();
        let running = Running(child);
        let process = Process::open(running.0.id().cast_signed()).unwrap();
        let is_cat = || {
            let auxv = auxv(&process).ok()?;
            let text = process.read("maps").ok()?;
            let maps = maps::parse(&text).ok()?;
            let program = maps::covering(&maps, auxv.phdr?)?.label().to_string_lossy().into_owned();
            let is_whole = auxv.interpreter.is_some() && auxv.entry.is_some();
            (is_whole && program.contains("cat")).then_some(program)
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while is_cat().is_none() {
            assert!(std::time::Instant::now() < deadline, "{:?}", auxv(&process));
            std::thread::yield_now();
        }
    }
}
