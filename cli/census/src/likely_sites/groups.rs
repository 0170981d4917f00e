//! Blocks of one key, recorded and not.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use heapattach_reach::{Amount, Blocks};

use super::keys::{Key, Keys, LEVELS};

/// Of fewer recorded blocks nothing is concluded.
const LEAST: u32 = 20;
/// Recorded blocks that keys are learned from, spread over all of them.
const LEARNED: usize = 1 << 18;
/// Groups that are told, those of most bytes.
const GROUPS: usize = 2000;
/// Sites of a group; further ones count as one that is not known.
const SITES: usize = 64;
/// If so many recorded blocks would have a key by chance, and none has it, what allocated the others does not do so any
/// more.
const EXPECTED: f64 = 5.0;
/// Room in which other blocks are counted by key; a power of two.
const ROOM: usize = 1 << 20;

/// A block that was recorded, and is in use.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Its number among all.
    pub block: u32,
    /// Who allocated it.
    pub site: u32,
    /// How many it stands for.
    pub weight: f64,
}

/// What is likely.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Likely {
    /// Blocks that were not recorded.
    pub unrecorded: Amount,
    /// Of these, the ones that are like no recorded ones, or like too few.
    pub unlike: Amount,
    /// Those of groups that are not told.
    pub left_out: Amount,
    /// Those of most bytes first.
    pub groups: Vec<Group>,
    /// Whether there was no time to look for all holders.
    pub is_over: bool,
}

/// Blocks that are alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Those that were not recorded.
    pub unrecorded: Amount,
    /// Who allocated the recorded ones: the site, how many, and for how many these stand.
    pub sites: Vec<(u32, u32, f64)>,
}

#[derive(Default)]
struct Counted {
    all: u32,
    sites: BTreeMap<u32, (u32, f64)>,
}

/// Recorded blocks by key, of each level.
struct Learned([HashMap<Key, Counted>; LEVELS]);

impl Learned {
    fn of(keys: &Keys, recorded: &[Recorded]) -> Self {
        let mut all: [HashMap<Key, Counted>; LEVELS] = Default::default();
        for one in recorded.iter().step_by(recorded.len().div_ceil(LEARNED).max(1)) {
            for (all, key) in all.iter_mut().zip(keys.levels(one.block)) {
                all.entry(key).or_default().add(one);
            }
        }
        Self(all)
    }

    fn count(&self, level: usize, key: Key) -> u32 {
        self.0[level].get(&key).map_or(0, |counted| counted.all)
    }

    fn all(&self) -> u32 {
        self.0[0].values().map(|counted| counted.all).sum()
    }
}

impl Counted {
    fn add(&mut self, one: &Recorded) {
        self.all += 1;
        if self.sites.len() < SITES || self.sites.contains_key(&one.site) {
            let (count, weight) = self.sites.entry(one.site).or_default();
            *count += 1;
            *weight += one.weight;
        }
    }

    fn group(self, unrecorded: Amount) -> Group {
        let told: u32 = self.sites.values().map(|(count, _)| *count).sum();
        // Sites that found no room.
        let rest = (told < self.all).then(|| (u32::MAX, self.all - told, 0.0));
        let sites = self.sites.into_iter().map(|(site, (count, weight))| (site, count, weight));
        Group { unrecorded, sites: sites.chain(rest).collect() }
    }
}

/// How many other blocks have a key, at most a few more: keys share room.
struct Others(Vec<u32>);

impl Others {
    fn new() -> Self {
        Self(vec![0; ROOM * LEVELS])
    }

    fn count(&mut self, level: usize, key: Key) -> &mut u32 {
        #[allow(clippy::cast_possible_truncation, reason = "it is smaller than the room")]
        let place = (key % ROOM as u64) as usize;
        &mut self.0[level * ROOM + place]
    }
}

/// Looks at all blocks.
pub fn look(keys: &Keys, blocks: &Blocks, recorded: &[Recorded]) -> Likely {
    let mut is_recorded = vec![false; blocks.len()];
    for one in recorded {
        is_recorded[one.block as usize] = true;
    }
    let numbered = || (0_u32..).zip(blocks.all()).zip(&is_recorded);
    let unrecorded =
        || numbered().filter(|(_, is_recorded)| !**is_recorded).map(|(block, _)| block);
    let learned = Learned::of(keys, recorded);
    let mut likely = Likely { is_over: keys.is_over, ..Likely::default() };
    let mut others = Others::new();
    for (number, block) in unrecorded() {
        likely.unrecorded.add(block.size);
        for (level, key) in keys.levels(number).into_iter().enumerate() {
            *others.count(level, key) += 1;
        }
    }
    // So many blocks were learned from for one of the others.
    let share = f64::from(learned.all()) / (likely.unrecorded.blocks as f64).max(1.0);
    let mut by_key: HashMap<(usize, Key), Amount> = HashMap::new();
    for (number, block) in unrecorded() {
        let levels = keys.levels(number);
        let is_gone = |level: usize, others: &mut Others| {
            let expected = f64::from(*others.count(level, levels[level])) * share;
            learned.count(level, levels[level]) == 0 && expected >= EXPECTED
        };
        let known = (0..LEVELS).rev().find_map(|level| {
            let is_known = learned.count(level, levels[level]) >= LEAST;
            (is_known || is_gone(level, &mut others)).then_some((level, is_known))
        });
        match known {
            Some((level, true)) => {
                by_key.entry((level, levels[level])).or_default().add(block.size)
            }
            _ => likely.unlike.add(block.size),
        }
    }
    told(likely, by_key, learned)
}

