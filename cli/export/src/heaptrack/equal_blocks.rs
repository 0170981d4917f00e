//! Blocks of one size that have the same fate: what a story is about.

use crate::sample::{Amount, Sample};
use heapattach_ledger::Metric;

/// How long the blocks of a lot are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// From before the peak to the end.
    Held,
    /// At the peak, and freed after it.
    Peak,
    /// Allocated after the peak, and in use until the end.
    Late,
    /// Freed at once.
    Temporary,
    /// Freed before the next allocation, which need not have been at once.
    Short,
}

impl Fate {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [Self::Held, Self::Peak, Self::Late, Self::Temporary, Self::Short];
}

/// Blocks of one size and one fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lot {
    /// How long they are in use.
    pub fate: Fate,
    /// The size of each block in bytes.
    pub size: u64,
    /// The number of blocks.
    pub blocks: u64,
}

/// The fates of the blocks of a stack.
pub fn lots(sample: &Sample) -> Vec<Lot> {
    let [live, peak] = [Metric::Live, Metric::Peak].map(|metric| sample.amount(metric));
    let least = |a: Amount, b: Amount| Amount {
        bytes: a.bytes.min(b.bytes),
        blocks: a.blocks.min(b.blocks),
    };
    let mut held = least(live, peak);
    let (mut early, mut late) = (peak.minus(held), live.minus(held));
    let impossible = |amount: Amount| amount.bytes > 0 && amount.blocks == 0;
    if impossible(early) || impossible(late) {
        // As many blocks, but other ones.
        held = Amount { blocks: held.blocks.saturating_sub(1), ..held };
        held = if held.blocks == 0 { Amount::default() } else { held };
        (early, late) = (peak.minus(held), live.minus(held));
    }
    let stay = held.plus(early).plus(late);
    let pass = sample.amount(Metric::Allocated).minus(stay);
    let temporary = least(sample.amount(Metric::Temporary), pass);
    let fates = [
        (Fate::Held, held),
        (Fate::Peak, early),
        (Fate::Late, late),
        (Fate::Temporary, temporary),
        (Fate::Short, pass.minus(temporary)),
    ];
    fates.into_iter().flat_map(|(fate, amount)| split(fate, amount)).collect()
}

/// Blocks of two sizes that differ by one, so that no byte is lost.
fn split(fate: Fate, amount: Amount) -> impl Iterator<Item = Lot> {
    let stays = matches!(fate, Fate::Held | Fate::Peak | Fate::Late);
    let blocks = if stays && amount.bytes > 0 { amount.blocks.max(1) } else { amount.blocks };
    let size = amount.bytes.checked_div(blocks).unwrap_or(0);
    let larger = amount.bytes.checked_rem(blocks).unwrap_or(0);
    let lots = [(size, blocks - larger), (size.saturating_add(1), larger)];
    let lot = move |(size, blocks)| (blocks > 0).then_some(Lot { fate, size, blocks });
    lots.into_iter().filter_map(lot)
}

/// Of pages, a few large pieces: how many mappings they came in is not known. No byte is lost.
pub fn gather(lots: Vec<Lot>, pieces: u64) -> impl Iterator<Item = Lot> {
    lots.into_iter().flat_map(move |lot| {
        let pieces = pieces.clamp(1, lot.blocks.max(1));
        let (each, rest) = (lot.blocks / pieces, lot.blocks % pieces);
        let parts = [(each, pieces), (rest, u64::from(rest > 0))];
        let piece = move |(pages, blocks): (u64, u64)| Lot {
            fate: lot.fate,
            size: lot.size.saturating_mul(pages),
            blocks,
        };
        parts.map(piece).into_iter().filter(|lot| lot.blocks > 0 && lot.size > 0)
    })
}

/// Fewer and larger blocks, if there are more than `limit`; how many times fewer. Bytes stay the
/// same except for what a division leaves.
pub fn shorten(lots: &mut [Lot], limit: u64) -> u64 {
    let blocks = |lots: &[Lot]| lots.iter().fold(0_u64, |sum, lot| sum.saturating_add(lot.blocks));
    let times = blocks(lots).div_ceil(limit.max(1)).max(1);
    if times > 1 {
        for lot in lots {
            let bytes = lot.size.saturating_mul(lot.blocks);
            lot.blocks = lot.blocks.div_ceil(times);
            lot.size = bytes / lot.blocks;
        }
    }
    times
}

/// Makes no block that goes at once larger than the peak. It never was; but what a stack allocated, held
/// at the peak and holds in the end are sums, and what is left of them can be more than there was.
pub fn keep_below_peak(lots: &mut [Lot]) {
    let is_there = |lot: &&Lot| matches!(lot.fate, Fate::Held | Fate::Peak);
    let bytes = |lot: &Lot| lot.size.saturating_mul(lot.blocks);
    let peak = lots.iter().filter(is_there).fold(0_u64, |sum, lot| sum.saturating_add(bytes(lot)));
    for lot in lots.iter_mut().filter(|lot| matches!(lot.fate, Fate::Temporary | Fate::Short)) {
        // Where nothing was in use at the peak, that is not known.
        lot.size = if peak == 0 { lot.size } else { lot.size.min(peak) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_story_is_shortened_and_keeps_its_bytes() {
        let mut lots = vec![
            Lot { fate: Fate::Held, size: 8, blocks: 1_000_000 },
            Lot { fate: Fate::Short, size: 100, blocks: 3 },
        ];
        assert_eq!(shorten(&mut lots, 1000), 1001);
        assert_eq!(lots[0].blocks, 1000);
        assert_eq!(lots[0].size * lots[0].blocks, 8_000_000);
        assert_eq!((lots[1].blocks, lots[1].size), (1, 300));
    }

    #[test]
    fn pages_are_gathered_in_few_pieces_and_none_is_lost() {
        let lot = |size, blocks| Lot { fate: Fate::Held, size, blocks };
        let told = |blocks| gather(vec![lot(4096, blocks)], 16).collect::<Vec<_>>();
        assert_eq!(told(100), [lot(6 * 4096, 16), lot(4 * 4096, 1)]);
        assert_eq!(told(3), [lot(4096, 3)]);
        assert_eq!(told(0), []);
    }

    #[test]
    fn what_goes_at_once_is_never_larger_than_the_peak() {
        let lot = |fate, size, blocks| Lot { fate, size, blocks };
        let mut lots = [lot(Fate::Held, 30, 2), lot(Fate::Peak, 40, 1), lot(Fate::Short, 101, 7)];
        keep_below_peak(&mut lots);
        assert_eq!(lots[2], lot(Fate::Short, 100, 7));
        let mut lots = [lot(Fate::Late, 30, 2), lot(Fate::Temporary, 101, 7)];
        keep_below_peak(&mut lots);
        assert_eq!(lots[1].size, 101);
    }
}
