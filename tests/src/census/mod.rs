//! The walk of a heap beside the truth: a library that a program is started with keeps every live block in
//! a table (`fixtures/census/live_blocks.c`).

use std::{collections::HashMap, fs, path::PathBuf};

use heapattach_census::{Answer, Block, Live, Moment, State, Thread, Walk, Walker};
use heapattach_injector::{attach, moment::Standing, target::Stopped};
use heapattach_test_folder::Folder;

use crate::{compile::Source, fixture::Launch, libc_release::Libc};

/// An entry whose block was freed.
const DELETED: u64 = 1;

/// The table of a program.
#[derive(Debug)]
pub struct LiveBlocks {
    _folder: Folder,
    path: PathBuf,
}

/// A walk of a stopped process.
#[derive(Debug)]
pub struct Walked {
    /// What the walker answered.
    pub walk: Walk,
    /// The blocks.
    pub blocks: Vec<Block>,
    /// The truth of the same stop: address and usable bytes.
    pub truth: HashMap<u64, u64>,
}

/// How a walk and the truth differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Live blocks that the walk does not call used.
    pub missing: Vec<u64>,
    /// Blocks that the walk calls used and that are not live.
    pub extra: Vec<u64>,
    /// Blocks of another size: the address, what the walk says, what is true.
    pub sizes: Vec<(u64, u64, u64)>,
}

impl LiveBlocks {
    /// Has a program keep its live blocks in a table; `None` where there is no compiler. Built with an old
    /// C library if the program is.
    pub fn of(launch: Launch, old: Option<&Libc>) -> Option<(Launch, Self)> {
        let source = Source::new("live_blocks.c");
        let source = match old {
            Some(libc) => libc.built_with(source),
            None => source,
        };
        let library = source.build()?;
        let folder = Folder::new("live-blocks");
        let path = folder.0.join("table");
        let launch = launch.env("LD_PRELOAD", library).env("LIVE_BLOCKS", &path);
        Some((launch, Self { _folder: folder, path }))
    }

    /// The blocks.
    ///
    /// # Panics
    /// If the program made no table.
    pub fn read(&self) -> HashMap<u64, u64> {
        let bytes = fs::read(&self.path).expect("the table of live blocks");
        let (words, _) = bytes.as_chunks::<8>();
        let (entries, _) = words.as_chunks::<2>();
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let entries = entries.iter().map(|[at, usable]| (word(at), word(usable)));
        entries.filter(|(at, _)| *at > DELETED).collect()
    }

    /// Stops a process and walks its heap.
    ///
    /// # Panics
    /// If it cannot be stopped, or the walker does not know its heap.
    pub fn walk(&self, pid: i32, walker: &dyn Walker) -> Walked {
        let target = attach::open(pid, false).expect("a process of ours");
        let stop = Stopped::all(&target).expect("a process that can be stopped");
        let live = Live::open(&target.process).expect("memory that can be read");
        let regions = Live::regions(&target.process).expect("a map that can be read");
        let threads = Standing::all(&stop).into_iter().map(thread).collect();
        let moment = Moment::new(&live, regions, threads);
        let mut blocks = Vec::new();
        let answer = walker.walk(&moment, &mut blocks);
        let truth = self.read();
        stop.finish();
        let Answer::Walked(walk) = answer else { panic!("{}: {answer:?}", walker.name()) };
        Walked { walk, blocks, truth }
    }
}

fn thread(standing: Standing) -> Thread {
    let Standing { tid, pointer, stack, code, call, words, .. } = standing;
    let call = call.and_then(|call| u64::try_from(call).ok());
    Thread { tid, pointer, stack, code, call, registers: words.to_vec() }
}

impl Walked {
    /// How they differ.
    pub fn difference(&self) -> Difference {
        let mut difference = Difference::default();
        let mut left = self.truth.clone();
        for block in self.blocks.iter().filter(|block| block.state == State::Used) {
            match left.remove(&block.at) {
                Some(size) if size == block.size => {}
                Some(size) => difference.sizes.push((block.at, block.size, size)),
                None => difference.extra.push(block.at),
            }
        }
        difference.missing = left.into_keys().collect();
        difference
    }

    /// Panics unless every block is as it is, and the walker knows that.
    ///
    /// # Panics
    /// If one is not; `what` begins the message.
    pub fn assert_exact(&self, what: &str) {
        let Difference { missing, extra, sizes } = self.difference();
        let counts = (missing.len(), extra.len(), sizes.len());
        let some = (&missing[..missing.len().min(4)], extra.first(), sizes.first());
        let walk = &self.walk;
        let truth = self.truth.len();
        assert!(
            counts == (0, 0, 0),
            "{what}: of {truth} blocks {counts:?} are missing, too many, of wrong size: {some:x?}; {:?}, {:?}",
            walk.trust,
            walk.notes
        );
        assert!(walk.is_exact(), "{what}: {:?}, {:?}", walk.trust, walk.notes);
    }
}
