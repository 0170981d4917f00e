//! Who writes records: the threads of the target, by the rings they write to.
//!
//! Both big C libraries keep a thread's number in its control block, at a place that is found by
//! looking for numbers that threads of the process have. A ring outlives its thread and goes to a
//! later one with the same control block; that is noticed at the next look, and what a thread does
//! before it counts as done by the one before. Threads beyond the rings that have one writer are
//! not told apart.

use std::{
    collections::HashMap,
    fs,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU16, Ordering::Relaxed},
    },
};

use heapattach_abi::ring::OWN_RINGS;
use heapattach_process::{addr::RemoteAddr, memory::Memory, proc::Process};

use heapattach_ledger::Thread;
use heapattach_profile::Writers;
use heapattach_text::printable::printable;

/// Threads that are told apart in one session.
const THREADS: usize = 4096;
/// So much of a control block is looked at.
const CONTROL_BLOCK: usize = 1024;
/// Where glibc and musl keep the number; tried first.
const USUAL: [usize; 2] = [0x2d0, 0x30];

/// The threads seen, and whose each ring is.
#[derive(Debug, Default)]
pub struct RingOwners {
    current: [AtomicU16; OWN_RINGS],
    found: Mutex<Found>,
}

#[derive(Debug)]
struct Found {
    /// The first stands for all that are not told apart.
    threads: Vec<Thread>,
    /// How many times a thread was found, or its name.
    changes: u64,
    place: Option<usize>,
}

impl Default for Found {
    fn default() -> Self {
        Self { threads: vec![Thread::default()], changes: 1, place: None }
    }
}

impl RingOwners {
    /// Whose the rings are now.
    pub fn writers(&self) -> Writers {
        self.current.each_ref().map(|thread| thread.load(Relaxed))
    }

    /// A ring is written to whose thread is not known yet; answers the number its writer has.
    pub fn announce(&self, ring: usize) -> u16 {
        let mut found = self.lock();
        match self.current.get(ring) {
            Some(current) if current.load(Relaxed) == 0 => {
                let number = found.add(Thread::default());
                current.store(number, Relaxed);
                number
            }
            Some(current) => current.load(Relaxed),
            None => 0,
        }
    }

    /// The threads, and how often something about them has changed, if that is not so often.
    pub fn threads_unless(&self, changes: u64) -> Option<(u64, Vec<Thread>)> {
        let found = self.lock();
        (found.changes != changes).then(|| (found.changes, found.threads.clone()))
    }

    /// Looks who writes to these rings. With `names` it asks for the names of known ones, too: some
    /// threads name themselves late.
    pub fn look(
        &self,
        process: &Process,
        memory: &Memory,
        rings: &[(usize, RemoteAddr)],
        names: bool,
    ) {
        let mut found = self.lock();
        let mut tasks = None;
        for &(ring, key) in rings.iter().filter(|(ring, _)| *ring < OWN_RINGS) {
            let number = self.current[ring].load(Relaxed);
            let known = found.threads.get(usize::from(number)).map_or(0, |thread| thread.tid);
            let own = found.place.and_then(|place| number_at(memory, key, place));
            if own.is_none() || own != Some(known) {
                let tasks = tasks.get_or_insert_with(|| Tasks::of(process));
                self.resolve(&mut found, memory, rings, (ring, key), tasks);
            }
            if names {
                found.name(process, usize::from(self.current[ring].load(Relaxed)));
            }
        }
        if let Some(tasks) = tasks {
            for &(ring, _) in rings.iter().filter(|(ring, _)| *ring < OWN_RINGS) {
                let number = usize::from(self.current[ring].load(Relaxed));
                let thread = found.threads.get(number);
                if thread.is_some_and(|thread| thread.name.is_empty() && tasks.has(thread.tid)) {
                    found.name(process, number);
                }
            }
        }
    }

