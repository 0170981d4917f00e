//! Memory of a process that never was: a loader's lists, a module, a home and a stub page, in a
//! sparse file whose offsets are the addresses. A test then lies in any word of it.

use std::{fs::File, os::unix::fs::FileExt};

use heapattach_entry::user_hooks::UserHooks;
use heapattach_injector::{
    detach::{Home, StubPage},
    inside::{Budget, Change, ChangeKind, Header, Module, ModuleRecord, find_symbol, identity_at},
};
use heapattach_process::{
    addr::RemoteAddr,
    linker::{Link, Rendezvous},
    memory::Memory,
    proc::{auxv::Auxv, maps},
};
use nix::sys::memfd::{MFdFlags, memfd_create};

const BASE: u64 = 0x10_0000;
const DYNAMIC: u64 = BASE + 0x1000;
const STRINGS: u64 = BASE + 0x2000;
const SYMBOLS: u64 = BASE + 0x2400;
const HASH: u64 = BASE + 0x2800;
const RELOCATIONS: u64 = BASE + 0x3000;
const LAZY: u64 = BASE + 0x3400;
const LISTS: u64 = BASE + 0x4000;
const HOME: u64 = 0x20_0000;
const STUBS: u64 = 0x30_0000;

/// Where there is something to lie about: start, and how many words.
const LIES: [(u64, u64); 10] = [
    (BASE, 30),
    (DYNAMIC, 26),
    (STRINGS, 4),
    (SYMBOLS, 12),
    (HASH, 6),
    (RELOCATIONS, 9),
    (LAZY, 6),
    (LISTS, 60),
    (HOME, 16),
    (STUBS, 16),
];

/// Values that overflow something.
const EXTREMES: [u64; 10] = [
    u64::MAX,
    u64::MAX - 7,
    i64::MAX as u64,
    i64::MAX as u64 + 1,
    0xffff_ffff,
    0x8000_0000,
    1 << 47,
    64 << 20,
    256 << 20,
    0,
];

/// The memory.
pub struct Fabric {
    file: File,
    memory: Memory,
}

/// What was found in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub modules: usize,
    pub definitions: usize,
    pub slots: usize,
    pub symbol: Option<u64>,
    pub home_changes: usize,
    pub home_modules: usize,
    pub stub: Option<u64>,
}

impl Fabric {
    /// Without a lie.
    pub fn new(gnu_hash: bool) -> Self {
        let file = File::from(memfd_create(c"fabric", MFdFlags::MFD_CLOEXEC).expect("memory"));
        let memory = Memory::of(file.try_clone().expect("a descriptor"));
        let fabric = Self { file, memory };
        fabric.write_module(gnu_hash);
        fabric.write_lists();
        fabric.write_home();
        let mut stubs = StubPage::create(&fabric.memory, RemoteAddr::new(STUBS)).expect("room");
        stubs.stub_for(&fabric.memory, RemoteAddr::new(0x1234)).expect("room");
        fabric.bytes(STUBS + 4095, &[0]);
        fabric
    }

