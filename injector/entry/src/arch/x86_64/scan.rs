//! Every direct branch with 32 bits that might lead to a few places, from every byte of the code.
//!
//! No instruction boundaries are known here, so the hits are a superset: bytes that merely look like
//! a branch are among them. A place that no hit leads to is proved free.

use crate::{image::Image, zones::Zones};

/// Hits beyond this are no allocator's; the analysis gives up then.
const HITS_MAX: usize = 1 << 18;

/// Bytes that are, or look like, a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Where the 32-bit field lies.
    pub field: u64,
    pub target: u64,
}

/// All hits into `zones`, by ascending field; `None` if there are absurdly many.
pub(crate) fn scan(image: &Image<'_>, zones: &Zones) -> Option<Vec<Hit>> {
    let mut hits = Vec::new();
    for segment in image.code() {
        scan_segment(segment.bytes, segment.at, zones, &mut hits);
        if hits.len() > HITS_MAX {
            return None;
        }
    }
    Some(hits)
}

fn scan_segment(code: &[u8], at: u64, zones: &Zones, hits: &mut Vec<Hit>) {
    let (low, span) = zones.hull();
    // The address behind the first field, from which its displacement counts.
    let mut origin = at.wrapping_add(4).wrapping_sub(low);
    for field in code.windows(4) {
        let &[a, b, c, d] = field else { continue };
        let displacement = i64::from(i32::from_le_bytes([a, b, c, d]));
        // The whole test for almost every byte, so it is one addition and one comparison.
        if origin.wrapping_add_signed(displacement) < span {
            let target = origin.wrapping_add_signed(displacement).wrapping_add(low);
            let field = origin.wrapping_add(low).wrapping_sub(4);
            let before = usize::try_from(field.wrapping_sub(at)).unwrap_or(0);
            if ends_with_branch_opcode(&code[..before]) && zones.contains(target) {
                hits.push(Hit { field, target });
                if hits.len() > HITS_MAX {
                    return;
                }
            }
        }
        origin = origin.wrapping_add(1);
    }
}

/// Whether a call, a jmp, a jcc or an xbegin with 32 bits may come next.
fn ends_with_branch_opcode(before: &[u8]) -> bool {
    matches!(before, [.., 0xe8 | 0xe9] | [.., 0x0f, 0x80..=0x8f] | [.., 0xc7, 0xf8])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        arch::machine::MACHINE,
        model::{CODE, Model},
    };

    proptest! {
        #[test]
        fn finds_what_a_look_at_every_byte_finds(
            bytes in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(vec![0xe8, 0xe9, 0x0f, 0x84, 0xc7, 0xf8, 0x00, 0xff]),
                    any::<u8>(),
                ],
                5..400,
            ),
            zones in prop::collection::vec((0u64..500, 1u64..60), 1..4),
        ) {
            let zones = zones.into_iter().map(|(at, len)| CODE - 50 + at..CODE - 50 + at + len);
            let zones = Zones::new(zones);
            let file = Model::default().code(0, &bytes).build();
            let found = scan(&Image::parse(&file, &MACHINE).unwrap(), &zones).unwrap();
            let mut truth = Vec::new();
            for (i, field) in bytes.windows(4).enumerate() {
                let displacement = i32::from_le_bytes(field.try_into().unwrap());
                let field = CODE + i as u64;
                let target = (field + 4).wrapping_add_signed(displacement.into());
                if ends_with_branch_opcode(&bytes[..i]) && zones.contains(target) {
                    truth.push(Hit { field, target });
                }
            }
            prop_assert_eq!(found, truth);
        }
    }
}
