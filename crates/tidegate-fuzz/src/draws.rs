//! Numbers made of the input, where something has to vary and the input does not say how.

use tidegate_store::conformance::Random;

/// Numbers that the bytes decide.
#[derive(Debug)]
pub(crate) struct Draws(Random);

impl Draws {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        // FNV-1a.
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self(Random::new(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)))
    }

    /// The next number, any of 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// A number of units: often one at which something changes.
    pub(crate) fn units(&mut self) -> u64 {
        const EDGES: [u64; 8] =
            [0, 1, 2, 1000, 999_999_999_999_999, u32::MAX as u64, u32::MAX as u64 + 1, u64::MAX];
        let edge = self.below(2 * EDGES.len());
        EDGES.get(edge).copied().unwrap_or_else(|| self.bits())
    }
}
