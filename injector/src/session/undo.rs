//! Giving everything back: the one way out, for a session that ends, for an attach that failed in
//! the middle, and for what a killed heapattach left behind. All it needs is in the home.

mod left;

use std::time::Duration;

use heapattach_abi::{control::REGION, region};

use crate::{
    arch::errand_words::State,
    installation::{
        give_back::{self, GiveBackError, Undone},
        shared_object::{self, Block, Object},
    },
    trace::target::Target,
};
use crate::{
    home::Home,
    loader::{self, LoadError},
    preflight,
};
use heapattach_process::proc::maps;

/// How long a thread may take to come by and unload what the target's own loader has loaded.
const UNLOAD_PATIENCE: Duration = Duration::from_secs(10);

pub use left::Left;
use left::what_is_left;

/// Why something of ours is still there.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// Words, or the home, could not be given back.
    #[error(transparent)]
    GiveBack(#[from] GiveBackError),
    /// Others took all the time there was.
    #[error("it was not tried: cleaning other children took longer than {0:?}")]
    Late(Duration),
    /// What the loader has loaded is still there.
    #[error("the shared object with the hooks could not be unloaded")]
    Unload(#[source] Box<LoadError>),
}

/// Gives everything back that `home` knows of.
///
/// # Errors
/// What is left, after every step was tried several times.
pub fn undo(target: &Target, home: &Home) -> Result<Undone, Left> {
    undo_within(target, home, UNLOAD_PATIENCE)
}

/// Undoes what a heapattach left that has died: no process reads its rings.
///
/// # Errors
/// What is left, after every step was tried several times.
pub fn undo_orphaned(target: &Target, home: &Home) -> Result<Undone, Left> {
    // What a fork copies of a home reads zero there: no thread is in its code, and the region is that of the
    // parent, whose hooks may be read still.
    let told = target.memory.word(home.control().offset(REGION as u64));
    let is_own = told.is_ok_and(|region| region != 0);
    if is_own && preflight::busy(target.process.pid(), home).is_none() {
        // A thread that waits for room in a ring would wait for as long as it may, and not leave our code:
        // it drops its record once the reader's deadline is over.
        let deadline = home.region().offset(region::DEADLINE_TSC as u64);
        let _ = target.memory.write_word(deadline, 1);
    }
    undo(target, home)
}

/// The same, waiting no longer than `patience` for a thread that comes by to unload an object.
///
/// # Errors
/// As [`undo`].
pub fn undo_within(target: &Target, home: &Home, patience: Duration) -> Result<Undone, Left> {
    let mut undone = Undone::default();
    // After an exec, and after the end, there is nothing left that we could have changed.
    if target.memory.word(home.at()).is_err() {
        return Ok(undone);
    }
    let unloaded = unload(target, home, patience, &mut undone);
    // What the loader keeps for ever needs no journal: nothing leads to it.
    let is_kept = matches!(&unloaded, Err(UndoError::Unload(e)) if matches!(**e, LoadError::Kept));
    let result = match unloaded {
        Err(error) if !is_kept => Err(error),
        kept => give_back::everything(target, home, &mut undone).map_err(UndoError::from).and(kept),
    };
    match result {
        Ok(()) => Ok(undone),
        Err(_) if !target.process.is_alive() => Ok(undone),
        Err(error) => {
            let what = what_is_left(target, home);
            // The last step of all was done, and what came after it failed.
            if what.is_empty() { Ok(undone) } else { Err(Left { what, error }) }
        }
    }
}

/// Has the target unload the hooks, if its own loader has loaded them.
fn unload(
    target: &Target,
    home: &Home,
    patience: Duration,
    undone: &mut Undone,
) -> Result<(), UndoError> {
    let text = target.process.read("maps").map_err(|_| GiveBackError::Maps)?;
    let maps = maps::parse(&text).map_err(|_| GiveBackError::Maps)?;
    let block = Block::of(&target.memory, home);
    shared_object::remove_left(&target.process, &block.written_path());
    let is_under_way = block.state().is_some_and(State::is_busy);
    if !is_under_way && !Object::is_mapped(&maps) {
        return Ok(());
    }
    give_back::words(target, home, undone)?;
    loader::close(target, home, patience, &mut undone.stops)
        .map_err(|error| UndoError::Unload(Box::new(error)))
}
