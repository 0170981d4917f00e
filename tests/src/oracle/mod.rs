//! What a program's call stacks are, by a witness that shares no code with heapattach.
//!
//! The [`Oracle`] is a library preloaded into any program: it takes glibc's `backtrace()` in each
//! allocation and keeps the stacks in a file (`table`). heapattach writes those it walked into
//! another (`recorded`); a [`Comparison`] says which of them are right, and where the others went
//! astray. Of a few hundred allocations [`Gdb`] tells the stacks too.
//!
//! Both end at the same frame, that of `_start` or `clone3`: the one whose unwind information says
//! that it has no return address. (`backtrace()` calls the caller of that frame null, and drops it.)
//! Where a frame has no unwind information both name it and end; so ends a coroutine of
//! `makecontext()`, which returns to the first byte of `__start_context`, before which there is none.

pub mod columnar;
mod comparison;
mod damage;
mod gdb;
mod places;
mod recorded;
mod session;
mod table;
mod verdict;

pub use comparison::{Cause, Comparison, Truth, Wrong};
pub use damage::KINDS;
pub use gdb::Gdb;
pub use places::Places;
pub use recorded::{DEEPEST, DEPTH, OUTERMOST, RecordedStack, parse, write};
pub use session::{Ended, Session};
pub use table::{Counts, Table};

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{
    compile::Source,
    deadline::{PATIENCE, wait_until},
};

/// The library, and the folder of the tables it writes; dropped, that is removed.
#[derive(Debug)]
pub struct Oracle {
    library: PathBuf,
    folder: PathBuf,
}

impl Oracle {
    /// Builds it; `None` (reported as skipped) where nothing can be compiled.
    ///
    /// # Panics
    /// If there is no place for its tables.
    #[must_use]
    pub fn new() -> Option<Self> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let library = Source::new("stack_oracle.c").build()?;
        let serial = SERIAL.fetch_add(1, Relaxed);
        let name = format!("heapattach-oracle-{}-{serial}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        Some(Self { library, folder })
    }

    /// What to preload.
    #[must_use]
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// What the environment of the program must say.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        let tables = self.folder.join("table");
        [("LD_PRELOAD", self.library.clone()), ("HEAPATTACH_ORACLE", tables)]
    }

    fn path(&self, pid: i32) -> PathBuf {
        self.folder.join(format!("table.{pid}"))
    }

    /// Where the `--stacks` of a session may go.
    #[must_use]
    pub fn stacks_file(&self, pid: i32) -> PathBuf {
        self.folder.join(format!("stacks.{pid}"))
    }

    /// What it has noted of that process so far.
    ///
    /// # Panics
    /// If there is no table.
    #[must_use]
    pub fn table(&self, pid: i32) -> Table {
        Table::read(&self.path(pid)).unwrap_or_else(|why| panic!("no oracle: {why}"))
    }

    /// Every process that has or had a table.
    ///
    /// # Panics
    /// If their folder is gone.
    #[must_use]
    pub fn pids(&self) -> Vec<i32> {
        let files = fs::read_dir(&self.folder).expect("a folder of ours");
        let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        names.filter_map(|name| name.strip_prefix("table.")?.parse().ok()).collect()
    }

    /// How many allocations it has noted of that process.
    ///
    /// # Panics
    /// If its table is none.
    #[must_use]
    pub fn noted(&self, pid: i32) -> u64 {
        self.ask(pid, table::noted)
    }

    /// Waits until that process has made so many allocations more.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_for_more(&self, pid: i32, number: u64) {
        let goal = self.noted(pid) + number;
        wait_until("allocations", PATIENCE, || self.noted(pid) >= goal);
    }

    /// Waits until that process, started with `HEAPATTACH_ORACLE_HOLD`, waits before its `main`.
    ///
    /// # Panics
    /// If it does not come there.
    pub fn wait_until_held(&self, pid: i32) {
        let held = || self.ask(pid, table::is_held);
        wait_until("the program to be held", PATIENCE, held);
    }

    /// Lets a process go on that was held.
    ///
    /// # Panics
    /// If it cannot be told.
    pub fn let_go(&self, pid: i32) {
        self.ask(pid, table::let_go);
    }

    /// What lies where in that process, which lives or has ended by `exit`.
    ///
    /// # Panics
    /// If it cannot be known.
    #[must_use]
    pub fn places(&self, pid: i32) -> Places {
        let live = PathBuf::from(format!("/proc/{pid}/maps"));
        let places = Places::read(&live).or_else(|_| {
            let left = self.path(pid).with_extension(format!("{pid}.maps"));
            Places::read(&left)
        });
        places.unwrap_or_else(|why| panic!("no memory map: {why}"))
    }

    fn ask<T>(&self, pid: i32, question: fn(&Path) -> io::Result<T>) -> T {
        let path = self.path(pid);
        question(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
