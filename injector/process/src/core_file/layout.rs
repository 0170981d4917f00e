//! Where the bytes of each address are, and the map as the kernel would tell it.
//!
//! A line a run of memory that is wholly there or wholly missing; what is missing cannot be read.

use std::{collections::HashMap, fmt::Write, fs::File, ops::Range, path::Path};

use super::{
    Absent, PAGE, Piece, Source,
    headers::Load,
    is_zero,
    module::{Module, Permissions},
    notes::{MappedFile, Notes},
    read_at,
};
use crate::proc::auxv;

/// Addresses end there.
const ADDRESSES: u64 = 1 << 56;
/// In the auxiliary vector: the name of the program as a string on its stack.
const AT_EXECFN: u64 = 31;
/// The pages of the kernel's variables lie so close before its code.
const VVAR: u64 = 64 << 10;

/// What was made of headers and notes.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub pieces: Vec<Piece>,
    pub modules: Vec<File>,
    /// Where code of these is mapped.
    pub code: Vec<(Range<u64>, usize)>,
    pub maps: String,
    pub absent: Absent,
}

/// A part of memory with the same permissions, of one file or of none.
#[derive(Clone, Debug)]
struct Part {
    range: Range<u64>,
    /// Where its bytes are in the core, and how many.
    stored: Range<u64>,
    /// Of these so many are behind the end of the core.
    cut_off: u64,
    permissions: Option<Permissions>,
    file: Option<(usize, u64)>,
}

/// A line of the map.
struct Line {
    range: Range<u64>,
    permissions: Permissions,
    file: Option<(usize, u64)>,
}

struct Planner<'a> {
    core: &'a File,
    notes: &'a Notes,
    exe: Option<&'a Path>,
    /// The index of the file that is the program.
    program: Option<usize>,
    /// By path: an index into the modules, or why there is none.
    known: HashMap<&'a str, Result<usize, &'static str>>,
    modules: Vec<Module>,
    lines: Vec<Line>,
    plan: Plan,
}

/// Makes it.
pub(super) fn plan(
    core: &File,
    length: u64,
    loads: Vec<Load>,
    notes: &Notes,
    exe: Option<&Path>,
) -> Plan {
    let parts = parts(sound(loads, length), notes, length);
    let entry = notes.told(auxv::AT_ENTRY).or_else(|| notes.told(auxv::AT_PHDR));
    let program = entry.and_then(|at| notes.files.iter().position(|f| f.range.contains(&at)));
    let mut planner = Planner {
        core,
        notes,
        exe,
        program,
        known: HashMap::new(),
        modules: Vec::new(),
        lines: Vec::new(),
        plan: Plan::default(),
    };
    let heads = heads(&parts);
    parts.iter().for_each(|part| planner.add(part, &heads));
    planner.finish()
}

/// Segments that can be: ascending, none overlaps another in memory or in the file.
fn sound(mut loads: Vec<Load>, length: u64) -> Vec<(Load, u64)> {
    loads.sort_by_key(|load| load.offset);
    let mut behind = 0;
    let mut sound = Vec::new();
    for mut load in loads {
        let end = load.start.checked_add(load.size);
        if load.size == 0 || end.is_none_or(|end| end > ADDRESSES) {
            continue;
        }
        load.stored = load.stored.min(load.size);
        let promised = load.stored;
        if load.stored > 0 && load.offset < behind {
            // The bytes are another segment's.
            load.stored = 0;
        }
        let there = length.saturating_sub(load.offset).min(load.stored);
        behind = behind.max(load.offset.saturating_add(load.stored));
        load.stored = there;
        sound.push((load, promised - there));
    }
    sound.sort_by_key(|(load, _)| load.start);
    let mut last = 0;
    sound.retain(|(load, _)| {
        let is_behind = load.start >= last;
        last = last.max(load.start + load.size);
        is_behind
    });
    sound
}

/// Segments, cut where files begin and end, and mapped files that no segment tells of.
fn parts(loads: Vec<(Load, u64)>, notes: &Notes, length: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut covered: Vec<Range<u64>> = Vec::new();
    for (load, cut_off) in loads {
        let end = load.start + load.size;
        covered.push(load.start..end);
        let there = load.start + load.stored;
        let promised = there + cut_off;
        for (range, file) in divide(&(load.start..end), &notes.files) {
            let stored = load.offset.saturating_add(range.start - load.start);
            let bytes = there.clamp(range.start, range.end) - range.start;
            parts.push(Part {
                cut_off: promised.clamp(range.start, range.end) - range.start - bytes,
                stored: stored..stored.saturating_add(bytes).min(length.max(stored)),
                permissions: Some((load.readable, load.writable, load.executable)),
                range,
                file,
            });
        }
    }
    for (index, file) in notes.files.iter().enumerate() {
        for range in without(&file.range, &covered) {
            let offset = file.offset.saturating_add(range.start - file.range.start);
            let file = Some((index, offset));
            parts.push(Part { range, stored: 0..0, cut_off: 0, permissions: None, file });
        }
    }
    parts.retain(|part| part.range.end <= ADDRESSES);
    parts.sort_by_key(|part| part.range.start);
    parts
}

