//! How the sums of a session came about that has just ended, read back from its file: growth is judged
//! by that. The disk may give nothing back; no thread waits for it longer than [`PATIENCE`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use crate::read::course::Places;
use crate::{Recording, Store};
use heapattach_ledger::Course;
use heapattach_text::quantity;

/// So long may the next block of the file take.
const PATIENCE: Duration = Duration::from_secs(5);
/// So often the caller is asked whether it still wants to wait.
const LOOK: Duration = Duration::from_millis(20);

/// Knows which row of the file is which of the ledger.
#[derive(Debug)]
pub struct Replay {
    places: Places,
}

impl Replay {
    /// For rows that have these places.
    pub fn new(places: Places) -> Self {
        Self { places }
    }

    /// The course of the session that is whole in `store`, as long as `goes_on` says so.
    ///
    /// # Errors
    /// In words, why it is not known.
    pub fn course(self, store: Store, goes_on: impl FnMut() -> bool) -> Result<Course, String> {
        self.course_of(move |bytes_read| store.read_counting(bytes_read), PATIENCE, goes_on)
    }

    fn course_of(
        self,
        open: impl FnOnce(&Arc<AtomicU64>) -> Option<Recording> + Send + 'static,
        patience: Duration,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Course, String> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let (give, take) = mpsc::channel();
        let counted = Arc::clone(&bytes_read);
        let read = move || {
            let course = open(&counted).map(|file| file.course_of(&self.places));
            // The receiver may be gone by now.
            let _ = give.send(course);
        };
        // No thread joins it: it may never come back from the disk.
        let begun = thread::Builder::new().name("replay".to_owned()).spawn(read);
        begun.map_err(|error| format!("no thread to read the recording back: {error}"))?;
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            match take.recv_timeout(LOOK) {
                Ok(Some(course)) => return Ok(course),
                Ok(None) | Err(RecvTimeoutError::Disconnected) => {
                    return Err("the recording cannot be read back".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = bytes_read.load(Relaxed);
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            if since.elapsed() >= patience {
                let time = quantity::time(patience);
                return Err(format!("the disk of the recording has not answered for {time}"));
            }
            if !goes_on() {
                return Err("the recording was still being read back".to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Session, second};
    use heapattach_ledger::Moment;
    use heapattach_test_folder::Folder;

    const IMPATIENT: Duration = Duration::from_millis(300);

    /// A session of two seconds whose growth is judged.
    fn session(folder: &Folder) -> (Store, Replay) {
        let path = folder.0.join("a");
        let mut session = Session::new(&path, 1 << 30);
        let moment = Moment { flow: Some(vec![[1, 1, 0]]), ..Moment::default() };
        session.session_writer.moment(moment.clone());
        for number in 0..200 {
            session.now = number * second() / 100;
            session.allocate(0, number, 100);
            session.keep_up();
        }
        let (_, replay) = session.finish_in_memory(vec![moment]);
        let file = std::fs::File::open(&path).unwrap();
        (Store { path: Some(path), file }, replay.unwrap())
    }

    #[test]
    fn a_disk_that_gives_nothing_is_given_up() {
        let folder = Folder::new("replay-hangs");
        let (store, replay) = session(&folder);
        let (thaw, frozen) = mpsc::channel::<()>();
        let hang = move |bytes_read: &Arc<AtomicU64>| {
            let _ = frozen.recv();
            store.read_counting(bytes_read)
        };
        let error = replay.course_of(hang, IMPATIENT, || true).unwrap_err();
        assert!(error.contains("has not answered for 300"), "{error}");
        drop(thaw);
    }

    #[test]
    fn a_slow_disk_is_waited_for_as_long_as_somebody_wants_it() {
        for is_wanted in [true, false] {
            let folder = Folder::new(&format!("replay-{is_wanted}"));
            let (store, replay) = session(&folder);
            let slow = move |bytes_read: &Arc<AtomicU64>| {
                for _ in 0..12 {
                    thread::sleep(IMPATIENT / 6);
                    bytes_read.fetch_add(1, Relaxed);
                }
                store.read_counting(bytes_read)
            };
            let course = replay.course_of(slow, IMPATIENT, || is_wanted);
            assert_eq!(course.is_ok(), is_wanted, "{course:?}");
        }
    }
}
