//! From the addresses of stacks to the code of a ledger.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use serde::{Deserialize, Serialize};

use heapattach_ledger::{Function, Line, Location, Module};
use heapattach_symbols::{Known, Symbols, UNKNOWN};
use heapattach_text::printable::printable;

/// Code that stacks lead through.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Code {
    /// The modules, in the order of the list they came from; then one for what is in none.
    pub modules: Vec<Module>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Addresses, ascending.
    pub locations: Vec<Location>,
}

/// Code that is being named.
struct Naming<'a> {
    code: Code,
    symbols: &'a mut Symbols,
    /// The functions so far.
    known: HashMap<Function, u32>,
}

impl Code {
    /// Names these addresses, each one that a call returns to.
    pub fn of(addresses: impl Iterator<Item = u64> + Clone, symbols: &mut Symbols) -> Self {
        Self::of_counting(addresses, symbols, &AtomicUsize::new(0))
    }

    /// The same; meanwhile `done` tells how many have been looked for.
    pub fn of_counting(
        addresses: impl Iterator<Item = u64> + Clone,
        symbols: &mut Symbols,
        done: &AtomicUsize,
    ) -> Self {
        symbols.prepare_returns(addresses.clone());
        let mut all: Vec<u64> = addresses.collect();
        all.sort_unstable();
        all.dedup();
        let modules = modules(&symbols.known());
        let code = Self { modules, ..Self::default() };
        let mut naming = Naming { code, symbols, known: HashMap::new() };
        for address in all {
            naming.add(address);
            // Only a number that is shown: nothing depends on it.
            done.fetch_add(1, Relaxed);
        }
        naming.code
    }

    /// Of these modules no code was seen.
    pub fn without_names(known: &[Known]) -> Self {
        Self { modules: modules(known), ..Self::default() }
    }

    /// The location of an address.
    pub fn find(&self, address: u64) -> Option<u32> {
        let index = self.locations.binary_search_by_key(&address, |known| known.address).ok()?;
        u32::try_from(index).ok()
    }

    /// Whether the byte before an address, where the call must be, is in a module, or in code that was
    /// generated where no module was when they were last looked at.
    pub fn is_code(&self, location: u32) -> bool {
        let Some(location) = self.locations.get(location as usize) else { return false };
        let function = |line: &Line| self.functions.get(line.function as usize);
        location.module as usize + 1 < self.modules.len()
            || location.lines.iter().filter_map(function).any(|function| function.is_named)
    }

    /// Whether a recording can say so: every index is within its table, and addresses ascend.
    pub fn is_sound(&self) -> bool {
        let within = |index: u32, len: usize| (index as usize) < len;
        self.functions.iter().all(|function| within(function.module, self.modules.len()))
            && self.locations.is_sorted_by(|a, b| a.address < b.address)
            && self.locations.iter().all(|location| {
                let named = |line: &Line| within(line.function, self.functions.len());
                within(location.module, self.modules.len())
                    && !location.lines.is_empty()
                    && location.lines.iter().all(named)
            })
    }

    /// Makes all text in it fit for a terminal.
    pub fn clean(&mut self) {
        self.modules.iter_mut().for_each(|module| module.path = printable(&module.path));
        for function in &mut self.functions {
            function.name = printable(&function.name);
            function.file = printable(&function.file);
        }
    }
}

fn modules(known: &[Known]) -> Vec<Module> {
    let module = |known: &Known| Module {
        path: printable(&known.path),
        build_id: known.build_id.clone(),
        start: known.pieces.first().map_or(0, |piece| piece.start),
        end: known.pieces.last().map_or(0, |piece| piece.end),
        bias: 0,
        file_offset: known.pieces.first().map(|piece| piece.file_offset),
    };
    let unknown = Module { path: UNKNOWN.to_owned(), ..Module::default() };
    known.iter().map(module).chain([unknown]).collect()
}