/// The number of a file, and an offset in it.
type InFile = (usize, u64);

/// A range, cut where files are; each part with its file and the offset in it.
fn divide(range: &Range<u64>, files: &[MappedFile]) -> Vec<(Range<u64>, Option<InFile>)> {
    let (mut parts, mut at) = (Vec::new(), range.start);
    let first = files.partition_point(|file| file.range.end <= range.start);
    for (index, file) in files.iter().enumerate().skip(first) {
        if file.range.start >= range.end {
            break;
        }
        let (start, end) = (file.range.start.max(at), file.range.end.min(range.end));
        parts.push((at..start, None));
        let offset = file.offset.saturating_add(start - file.range.start);
        parts.push((start..end, Some((index, offset))));
        at = end;
    }
    parts.push((at..range.end, None));
    parts.retain(|(part, _)| !part.is_empty());
    parts
}

/// What of a range is in none of these, which are sorted.
fn without(range: &Range<u64>, covered: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut parts, mut at) = (Vec::new(), range.start);
    let first = covered.partition_point(|one| one.end <= range.start);
    for one in covered[first..].iter().take_while(|one| one.start < range.end) {
        parts.push(at..one.start.max(at));
        at = at.max(one.end.min(range.end));
    }
    parts.push(at..range.end);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Of the beginnings of files: where the core has them. By the index of the file.
fn heads(parts: &[Part]) -> Vec<(usize, u64, Range<u64>)> {
    let head = |part: &Part| match part.file {
        Some((index, 0)) if !part.stored.is_empty() => {
            Some((index, part.range.start, part.stored.clone()))
        }
        _ => None,
    };
    parts.iter().filter_map(head).collect()
}

impl<'a> Planner<'a> {
    fn add(&mut self, part: &Part, heads: &[(usize, u64, Range<u64>)]) {
        let stored = part.stored.end - part.stored.start;
        let (range, middle) = (&part.range, part.range.start + stored);
        let mut permissions = part.permissions.unwrap_or((true, false, false));
        let module = match part.file {
            Some(file) if middle < range.end => Some(self.module(file.0, heads)),
            _ => None,
        };
        if let (None, Some(Ok(module)), Some((_, offset))) = (part.permissions, module, part.file) {
            permissions = self.modules[module].permissions(offset);
        }
        // gdb writes what nothing may be read of as zeroes that may be.
        if part.file.is_none() && permissions == (true, false, false) && self.is_zero(&part.stored)
        {
            permissions = (false, false, false);
        }
        // Names are looked for in the file also where the core has all of the code.
        if let Some((index, _)) = part.file.filter(|_| permissions.2)
            && let Ok(module) = self.module(index, heads)
        {
            self.plan.code.push((range.clone(), module));
        }
        if stored > 0 && permissions != (false, false, false) {
            let source = Source::Core;
            let piece = Piece { range: range.start..middle, source, offset: part.stored.start };
            self.plan.pieces.push(piece);
        }
        if stored > 0 {
            self.line(range.start..middle, permissions, part.file.map(|file| (file, 0)));
        }
        let rest = middle..range.end;
        if rest.is_empty() {
            return;
        }
        let file = part.file.map(|file| (file, stored));
        // What was cut off may have been written to. What was left out was not: it would be in the core.
        let is_whole = part.cut_off == 0;
        match (module, part.file) {
            (Some(Ok(module)), Some((_, offset))) if is_whole => {
                let offset = offset.saturating_add(stored);
                let length = self.modules[module].bytes.saturating_sub(offset);
                let end = rest.end.min(rest.start.saturating_add(length));
                if rest.start < end {
                    let source = Source::Module(module);
                    self.plan.pieces.push(Piece { range: rest.start..end, source, offset });
                    self.line(rest.start..end, permissions, file);
                }
                // Behind the end of a file there is nothing that could be read.
                if end < rest.end {
                    let file = file.map(|(file, from)| (file, from + (end - rest.start)));
                    self.line(end..rest.end, (false, permissions.1, permissions.2), file);
                }
            }
            (module, _) => {
                let why = match module {
                    Some(Err(why)) => why,
                    _ => "the core is cut off",
                };
                self.missing(part, &rest, permissions, why);
                self.line(rest, (false, permissions.1, permissions.2), file);
            }
        }
    }

