//! The rate of a Go program that keeps no profile: one word of it is written for the time of a session, and put
//! back. A rate that is not 0 is never changed.

use heapattach_process::{addr::RemoteAddr, memory::Memory, proc::Process};

use crate::note::{self, Kind, Note};

/// A rate that was 0 and is ours.
#[derive(Debug)]
pub struct Switched {
    process: Process,
    memory: Memory,
    note: Option<Note>,
}

impl Switched {
    /// Switches the profile on.
    ///
    /// # Errors
    /// What stands in the way. Nothing was written then.
    pub fn on(pid: i32, at: u64, value: u64) -> Result<Self, String> {
        let gone =
            |errno: nix::errno::Errno| format!("its memory cannot be read: {}", errno.desc());
        let process = Process::open(pid).map_err(gone)?;
        let memory = Memory::open(&process).map_err(gone)?;
        let note =
            Note::make(&process, Kind::GoRate, at, value).map_err(|error| error.to_string())?;
        let switched = Self { process, memory, note: Some(note) };
        let written = switched.memory.write_word(RemoteAddr::new(at), value);
        written.map_err(|errno| format!("its rate cannot be written: {}", errno.desc()))?;
        Ok(switched)
    }

    /// Switches it off again.
    ///
    /// # Errors
    /// The word could not be written, and the program is still there.
    pub fn off(mut self) -> Result<(), String> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), String> {
        let Some(note) = self.note.take() else { return Ok(()) };
        match put_back(&self.process, &self.memory, &note) {
            Ok(()) => {
                note.remove();
                Ok(())
            }
            // The note stays, so that `detach` knows.
            Err(why) => Err(why),
        }
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        let _ = self.undo();
    }
}

/// Writes 0 where the program still has our value.
fn put_back(process: &Process, memory: &Memory, note: &Note) -> Result<(), String> {
    let at = RemoteAddr::new(note.at);
    match memory.word(at) {
        Ok(word) if word == note.value && note.value != 0 => memory
            .write_word(at, 0)
            .or_else(|errno| if process.is_alive() { Err(errno) } else { Ok(()) })
            .map_err(|errno| {
                format!("runtime.MemProfileRate at {at} cannot be put back to 0: {}", errno.desc())
            }),
        // The program set another one, or it is another program by now.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Processes that a killed heapattach has left with their profile switched on.
pub fn left_on() -> Vec<Process> {
    let all = note::pids(Kind::GoRate).into_iter().filter_map(|pid| Process::open(pid).ok());
    all.filter(is_left_on).collect()
}

fn is_left_on(process: &Process) -> bool {
    Note::orphan(process, Kind::GoRate).is_some_and(|note| note.value != 0)
}

/// Whether a session that is alive has it switched on, and switches it off again.
pub fn is_in_use(process: &Process) -> bool {
    Note::is_in_use(process, Kind::GoRate)
}

/// Switches it off; whether there was something to undo.
///
/// # Errors
/// When the word cannot be written.
pub fn undo_orphaned(process: &Process, memory: &Memory) -> Result<bool, String> {
    let Some(note) = Note::orphan(process, Kind::GoRate) else { return Ok(false) };
    put_back(process, memory, &note)?;
    let was_on = note.value != 0;
    note.remove();
    Ok(was_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_this_process_is_switched_on_and_off() {
        static RATE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let rate = || RATE.load(std::sync::atomic::Ordering::SeqCst);
        let (pid, at) = (std::process::id().cast_signed(), std::ptr::from_ref(&RATE).addr() as u64);
        let switched = Switched::on(pid, at, 4096).unwrap();
        assert_eq!(rate(), 4096);
        let process = Process::open(pid).unwrap();
        assert!(!is_left_on(&process) && is_in_use(&process), "its session is alive");
        assert!(Switched::on(pid, at, 1).is_err(), "one at a time");
        switched.off().unwrap();
        assert_eq!(rate(), 0);
        drop(Note::make(&process, Kind::GoRate, at, 512).unwrap());
        RATE.store(512, std::sync::atomic::Ordering::SeqCst);
        assert!(is_left_on(&process) && !is_in_use(&process), "the lock is free");
        let memory = Memory::open(&process).unwrap();
        assert_eq!((undo_orphaned(&process, &memory), rate()), (Ok(true), 0));
        assert_eq!(undo_orphaned(&process, &memory), Ok(false));
        drop(Switched::on(pid, at, 8192).unwrap());
        assert_eq!(rate(), 0, "by the drop");
        let ours = Switched::on(pid, at, 8192).unwrap();
        RATE.store(7, std::sync::atomic::Ordering::SeqCst);
        ours.off().unwrap();
        assert_eq!(rate(), 7, "what the program set itself stays");
    }
}