impl Naming<'_> {
    fn add(&mut self, address: u64) {
        let pc = address.saturating_sub(1);
        let nowhere = self.code.modules.len() - 1;
        let module = self.symbols.module_at(pc).filter(|&at| at < nowhere).unwrap_or(nowhere);
        let calls = self.symbols.calls(pc);
        let offset = calls.last().map_or(pc, |call| call.offset);
        if let Some(own) = self.code.modules.get_mut(module)
            && own.bias == 0
            && module < nowhere
        {
            own.bias = pc.wrapping_sub(offset);
        }
        let module = u32::try_from(module).unwrap_or_default();
        let lines = calls.iter().map(|call| {
            let name = call.function.as_ref().map(|name| printable(name));
            let is_named = name.is_some();
            let name = name.unwrap_or_else(|| {
                let file = call.module.rsplit('/').next().unwrap_or(&call.module);
                format!("{file}+{:#x}", call.offset)
            });
            let file = call.file.as_ref().map(|file| printable(file)).unwrap_or_default();
            (Function { name, file, module, is_named, ..Function::default() }, call.line)
        });
        let lines: Vec<_> = lines.collect();
        let lines = lines.into_iter().map(|(function, line)| {
            let function = self.number_of(function);
            Line { function, line }
        });
        let lines = lines.collect();
        let offset = offset.saturating_add(1);
        self.code.locations.push(Location { address, module, offset, lines });
    }

    fn number_of(&mut self, function: Function) -> u32 {
        let functions = &mut self.code.functions;
        *self.known.entry(function).or_insert_with_key(|function| {
            functions.push(function.clone());
            u32::try_from(functions.len() - 1).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        process::{Command, Stdio},
    };

    use heapattach_process::proc::{Process, maps};

    use super::*;
    use heapattach_test_folder::Folder;
    use heapattach_test_folder::skip;

    const CURE: &str = "apt-get install lld, or rustup component add rust-lld";

    /// The folder of the `ld.lld` that comes with the compiler of this program.
    fn own_lld() -> Option<String> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let told = Command::new(rustc).args(["--print", "target-libdir"]).output().ok()?;
        let folder = String::from_utf8(told.stdout).ok()?;
        Some(format!("{}/../bin/gcc-ld", folder.trim_end()))
    }

    /// lld gives code another address than it has an offset in the file.
    #[test]
    fn a_program_of_lld_has_its_code_where_its_file_says() {
        let folder = Folder::new("lld");
        let source = "#include <stdio.h>\nint main(void) { puts(\"ready\"); fflush(stdout); \
                      return getchar(); }\n";
        std::fs::write(folder.0.join("program.c"), source).unwrap();
        let own = own_lld().map_or(String::new(), |folder| format!(" -B{folder}"));
        let linked = |search: &str| {
            let link = format!("gcc{search} -fuse-ld=lld -o program program.c");
            folder.can_run(&link)
        };
        if !linked("") && !linked(&own) {
            return skip("no lld here", CURE);
        }
        let mut command = Command::new(folder.0.join("program"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        let process = Process::open(child.id().cast_signed()).unwrap();
        let text = process.read("maps").unwrap();
        let maps = maps::parse(&text).unwrap();
        let own: Vec<_> =
            maps.iter().filter(|m| m.file().is_some_and(|f| f.ends_with("program"))).collect();
        let code = own.iter().find(|mapping| mapping.executable).unwrap();
        let (start, offset) = (code.range.start.get(), code.file_offset);
        let main = own[0].range.start.get() + folder.offset_of("program", "main");
        let mut symbols = Symbols::new();
        symbols.note(&process, &maps);
        let code = Code::of([main + 1].into_iter(), &mut symbols);
        drop(child.stdin.take());
        child.wait().unwrap();
        let module = &code.modules[code.locations[0].module as usize];
        assert_eq!((module.start, module.offset_of_start()), (start, offset));
        assert_ne!(module.start - module.bias, offset, "lld is no test of this any more");
    }

    #[test]
    fn an_address_of_ours_has_its_function_and_its_module() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let mut symbols = Symbols::new();
        let text = process.read("maps").unwrap();
        symbols.note(&process, &maps::parse(&text).unwrap());
        let here = modules as *const () as u64 + 1;
        let again = [here, 7, here];
        let code = Code::of(again.into_iter(), &mut symbols);
        assert!(code.is_sound());
        assert_eq!(code.locations.len(), 2);
        let found = code.find(here).unwrap();
        let location = &code.locations[found as usize];
        let line = location.lines.last().unwrap();
        assert!(code.functions[line.function as usize].name.ends_with("modules"));
        assert!(code.is_code(found) && !code.is_code(code.find(7).unwrap()));
        let module = &code.modules[location.module as usize];
        assert_eq!(location.address, module.bias + location.offset);
        // With only what a recording keeps the same is found, if the build is known.
        let mut elsewhere = Symbols::of(&symbols.known());
        let there = Code::of([here].into_iter(), &mut elsewhere);
        let name = &there.functions[0].name;
        assert!(module.build_id.is_empty() || name.ends_with("modules"), "{name}");
    }
}