fn told(
    mut likely: Likely,
    by_key: HashMap<(usize, Key), Amount>,
    Learned(mut learned): Learned,
) -> Likely {
    let mut all: Vec<_> = by_key.into_iter().collect();
    all.sort_by_key(|(key, amount)| (Reverse(amount.bytes), *key));
    for (_, amount) in all.drain(GROUPS.min(all.len())..) {
        likely.left_out.bytes += amount.bytes;
        likely.left_out.blocks += amount.blocks;
    }
    let groups = all.into_iter().map(|((level, key), unrecorded)| {
        let counted = learned.get_mut(level).and_then(|learned| learned.remove(&key));
        counted.unwrap_or_default().group(unrecorded)
    });
    likely.groups = groups.collect();
    likely
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use heapattach_reach::Block;

    use super::*;
    use crate::synthetic::Synthetic;

    const HEAP: u64 = 0x80_0000;
    const BYTES: u64 = 48;

    /// Blocks of one size, each of which has what holds it, one of two classes, behind it.
    struct Made {
        memory: Synthetic,
        blocks: Vec<Block>,
        classes: Vec<Option<u64>>,
    }

    impl Made {
        fn new() -> Self {
            let mut memory = Synthetic::default();
            memory.map(HEAP..HEAP + 0x10_0000);
            Self { memory, blocks: Vec::new(), classes: Vec::new() }
        }

        /// The number of the block.
        fn add(&mut self, holder: Option<u64>) -> u32 {
            let at = HEAP + self.blocks.len() as u64 * 64;
            self.blocks.push(Block { at, size: BYTES, stack: 0 });
            self.classes.push(None);
            if let Some(class) = holder {
                self.memory.write(at + 64 + 8, at);
                self.blocks.push(Block { at: at + 64, size: BYTES, stack: 0 });
                self.classes.push(Some(class));
            }
            let number = self.blocks.len() - 1 - usize::from(holder.is_some());
            u32::try_from(number).unwrap()
        }

        fn look(self, recorded: &[Recorded]) -> Likely {
            let blocks = Blocks::new(self.blocks);
            let class = |block: u32| self.classes[block as usize];
            let end = Instant::now() + Duration::from_secs(60);
            let keys = Keys::of(&self.memory.moment(), &blocks, &[], &class, end);
            look(&keys, &blocks, recorded)
        }
    }

    fn recorded(block: u32, site: u32) -> Recorded {
        Recorded { block, site, weight: 2.0 }
    }

    #[test]
    fn blocks_go_with_recorded_ones_that_are_like_them() {
        let mut made = Made::new();
        let mut all = Vec::new();
        // One class has the blocks of one site, the other those of two.
        for turn in 0..30 {
            all.push(recorded(made.add(Some(1)), 10));
            all.push(recorded(made.add(Some(2)), 11 + turn % 2));
        }
        for _ in 0..7 {
            made.add(Some(1));
            made.add(Some(2));
            made.add(Some(2));
        }
        let likely = made.look(&all);
        let told: Vec<_> = likely
            .groups
            .iter()
            .map(|group| (group.unrecorded.blocks, group.sites.clone()))
            .collect();
        let expected = [(14, vec![(11, 15, 30.0), (12, 15, 30.0)]), (7, vec![(10, 30, 60.0)])];
        assert_eq!(told, expected);
        // The holders themselves: no recorded block is of their classes.
        assert_eq!((likely.unlike.blocks, likely.unrecorded.blocks), (60 + 21, 60 + 21 + 21));
    }

    #[test]
    fn what_new_blocks_would_have_shown_is_not_told_by_its_size_alone() {
        let mut made = Made::new();
        let mut all = Vec::new();
        for _ in 0..100 {
            all.push(recorded(made.add(Some(1)), 10));
        }
        // Many, which no recorded one is held like: their site does not allocate any more. And one that chance explains.
        for _ in 0..100 {
            made.add(Some(3));
        }
        made.add(Some(4));
        let likely = made.look(&all);
        let [group] = &likely.groups[..] else { panic!("{likely:?}") };
        assert_eq!((group.unrecorded.blocks, group.sites.len()), (1, 1));
    }

    #[test]
    fn of_few_recorded_blocks_nothing_is_concluded() {
        let mut made = Made::new();
        let few: Vec<_> = (1..LEAST).map(|_| recorded(made.add(Some(1)), 10)).collect();
        made.add(Some(1));
        let likely = made.look(&few);
        assert_eq!((likely.groups.len(), likely.unlike), (0, likely.unrecorded));
    }
}