    /// Whether a part of the core has nothing but zeroes, and has anything.
    fn is_zero(&self, stored: &Range<u64>) -> bool {
        let mut buffer = vec![0; 256 << 10];
        let mut at = stored.start;
        while at < stored.end {
            let rest = usize::try_from(stored.end - at).unwrap_or(usize::MAX);
            let length = rest.min(buffer.len());
            let read = read_at(self.core, at, &mut buffer[..length]);
            if read == 0 || !is_zero(&buffer[..read]) {
                return false;
            }
            at += read as u64;
        }
        !stored.is_empty()
    }

    /// Counts what is missing.
    fn missing(
        &mut self,
        part: &Part,
        rest: &Range<u64>,
        permissions: Permissions,
        why: &'static str,
    ) {
        let bytes = rest.end - rest.start;
        let is_kernels = part.file.is_none() && self.is_kernels(rest, permissions);
        let absent = &mut self.plan.absent;
        absent.cut_off = absent.cut_off.saturating_add(part.cut_off);
        if !permissions.0 {
            return;
        }
        match part.file {
            Some((index, _)) => absent.add_file(&self.notes.files[index].path, bytes, why),
            None if is_kernels => return,
            None => {
                absent.left_out = absent.left_out.saturating_add(bytes - part.cut_off.min(bytes));
            }
        }
        absent.was_writable |= permissions.1 && (part.file.is_none() || part.cut_off > 0);
    }

    /// The kernel's variables, which lie before its code and are in no core.
    fn is_kernels(&self, range: &Range<u64>, permissions: Permissions) -> bool {
        let code = self.notes.told(auxv::AT_SYSINFO_EHDR);
        let is_before = |at: u64| range.end <= at && at - range.end < VVAR;
        !permissions.1 && code.is_some_and(is_before)
    }

    /// The module that a mapped file is of.
    fn module(
        &mut self,
        index: usize,
        heads: &[(usize, u64, Range<u64>)],
    ) -> Result<usize, &'static str> {
        let path = self.notes.files[index].path.as_str();
        if let Some(known) = self.known.get(path) {
            return *known;
        }
        let is_head = |head: &&(usize, u64, Range<u64>)| self.notes.files[head.0].path == path;
        let mut bytes = Vec::new();
        if let Some((_, _, stored)) = heads.iter().find(is_head) {
            bytes.resize(usize::try_from((stored.end - stored.start).min(PAGE)).unwrap_or(0), 0);
            let read = read_at(self.core, stored.start, &mut bytes);
            bytes.truncate(read);
        }
        let is_program = self.program.is_some_and(|own| self.notes.files[own].path == path);
        let named = self.exe.filter(|_| is_program);
        let opened = Module::open(named.unwrap_or(Path::new(path)), &bytes, named.is_some());
        let module = opened.map(|module| {
            self.modules.push(module);
            self.modules.len() - 1
        });
        self.known.insert(path, module);
        module
    }

    fn line(
        &mut self,
        range: Range<u64>,
        permissions: Permissions,
        file: Option<((usize, u64), u64)>,
    ) {
        let file = file.map(|((index, offset), more)| (index, offset.saturating_add(more)));
        self.lines.push(Line { range, permissions, file });
    }

    fn finish(mut self) -> Plan {
        let mut plan = std::mem::take(&mut self.plan);
        let heap = heap(&self.lines, self.notes, self.program);
        let code = self.notes.told(auxv::AT_SYSINFO_EHDR);
        let name = self.notes.told(AT_EXECFN);
        let has = |range: &Range<u64>, at: Option<u64>| at.is_some_and(|at| range.contains(&at));
        let mut inodes: HashMap<&str, usize> = HashMap::new();
        for (number, line) in self.lines.iter().enumerate() {
            let Line { range, permissions: (r, w, x), file } = line;
            let path = file.map(|(index, _)| self.notes.files[index].path.as_str());
            let label = match path {
                Some(path) => path,
                None if heap == Some(number) => "[heap]",
                None if has(range, name) => "[stack]",
                None if has(range, code) => "[vdso]",
                None if !r && self.is_vvar(line) => "[vvar]",
                None => "",
            };
            let next = inodes.len() + 1;
            let inode = path.map_or(0, |path| *inodes.entry(path).or_insert(next));
            let shared = if path.is_some_and(|path| *w && is_shared(path)) { 's' } else { 'p' };
            let bit = |is_set: bool, letter| if is_set { letter } else { '-' };
            let _ = writeln!(
                plan.maps,
                "{:x}-{:x} {}{}{}{shared} {:x} 0:1 {inode} {label}",
                range.start,
                range.end,
                bit(*r, 'r'),
                bit(*w, 'w'),
                bit(*x, 'x'),
                file.map_or(0, |(_, offset)| offset),
            );
        }
        plan.modules = self.modules.into_iter().map(|module| module.file).collect();
        plan.absent.files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
        plan
    }

    fn is_vvar(&self, line: &Line) -> bool {
        self.is_kernels(&line.range, line.permissions)
    }
}