    fn bytes(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).expect("room");
    }

    fn words(&self, at: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.bytes(at, &bytes);
    }

    fn write_module(&self, gnu_hash: bool) {
        // Program headers: PT_PHDR and PT_DYNAMIC, with offset, address, and the rest unused.
        self.words(BASE + 0x40, &[6, 0x40, 0x40, 0, 0, 0, 0, 2, 0x1000, 0x1000, 0, 0, 0, 0]);
        let hash = if gnu_hash { 0x6fff_fef5 } else { 4 };
        let dynamic = [
            (5, STRINGS),
            (10, 64),
            (6, SYMBOLS),
            (hash, HASH),
            (7, RELOCATIONS),
            (8, 48),
            (23, LAZY),
            (2, 24),
            (21, LISTS),
            (0, 0),
        ];
        self.words(DYNAMIC, &dynamic.map(|(tag, value)| [tag, value]).concat());
        self.bytes(STRINGS, b"\0malloc\0free\0mine\0");
        // Symbols: none, malloc (wanted from elsewhere), free (defined here), mine.
        let symbol = |name: u64, section: u64, value| [name | 0x12 << 32 | section << 48, value, 8];
        let symbols =
            [[0, 0, 0], symbol(1, 0, 0), symbol(8, 9, 0x500), symbol(13, 9, 0x600)].concat();
        self.words(SYMBOLS, &symbols);
        if gnu_hash {
            // One bucket, first symbol 2, one word of filter, which lets all pass; the bucket begins at
            // 2, ends at 3.
            let hash = |name: &[u8]| {
                name.iter().fold(5381, |hash: u32, &b| hash.wrapping_mul(33).wrapping_add(b.into()))
            };
            let chain = [hash(b"free") & !1, hash(b"mine") | 1].map(u64::from);
            self.words(HASH, &[1 | 2 << 32, 1, u64::MAX, 2 | chain[0] << 32, chain[1]]);
        } else {
            self.words(HASH, &[1 | 4 << 32, 0]);
        }
        self.words(RELOCATIONS, &[0x5000, 1 << 32 | 6, 0, 0x5008, 2 << 32 | 1, 0]);
        self.words(LAZY, &[0x5010, 1 << 32 | 7, 0]);
        self.words(BASE + 0x5000, &[1, 2, 3]);
    }

    fn write_lists(&self) {
        let (first, second, name) = (LISTS + 0x100, LISTS + 0x140, LISTS + 0x1c0);
        self.words(LISTS, &[2, first, 0, 0, 0, LISTS + 0x80]);
        self.words(LISTS + 0x80, &[1, second, 0, 0, 0, 0]);
        self.words(first, &[BASE, name, DYNAMIC, 0]);
        self.words(second, &[BASE, name, DYNAMIC, 0]);
        self.bytes(name, b"/lib/of/nobody.so\0");
        self.bytes(BASE + 0x8000, &[0]);
    }

    fn write_home(&self) {
        let header = Header {
            session: 7,
            module_room: 4,
            change_room: 8,
            region: 4096,
            ..Header::default()
        };
        let Header { body_length, module_room, change_room, region, .. } = header;
        let length = Home::length_for(body_length, module_room, change_room, region);
        let mut home = Home::new(RemoteAddr::new(HOME), Header { length, ..header });
        home.write(&self.memory, &[0; 64]).expect("room");
        let record = ModuleRecord { base: BASE, dynamic: RemoteAddr::new(DYNAMIC), identity: 5 };
        home.note_modules(&self.memory, &[record]).expect("room");
        let change = Change {
            at: RemoteAddr::new(BASE + 0x5000),
            old: [1; 8],
            new: [2; 8],
            length: 8,
            kind: ChangeKind::Slot,
            module: 0,
        };
        home.note_changes(&self.memory, &[change, change]).expect("room");
        self.bytes(HOME + length - 1, &[0]);
    }

    /// Changes the word at `at`.
    pub fn set(&self, at: u64, word: u64) {
        self.words(at, &[word]);
    }

    /// Changes one word: `place` chooses which, `value` to what, `how` in what way.
    pub fn lie(&self, place: u16, value: u64, how: u8) {
        let words: u64 = LIES.iter().map(|(_, words)| words).sum();
        let mut index = u64::from(place) % words;
        for (start, words) in LIES {
            if index < words {
                let at = start + index * 8;
                let mut word = [0; 8];
                let _ = self.file.read_at(&mut word, at);
                let old = u64::from_le_bytes(word);
                let extreme = EXTREMES[usize::from(how) % EXTREMES.len()];
                let new = match how % 5 {
                    0 => value,
                    1 => extreme,
                    2 => old & 0xffff_ffff | extreme << 32,
                    3 => old & !0xffff_ffff | extreme & 0xffff_ffff,
                    // Somewhere else in the fabric: lists that meet, tables that overlap.
                    _ => BASE + value % 0x6000,
                };
                self.set(at, new);
                return;
            }
            index -= words;
        }
    }

    /// Uses everything that is read from a target's memory.
    pub fn explore(&self) -> Found {
        let memory = &self.memory;
        let mut found = Found::default();
        let auxv = Auxv { phdr: Some(RemoteAddr::new(BASE + 0x40)), phnum: 2, ..Auxv::default() };
        let map = b"00100000-00400000 r-xp 00000000 00:00 0\n";
        let maps = maps::parse(map).expect("a map");
        let lists = Rendezvous::find(memory, &auxv, &maps).and_then(|r| {
            let _ = r.is_consistent(memory);
            r.modules(memory)
        });
        let mut budget = Budget::default();
        // More than a few are copies of the same: what they hold is bounded elsewhere.
        for link in lists.unwrap_or_default().iter().take(8) {
            found.modules += 1;
            self.explore_module(link, &mut budget, &mut found);
        }
        if let Ok(home) = Home::open(memory, RemoteAddr::new(HOME)) {
            found.home_modules = home.modules(memory).map_or(0, |all| all.len());
            found.home_changes = home.changes(memory).map_or(0, |all| all.len());
            let _ = (home.end(), home.code(), home.stub_page(), home.trampoline(3), home.used());
            let _ = StubPage::open(memory, RemoteAddr::new(home.header().stubs));
        }
        let _ = Home::find(memory, &maps);
        if let Ok(stubs) = StubPage::open(memory, RemoteAddr::new(STUBS)) {
            found.stub = stubs.original_of(STUBS + 32).map(RemoteAddr::get);
            let _ = stubs.original_of(u64::MAX);
        }
        found
    }

    fn explore_module(&self, link: &Link, budget: &mut Budget, found: &mut Found) {
        let memory = &self.memory;
        if let Ok(module) = Module::read(memory, link, UserHooks::default(), budget) {
            found.definitions += module.definitions.len();
            found.slots += module.slots.len();
            let _ =
                module.slots.iter().map(|slot| memory.word(slot.at)).filter(Result::is_ok).count();
        }
        found.symbol = find_symbol(memory, link, b"mine").ok().flatten().map(RemoteAddr::get);
        let _ = identity_at(memory, link.dynamic);
    }
}
