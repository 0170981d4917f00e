//! Every function of a module is found by whichever way its tables are read.

use std::{
    path::PathBuf,
    process::{Child, Command},
};

use super::*;
use heapattach_entry::user_hooks::parse;
use heapattach_process::{
    linker::Rendezvous,
    proc::{Process, maps},
};

/// The modules of this very process.
fn own() -> (Memory, Vec<Link>) {
    let process = Process::open(std::process::id().cast_signed()).unwrap();
    let text = process.read("maps").unwrap();
    let maps = maps::parse(&text).unwrap();
    let memory = Memory::open(&process).unwrap();
    let lists = Rendezvous::find(&memory, &process.auxv().unwrap(), &maps).unwrap();
    let links = lists.modules(&memory).unwrap();
    (memory, links)
}

/// Where the user names a function all symbols are looked at.
fn thorough() -> UserHooks {
    UserHooks::new(vec![parse("no_such_function=malloc").unwrap()], |name| {
        String::from_utf8_lossy(name).into_owned()
    })
}

#[test]
fn what_is_found_by_name_is_what_is_found_among_all_symbols() {
    let (memory, links) = own();
    assert!(links.iter().any(|link| link.name.ends_with(b"libc.so.6")));
    for link in &links {
        let read = |asked| Module::read(&memory, link, asked, &mut Budget::default()).unwrap();
        let name = String::from_utf8_lossy(&link.name);
        assert_eq!(read(UserHooks::default()), read(thorough()), "{name}");
    }
    let libc = links.iter().find(|link| link.name.ends_with(b"libc.so.6")).unwrap();
    let module = Module::read(&memory, libc, UserHooks::default(), &mut Budget::default()).unwrap();
    assert!(module.definitions.iter().any(|found| found.function.name == "malloc"));
    let names: [&[u8]; 3] = [b"malloc", b"no_such_function", b"free"];
    let found = find_symbols(&memory, libc, &names).unwrap();
    assert!(found[0].is_some() && found[1].is_none() && found[2].is_some());
}

/// However slow the machine is.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

/// Another process, with a library of many functions in it.
struct Large {
    child: Child,
    folder: PathBuf,
}

impl Large {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("heapattach-large-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let function =
            |n| format!(".globl number_{n}\n.type number_{n},@function\nnumber_{n}: ret\n");
        let source: String = (0..20_000).map(function).collect();
        std::fs::write(folder.join("large.s"), source).unwrap();
        let mut cc = Command::new("cc");
        let cc =
            cc.current_dir(&folder).args(["-shared", "-nostdlib", "-o", "large.so", "large.s"]);
        assert!(cc.status().expect("there is a C compiler").success());
        let mut sleep = Command::new("sleep");
        let child = sleep.arg("1000").env("LD_PRELOAD", folder.join("large.so")).spawn().unwrap();
        Self { child, folder }
    }

    /// The library, as soon as it is loaded.
    fn library(&self) -> (Memory, Link) {
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(found) = self.loaded() {
                return found;
            }
            std::thread::yield_now();
        }
        panic!("it was not loaded within {PATIENCE:?}");
    }

    fn loaded(&self) -> Option<(Memory, Link)> {
        let process = Process::open(self.child.id().cast_signed()).ok()?;
        let text = process.read("maps").ok()?;
        let memory = Memory::open(&process).ok()?;
        let lists = Rendezvous::find(&memory, &process.auxv().ok()?, &maps::parse(&text).ok()?);
        let links = lists.ok()?.modules(&memory).ok()?;
        let link = links.into_iter().find(|link| link.name.ends_with(b"large.so"))?;
        // The loader makes the addresses of its tables whole before it says that it is done.
        Module::read(&memory, &link, thorough(), &mut Budget::default()).ok()?;
        find_symbol(&memory, &link, b"number_1").ok()??;
        Some((memory, link))
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn of_a_large_module_few_pages_are_read() {
    let large = Large::new();
    let (memory, link) = large.library();
    let spent = |asked| {
        let mut budget = Budget::default();
        Module::read(&memory, &link, asked, &mut budget).unwrap();
        budget.spent()
    };
    let (by_name, among_all) = (spent(UserHooks::default()), spent(thorough()));
    assert!(among_all > 500_000, "{among_all}");
    assert!(by_name < among_all / 2, "{by_name} of {among_all} bytes");
}
