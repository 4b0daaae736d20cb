//! Numbers that a seed determines.

/// `SplitMix64`: good enough to choose what to try, and the same on every machine.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The numbers of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, any of 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0; as even as tests need it.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// A number from 0 up to and without 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are drawn")]
    pub const fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of `all`, which is not empty.
    pub fn choose<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let mut random = SplitMix64::new(1_234_567);
        let drawn = [(); 3].map(|()| random.next_u64());
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn draws_keep_to_their_bounds() {
        let mut random = SplitMix64::new(1);
        for _ in 0..1000 {
            assert!(random.below(3) < 3);
            assert!((0.0..1.0).contains(&random.fraction()));
            assert!([1, 2].contains(random.choose(&[1, 2])));
        }
    }
}