    fn resolve(
        &self,
        found: &mut Found,
        memory: &Memory,
        rings: &[(usize, RemoteAddr)],
        (ring, key): (usize, RemoteAddr),
        tasks: &Tasks,
    ) {
        let certain = |place| number_at(memory, key, place).and_then(|own| tasks.find(own));
        if found.place.and_then(certain).is_none() {
            // Most likely it has ended; but as long as there was one thread only, a number that was
            // taken for its own may have been another.
            found.place = place(memory, rings, tasks).or(found.place);
        }
        let Some(tid) = found.place.and_then(certain) else { return };
        let number = usize::from(self.current[ring].load(Relaxed));
        match found.threads.get_mut(number) {
            Some(thread) if number > 0 && thread.tid == 0 => {
                thread.tid = tid;
                found.changes += 1;
            }
            Some(thread) if number > 0 && thread.tid == tid => {}
            _ => {
                let number = found.add(Thread { tid, name: String::new() });
                self.current[ring].store(number, Relaxed);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Found {
    fn add(&mut self, thread: Thread) -> u16 {
        if self.threads.len() >= THREADS {
            return 0;
        }
        self.threads.push(thread);
        self.changes += 1;
        u16::try_from(self.threads.len() - 1).unwrap_or(0)
    }

    fn name(&mut self, process: &Process, number: usize) {
        let Some(thread) = self.threads.get_mut(number).filter(|thread| thread.tid != 0) else {
            return;
        };
        let Ok(name) = process.read_thread(thread.tid, "comm") else { return };
        let name = printable(String::from_utf8_lossy(&name).trim_end_matches('\n'));
        if name != thread.name {
            thread.name = name;
            self.changes += 1;
        }
    }
}

/// The threads of the process, by the number each has for itself.
#[derive(Debug)]
struct Tasks(HashMap<i32, i32>);

impl Tasks {
    fn of(process: &Process) -> Self {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let is_ours = namespace("self") == namespace(&process.pid().to_string());
        let all = process.threads().unwrap_or_default().into_iter();
        Self(all.map(|tid| (own_number(process, tid, is_ours).unwrap_or(tid), tid)).collect())
    }

    fn find(&self, own: i32) -> Option<i32> {
        self.0.get(&own).copied()
    }

    fn has(&self, tid: i32) -> bool {
        self.0.values().any(|&other| other == tid)
    }
}

/// What a thread is called in the innermost namespace it is in.
fn own_number(process: &Process, tid: i32, is_ours: bool) -> Option<i32> {
    if is_ours {
        return None;
    }
    let status = String::from_utf8(process.read_thread(tid, "status").ok()?).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

fn number_at(memory: &Memory, key: RemoteAddr, place: usize) -> Option<i32> {
    let mut word = [0; 4];
    memory.read(RemoteAddr::new(key.get().checked_add(place as u64)?), &mut word).ok()?;
    Some(i32::from_le_bytes(word))
}

/// Where in control blocks the number is: where most of them have one, each another.
fn place(memory: &Memory, rings: &[(usize, RemoteAddr)], tasks: &Tasks) -> Option<usize> {
    let mut block = [0; CONTROL_BLOCK];
    let mut seen: HashMap<usize, Vec<i32>> = HashMap::new();
    for &(_, key) in rings {
        let Ok(length) = memory.read_some(key, &mut block) else { continue };
        for (word, bytes) in block[..length].chunks_exact(4).enumerate() {
            let own = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            if tasks.find(own).is_some() {
                let all = seen.entry(word * 4).or_default();
                if !all.contains(&own) {
                    all.push(own);
                }
            }
        }
    }
    let usual =
        |place: usize| USUAL.iter().rev().position(|&other| other == place).map_or(0, |at| at + 1);
    let best =
        seen.into_iter().max_by_key(|(place, all)| (all.len(), usual(*place), usize::MAX - place));
    best.map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::*;

    /// Where our own control block is, as the kernel knows it.
    fn own_key(memory: &Memory, process: &Process, tid: i32) -> Option<RemoteAddr> {
        // A control block holds its own address at its beginning, and the number further on.
        let maps = process.read("maps").ok()?;
        let maps = heapattach_process::proc::maps::parse(&maps).ok()?;
        let mut best = None;
        for mapping in maps.iter().filter(|m| m.inode == 0) {
            let (start, end) = (mapping.range.start.get(), mapping.range.end.get());
            // Other tests map a lot.
            let Some(length) = usize::try_from(end - start).ok().filter(|&n| n < 64 << 20) else {
                continue;
            };
            let Ok(bytes) = memory.read_vec(RemoteAddr::new(start), length) else { continue };
            for (at, word) in (start..).step_by(8).zip(bytes.chunks_exact(8)) {
                let is_self = u64::from_le_bytes(word.try_into().ok()?) == at;
                let key = RemoteAddr::new(at);
                if is_self && USUAL.iter().any(|&place| number_at(memory, key, place) == Some(tid))
                {
                    best = Some(key);
                }
            }
        }
        best
    }

    #[test]
    fn a_thread_is_found_by_its_control_block_and_has_its_name() {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let other = thread::Builder::new().name("somebody".to_owned()).spawn(move || {
            tell.send(nix::unistd::gettid().as_raw()).unwrap();
            let _ = ended.recv();
        });
        let other = other.unwrap();
        let tid = told.recv().unwrap();
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let memory = Memory::open(&process).unwrap();
        let key = own_key(&memory, &process, tid).expect("its control block is somewhere");
        let ring_owners = RingOwners::default();
        let early = ring_owners.announce(3);
        ring_owners.look(&process, &memory, &[(3, key)], false);
        let (_, threads) = ring_owners.threads_unless(0).unwrap();
        assert_eq!(ring_owners.writers()[3], early);
        assert_eq!(threads[usize::from(early)], Thread { tid, name: "somebody".to_owned() });
        drop(end);
        other.join().unwrap();
    }
}
