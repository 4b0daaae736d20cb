//! The keys by which a thread finds combinations of rows.

/// The key of a combination of requests without names, among those of all meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BaseKey {
    /// The number of a meter or of one of its feature lists; see [`super::next_list_number`].
    pub(crate) list: u64,
    pub(crate) rows: u64,
}

impl BaseKey {
    pub(super) const NONE: Self = Self { list: 0, rows: 0 };

    /// Its place among this power of two of places.
    #[inline]
    pub(super) const fn place(self, bits: u32) -> usize {
        ((self.rows ^ self.list).wrapping_mul(SPREAD) >> (64 - bits)) as usize
    }
}

/// The key of a combination of requests with names: a keyed hash, as those of limits are kept. Two
/// keys of different requests are the same with a probability of 2^-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamesKey(u64);

impl NamesKey {
    /// The key of no names.
    pub(super) const NONE: Self = Self(0);

    /// Of the keyed hash of the names, and the rest of the request.
    #[inline]
    pub(crate) const fn new(names: u64, base: BaseKey) -> Self {
        // Numbers of lists are spread already.
        Self(names ^ base.list ^ base.rows.wrapping_mul(SPREAD))
    }

    /// Its place among this power of two of places.
    #[inline]
    pub(super) const fn place(self, bits: u32) -> usize {
        (self.0 >> (64 - bits)) as usize
    }
}

/// Spreads numbers over all bits: 2^64 over the golden ratio.
pub(crate) const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
