//! Randomness from a seed: the same on every machine, and in every version of this crate that pins
//! the same generator.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A source of randomness. Each part of a world has one of its own, so that a change to one part
/// draws nothing from another.
#[derive(Clone, Debug)]
pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// The source of the part `part` of the world of `seed`.
    pub fn new(seed: u64, part: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number below `bound`; 0 if that is 0. By multiplication, which prefers some numbers
    /// by less than one part in 2^32 for the bounds used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A whole number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True with `chances` in a thousand. With 0 nothing is drawn.
    pub fn in_a_thousand(&mut self, chances: u64) -> bool {
        chances > 0 && self.below(1000) < chances
    }

    /// A number of the normal distribution with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        libm::sqrt(-2.0 * libm::log(self.unit())) * libm::cos(2.0 * core::f64::consts::PI * self.unit())
    }

    /// A number from 0 to 1, both excluded.
    pub fn unit(&mut self) -> f64 {
        let bits = (self.bits() >> 11) as f64;
        (bits + 0.5) / 9_007_199_254_740_992.0
    }

    /// A span between two arrivals, in nanoseconds, of a Poisson process with `mean` between them.
    pub fn gap(&mut self, mean: f64) -> u64 {
        (-libm::log(self.unit()) * mean) as u64
    }

    /// Seeds for a hasher.
    pub fn seeds(&mut self) -> [u64; 4] {
        [self.bits(), self.bits(), self.bits(), self.bits()]
    }

    /// One of `these`, which are not empty.
    pub fn one_of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len() as u64) as usize]
    }
}
