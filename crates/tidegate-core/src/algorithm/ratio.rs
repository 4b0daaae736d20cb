//! Multiplying an instant by a fixed ratio, rounded down, exactly and without dividing.
//!
//! A decision turns `now` into another scale: ticks of a bucket, or the number of a window.
//! Dividing by a number that is only known at run time costs more than the rest of the decision;
//! here it is two multiplications.
//!
//! **Why it is exact.** Let the ratio be `a/b` with `b < 2^61`, and `M` the least integer that is
//! at least `2^125 * a/b`. For `x < 2^64` the product `x * M / 2^125` is at least `x * a/b` and
//! above it by less than `2^64 / 2^125 = 2^-61 < 1/b`. A multiple of `1/b` that close has the same
//! whole part, so rounding down gives `floor(x * a/b)`. Rounding down in two steps, first by `2^64`
//! and then by `2^61`, is rounding down once.

/// A ratio between 0 and 4 whose denominator is below 2^61.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ratio {
    high: u64,
    low: u64,
}

impl Ratio {
    /// `numerator / denominator`.
    pub(super) const fn new(numerator: u64, denominator: u64) -> Self {
        assert!(denominator > 0 && denominator < 1 << 61, "the proof needs a denominator below 2^61");
        assert!(numerator / 4 <= denominator, "the multiplier has room for 4");
        let (wide, by) = (numerator as u128, denominator as u128);
        let whole = wide / by;
        // The fraction's 125 bits in two steps, since a remainder shifted by 125 would not fit.
        let upper = ((wide % by) << 64) / by;
        let rest = ((wide % by) << 64) % by;
        let lower = (rest << 61) / by;
        let exact = (rest << 61).is_multiple_of(by);
        let multiplier = (whole << 125) + (upper << 61) + lower + if exact { 0 } else { 1 };
        Self { high: (multiplier >> 64) as u64, low: multiplier as u64 }
    }

    /// `x` times the ratio, rounded down; saturates at `u64::MAX`.
    #[inline]
    pub(super) const fn of(self, x: u64) -> u64 {
        let x = x as u128;
        let product = (x * self.high as u128 + ((x * self.low as u128) >> 64)) >> 61;
        if product > u64::MAX as u128 { u64::MAX } else { product as u64 }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn divided(x: u64, numerator: u64, denominator: u64) -> u64 {
        let product = u128::from(x) * u128::from(numerator) / u128::from(denominator);
        u64::try_from(product).unwrap_or(u64::MAX)
    }

    #[test]
    fn four_and_the_smallest_parts_are_exact_at_both_ends() {
        for (a, b) in [(4, 1), (1, 1), (1, (1 << 61) - 1), (0, 7), ((1 << 61) - 1, (1 << 61) - 1), (7, 3)] {
            for x in [0, 1, 2, 3, b - 1, b, b + 1, u64::MAX / 4, u64::MAX - 1, u64::MAX] {
                assert_eq!(Ratio::new(a, b).of(x), divided(x, a, b), "{x} * {a}/{b}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn a_product_is_what_a_division_gives(
            x: u64, shift in 0_u32..60, b in 1_u64..1 << 61, part: u64, multiple in 0_u64..1 << 20,
        ) {
            let b = (b >> shift).max(1);
            let a = part % (4 * b) + 1;
            let ratio = Ratio::new(a, b);
            prop_assert_eq!(ratio.of(x), divided(x, a, b));
            // Beside a whole result, where a multiplier that is too small or too large shows first.
            let beside = (u128::from(multiple) * u128::from(b) / u128::from(a)).min(u128::from(u64::MAX - 1)) as u64;
            for x in [beside.saturating_sub(1), beside, beside + 1] {
                prop_assert_eq!(ratio.of(x), divided(x, a, b));
            }
        }
    }
}
