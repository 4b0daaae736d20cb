//! Quantiles of delays, in a few thousand bytes however many delays there are.

/// Counts of delays: exact below sixteen nanoseconds, then in steps of a sixteenth.
#[derive(Debug)]
pub struct Delays {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

const STEP_BITS: u32 = 4;

impl Default for Delays {
    fn default() -> Self {
        Self::new()
    }
}

impl Delays {
    /// No delays yet.
    pub fn new() -> Self {
        Self { counts: vec![0; place(u64::MAX) + 1], total: 0, max: 0 }
    }

    /// Counts a delay, in nanoseconds.
    pub fn add(&mut self, delay: u64) {
        self.counts[place(delay)] += 1;
        self.total += 1;
        self.max = self.max.max(delay);
    }

    /// The longest delay, exact.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The delay that so many in a thousand did not exceed, at most a sixteenth too low. 0 without
    /// delays.
    pub fn quantile(&self, in_a_thousand: u64) -> u64 {
        let wanted = (u128::from(self.total) * u128::from(in_a_thousand)).div_ceil(1000) as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return least(at);
            }
        }
        0
    }
}

fn place(delay: u64) -> usize {
    let bits = u64::BITS - delay.leading_zeros();
    let shift = bits.saturating_sub(STEP_BITS + 1);
    (shift as usize) * (1 << STEP_BITS) + (delay >> shift) as usize
}

/// The least delay that is counted in a place.
fn least(place: usize) -> u64 {
    let steps = 1 << STEP_BITS;
    if place < 2 * steps {
        return place as u64;
    }
    let shift = place / steps - 1;
    ((place - shift * steps) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_counted_at_most_a_sixteenth_too_low() {
        for delay in (0..100_000).chain([u64::MAX, u64::MAX / 3, 1 << 40]) {
            let counted = least(place(delay));
            assert!(counted <= delay && delay - counted <= delay / 16, "{delay} {counted}");
        }
    }

    #[test]
    fn quantiles_are_those_of_what_was_added() {
        let mut delays = Delays::new();
        (0..1000).for_each(|delay| delays.add(delay * 1000));
        assert_eq!(Delays::new().quantile(500), 0);
        assert!((460_000..=500_000).contains(&delays.quantile(500)));
        assert!((920_000..=990_000).contains(&delays.quantile(990)));
        assert_eq!(delays.max(), 999_000);
    }
}
