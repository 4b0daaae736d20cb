//! Zipf's law: which key a request is about, where some are asked for far more than others.
//!
//! Exact draws from Zipf's law over any number of keys in constant time and memory, by
//! *rejection-inversion*: a continuous density that lies above the law is inverted, and what lies
//! beside the law is drawn again. The method is that of W. Hörmann and G. Derflinger,
//! "Rejection-inversion to generate variates from monotone discrete distributions", ACM
//! Transactions on Modeling and Computer Simulation 6 (1996), pages 169 to 184.

use super::chance::Chance;

/// Zipf's law: the key of rank `k` is asked for in proportion to `k^-exponent`.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    keys: f64,
    exponent: f64,
    /// The integral of the density up to the middle between the first rank and the second, less the
    /// first's share.
    from: f64,
    /// The same up to half a rank beyond the last.
    to: f64,
    /// A draw within this distance of its rank is taken without computing anything.
    taken: f64,
}

impl Zipf {
    /// The law over `keys` keys, at least one; `exponent` above 0.
    pub fn new(keys: u32, exponent: f64) -> Self {
        let mut law = Self { keys: f64::from(keys.max(1)), exponent, from: 0.0, to: 0.0, taken: 0.0 };
        law.from = law.integral(1.5) - 1.0;
        law.to = law.integral(law.keys + 0.5);
        law.taken = 2.0 - law.inverse(law.integral(2.5) - law.density(2.0));
        law
    }

    /// A key, from 0; the lower, the likelier.
    pub fn draw(&self, chance: &mut Chance) -> u32 {
        loop {
            let under = self.from + chance.unit() * (self.to - self.from);
            let at = self.inverse(under);
            let rank = libm::floor(at + 0.5).clamp(1.0, self.keys);
            if rank - at <= self.taken || under >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u32 - 1;
            }
        }
    }

    fn density(&self, at: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(at))
    }

    /// The integral of the density from 1 to `at`.
    fn integral(&self, at: f64) -> f64 {
        let log = libm::log(at);
        log * relative_expm1((1.0 - self.exponent) * log)
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding may bring it just below the least argument of the logarithm.
        let by = (area * (1.0 - self.exponent)).max(-1.0);
        libm::exp(area * relative_log1p(by))
    }
}

/// `(e^x - 1) / x`, exact near 0.
fn relative_expm1(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::expm1(x) / x } else { 1.0 + x / 2.0 }
}

/// `ln(1 + x) / x`, exact near 0.
fn relative_log1p(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::log1p(x) / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "counts of a test")]
    fn draws_fall_as_the_law_says() {
        for (keys, exponent) in [(1, 1.0), (2, 0.5), (10, 1.0), (100, 0.99), (1000, 1.2)] {
            let law = Zipf::new(keys, exponent);
            let mut chance = Chance::new(7, 1);
            let draws = 200_000;
            let mut counts = vec![0_u32; keys as usize];
            for _ in 0..draws {
                counts[law.draw(&mut chance) as usize] += 1;
            }
            let weight = |rank: usize| f64::powf(rank as f64, -exponent);
            let all: f64 = (1..=keys as usize).map(weight).sum();
            // Chi-squared over cells with enough in them, against its mean and four standard
            // deviations.
            let mut cells = 0.0;
            let mut distance = 0.0;
            for (at, count) in counts.iter().enumerate() {
                let expected = f64::from(draws) * weight(at + 1) / all;
                if expected >= 10.0 {
                    cells += 1.0;
                    distance += (f64::from(*count) - expected).powi(2) / expected;
                }
            }
            assert!(
                distance <= cells + 4.0 * f64::sqrt(2.0 * cells),
                "{keys} {exponent}: {distance} {cells}"
            );
        }
    }
}
