//! Of all roots that hold a block the one that says most, in a word.

use super::RootKind;

/// Those of a kind that says more come first; those that are here for all others follow.
const ORDER: [RootKind; 10] = [
    RootKind::Globals,
    RootKind::Tls,
    RootKind::Stacks,
    RootKind::Announced,
    RootKind::Registers,
    RootKind::Mapped,
    RootKind::Shared,
    RootKind::Heap,
    RootKind::Kernel,
    RootKind::Loader,
];

/// Addresses of users' memory are shorter.
const ADDRESS_BITS: u32 = 56;

/// A root; none at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct RootPlace(u64);

impl RootPlace {
    /// Another root, which lies there; 0 for what lies in no memory.
    pub fn add(&mut self, kind: RootKind, at: u64) {
        let rank = ORDER.iter().position(|&one| one == kind).unwrap_or(ORDER.len()) as u64 + 1;
        let at = at & ((1 << ADDRESS_BITS) - 1);
        let (own, own_at) = self.parts();
        // What a function left on the stack lies below the frames of those that run.
        let is_further_up = own == rank && kind == RootKind::Stacks && at > own_at;
        if own == 0 || rank < own || is_further_up {
            self.0 = rank << ADDRESS_BITS | at;
        }
    }

    /// What kind it is, and where it lies.
    pub fn get(self) -> Option<(RootKind, u64)> {
        let (rank, at) = self.parts();
        let kind = ORDER.get(usize::try_from(rank.checked_sub(1)?).ok()?)?;
        Some((*kind, at))
    }

    fn parts(self) -> (u64, u64) {
        (self.0 >> ADDRESS_BITS, self.0 & ((1 << ADDRESS_BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_says_more_than_a_stack_and_that_more_than_a_register() {
        let mut place = RootPlace::default();
        assert_eq!(place.get(), None);
        let steps = [
            ((RootKind::Registers, 0), (RootKind::Registers, 0)),
            ((RootKind::Stacks, 0x7000), (RootKind::Stacks, 0x7000)),
            ((RootKind::Stacks, 0x7800), (RootKind::Stacks, 0x7800)),
            ((RootKind::Stacks, 0x7100), (RootKind::Stacks, 0x7800)),
            ((RootKind::Globals, 0x4000), (RootKind::Globals, 0x4000)),
            ((RootKind::Globals, 0x4100), (RootKind::Globals, 0x4000)),
            ((RootKind::Registers, 0), (RootKind::Globals, 0x4000)),
        ];
        for ((kind, at), best) in steps {
            place.add(kind, at);
            assert_eq!(place.get(), Some(best));
        }
    }

    #[test]
    fn every_kind_has_a_rank() {
        for kind in RootKind::ALL {
            let mut place = RootPlace::default();
            place.add(kind, 0x7fff_ffff_f000);
            assert_eq!(place.get(), Some((kind, 0x7fff_ffff_f000)));
        }
    }
}