/// Shared memory that is no file on a disk has such names.
fn is_shared(path: &str) -> bool {
    ["/memfd:", "/dev/zero", "/dev/shm/", "/SYSV", "[anon_shmem"]
        .iter()
        .any(|name| path.starts_with(name))
}

/// What brk gave has no name in a core: the first memory behind the program that does not follow its
/// variables directly.
fn heap(lines: &[Line], notes: &Notes, program: Option<usize>) -> Option<usize> {
    let path = &notes.files.get(program?)?.path;
    let is_program =
        |line: &Line| line.file.is_some_and(|(index, _)| notes.files[index].path == *path);
    let last = lines.iter().position(is_program)?;
    let last = last + lines[last..].iter().take_while(|line| is_program(line)).count();
    let mut end = lines.get(last.checked_sub(1)?)?.range.end;
    for (number, line) in lines.iter().enumerate().skip(last) {
        if line.file.is_some() || line.permissions != (true, true, false) {
            return None;
        }
        if line.range.start != end {
            return Some(number);
        }
        end = line.range.end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(start: u64, size: u64, offset: u64, stored: u64) -> Load {
        let (readable, writable, executable) = (true, true, false);
        Load { start, size, offset, stored, readable, writable, executable }
    }

    #[test]
    fn segments_that_cannot_be_are_left_out_and_bytes_are_counted_once() {
        let loads = vec![
            load(0x1000, 0x2000, 0x100, 0x2000),
            load(0x2000, 0x1000, 0x2100, 0x1000),
            load(0x5000, 0x1000, 0x1000, 0x1000),
            load(0x8000, 0x3000, 0x3100, 0x3000),
            load(u64::MAX - 10, 0x1000, 0, 0x10),
            load(0x20000, u64::MAX, 0, 0),
        ];
        let told = sound(loads, 0x4100);
        let told: Vec<_> = told.iter().map(|(l, cut)| (l.start, l.stored, *cut)).collect();
        assert_eq!(told, [(0x1000, 0x2000, 0), (0x5000, 0, 0x1000), (0x8000, 0x1000, 0x2000)]);
    }

    #[test]
    fn a_core_that_was_cut_off_has_lines_that_cannot_be_read() {
        let core = File::open("/dev/null").unwrap();
        let loads = vec![load(0x1000, 0x3000, 0x1000, 0x3000)];
        let planned = plan(&core, 0x2000, loads, &Notes::default(), None);
        assert_eq!(planned.maps, "1000-2000 rw-p 0 0:1 0 \n2000-4000 -w-p 0 0:1 0 \n");
        assert_eq!((planned.absent.cut_off, planned.absent.left_out), (0x2000, 0));
        assert!(planned.absent.was_writable && !planned.absent.has_all_memory());
    }

    proptest::proptest! {
        #[test]
        fn any_segments_and_files_give_a_map_of_ascending_lines(
            loads: Vec<(u64, u64, u64, u64)>, files: Vec<(u64, u64, u64)>, length: u32,
        ) {
            let core = File::open("/dev/null").unwrap();
            let small = |at: u64| at % (1 << 20);
            let loads = loads.iter().map(|l| load(small(l.0), small(l.1), small(l.2), small(l.3)));
            let mut last = 0;
            let files = files.iter().map(|f| {
                let start = last + small(f.0);
                last = start + small(f.1) + 1;
                MappedFile { range: start..last, offset: f.2, path: "/nowhere".to_owned() }
            });
            let notes = Notes { files: files.collect(), ..Notes::default() };
            let planned = plan(&core, length.into(), loads.collect(), &notes, None);
            let maps = crate::proc::maps::parse(planned.maps.as_bytes()).unwrap();
            assert!(maps.is_sorted_by(|a, b| a.range.end <= b.range.start));
            assert!(planned.pieces.is_sorted_by(|a, b| a.range.end <= b.range.start));
        }
    }
}
