//! Random distances between samples, exponentially distributed, without floating point: the
//! registers for it are the target's.

/// Binary logarithm of the parts that the mantissa is cut into.
const PART_BITS: u32 = 7;
const PARTS: usize = 1 << PART_BITS;

/// `log2(1 + i / PARTS)` in units of 2^-32.
static LOGARITHMS: [u32; PARTS + 1] = logarithms();

/// `ln(2)` in units of 2^-32.
const LN_2: u64 = 0xb172_17f8;

const fn logarithms() -> [u32; PARTS + 1] {
    let mut table = [0; PARTS + 1];
    let mut part = 0;
    while part < PARTS {
        // The digits of a binary logarithm, by squaring.
        let mut x = ((1 << 31) + ((part as u64) << (31 - PART_BITS))) as u128;
        let (mut bit, mut digits) = (0, 0_u32);
        while bit < 32 {
            x = (x * x) >> 31;
            digits <<= 1;
            if x >> 32 != 0 {
                x >>= 1;
                digits |= 1;
            }
            bit += 1;
        }
        table[part] = digits;
        part += 1;
    }
    // The logarithm of 2 does not fit by the smallest unit.
    table[PARTS] = u32::MAX;
    table
}

/// The next state of a generator; its results are those of [`mix`].
pub(crate) const fn advance(state: u64) -> u64 {
    state.wrapping_add(0x9e37_79b9_7f4a_7c15)
}

/// Makes 64 random bits of a state.
pub(crate) const fn mix(state: u64) -> u64 {
    let x = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// An exponentially distributed number with this mean, from 64 random bits, rounded down: a block
/// that is larger than it is a sample.
pub(crate) fn exponential(bits: u64, mean: u64) -> u64 {
    // -log2 of a number in (0, 1], in units of 2^-32.
    let zeros = (bits | 1).leading_zeros();
    let mantissa = (bits | 1) << zeros;
    let fraction = mantissa << 1;
    let part = (fraction >> (64 - PART_BITS)) as usize;
    let within = fraction << PART_BITS >> 32;
    let low = u64::from(LOGARITHMS[part & (PARTS - 1)]);
    let high = u64::from(LOGARITHMS[(part & (PARTS - 1)) + 1]);
    let logarithm = low + (((high - low) * within) >> 32);
    let power = ((u64::from(zeros) + 1) << 32) - logarithm;
    let natural = ((u128::from(power) * u128::from(LN_2)) >> 32) as u64;
    ((u128::from(natural) * u128::from(mean)) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_right_to_five_digits() {
        for shift in 0..60 {
            for part in 1..1000_u64 {
                let bits = (u64::MAX / 1001 * part) >> shift;
                let truth = -((bits | 1) as f64 / 2_f64.powi(64)).ln();
                let drawn = exponential(bits, 1 << 30) as f64 / (1_u64 << 30) as f64;
                assert!((drawn - truth).abs() < 2e-5 * truth.max(1.0), "{bits:x}: {drawn} {truth}");
            }
        }
    }

    #[test]
    fn mean_and_tail_are_those_of_the_distribution() {
        let (mut state, mut sum, mut beyond) = (1, 0.0, 0_u32);
        const DRAWS: u32 = 1_000_000;
        for _ in 0..DRAWS {
            state = advance(state);
            let drawn = exponential(mix(state), 524_288) as f64;
            sum += drawn;
            beyond += u32::from(drawn >= 524_288.0);
        }
        let (mean, tail) =
            (sum / f64::from(DRAWS) / 524_288.0, f64::from(beyond) / f64::from(DRAWS));
        assert!((mean - 1.0).abs() < 0.004, "{mean}");
        assert!((tail - (-1_f64).exp()).abs() < 0.002, "{tail}");
    }
}
